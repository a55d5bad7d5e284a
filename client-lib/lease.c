#include "lease.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "deadline-view.h"

struct redlock_lease *lease_new(struct client *client, const char *name,
                                const struct redlock_options *options, int64_t now_ns) {
    size_t length = strlen(name);
    struct redlock_lease *lease = calloc(1, sizeof(*lease) + length + 1 + options->data_length);

    if (!lease)
        return NULL;
    memcpy(lease->name, name, length + 1);
    lease->options = *options;
    lease->options.data = lease->name + length + 1;
    if (options->data_length > 0)
        memcpy(lease->name + length + 1, options->data, options->data_length);
    lease->asked_ns = now_ns;
    lease->resume_ns = INT64_MAX;
    lease->connection = client->connection;
    lease->clock = &client->clock;
    lease->next = client->leases;
    client->leases = lease;
    client->lease_count++;
    return lease;
}

void lease_forget_token(struct redlock_lease *lease) {
    if (lease->resume_token)
        explicit_bzero(lease->resume_token, lease->resume_length);
    free(lease->resume_token);
    lease->resume_token = NULL;
}

void lease_free(struct client *client, struct redlock_lease *lease) {
    struct redlock_lease **link = &client->leases;

    while (*link != lease)
        link = &(*link)->next;
    *link = lease->next;
    client->lease_count--;
    lease_forget_token(lease);
    free(lease);
}

void lease_free_orphan(struct client *client, struct redlock_lease *lease) {
    if (lease->orphan && lease->replies_awaited == 0 && !lease->in_call)
        lease_free(client, lease);
}

void lease_drop(struct client *client, struct redlock_lease *lease) {
    lease->orphan = true;
    lease_free_orphan(client, lease);
}

struct redlock_lease *lease_find(struct client *client, int64_t id) {
    struct redlock_lease *lease = client->leases;

    while (lease && (lease->id != (uint64_t) id || lease->id == 0 || lease->state == LEASE_OVER))
        lease = lease->next;
    return lease;
}

/* --- the deadline --- */

/* CHECK is sent when half of the validity has passed: the agent extends after three eighths of the ttl. Not
 * in the last two milliseconds, in which its answer would be 0. */
void lease_set_deadline(struct client *client, struct redlock_lease *lease, int64_t deadline_ns) {
    int64_t half_ns = (deadline_ns - client->now_ns) / 2;

    lease->deadline_ns = deadline_ns;
    lease->refresh_ns = half_ns > NS_PER_MS ? client->now_ns + half_ns : deadline_ns;
}

void lease_granted(struct client *client, struct redlock_lease *lease, int64_t deadline_ns, int64_t slot) {
    lease_set_deadline(client, lease, agent_clock_here_ns(&client->clock, deadline_ns));
    lease->slot_id = lease->id;
    lease->slot = deadline_view_slot(client->view, slot);
    lease->state = LEASE_HELD;
    lease->resuming = false;
    lease->risk[0] = '\0';
}

/* The slot's deadline on this process's clock; 0: over. */
static int64_t shown_ns(const struct redlock_lease *lease, const void *slot) {
    int64_t deadline_ns = deadline_view_read_ns(slot, lease->slot_id);

    return deadline_ns != 0 ? agent_clock_here_ns(lease->clock, deadline_ns) : 0;
}

void lease_read_page(struct client *client, struct redlock_lease *lease) {
    int64_t deadline_ns = lease->slot ? shown_ns(lease, lease->slot) : 0;

    if (deadline_ns > lease->deadline_ns)
        lease_set_deadline(client, lease, deadline_ns);
}

bool lease_leave_page(struct client *client, struct redlock_lease *lease) {
    const void *slot = lease->slot;
    int64_t deadline_ns = slot ? shown_ns(lease, slot) : lease->deadline_ns;

    if (slot && deadline_ns != 0)
        lease_set_deadline(client, lease, deadline_ns);
    if (slot && deadline_ns == 0)
        lease->seen_over = true; /* before the slot is cleared: other threads read both */
    lease->slot = NULL;
    return !slot || deadline_ns != 0;
}

/* The deadline as shown in the page, else as last received; 0: not held. */
static int64_t current_ns(const struct redlock_lease *lease) {
    const void *slot;
    int64_t deadline_ns;

    /* Again if a new agent has meanwhile given the lease another slot. */
    do {
        slot = lease->slot;
        deadline_ns = atomic_load_explicit(&lease->deadline_ns, memory_order_acquire);
        if (deadline_ns != 0 && slot)
            deadline_ns = shown_ns(lease, slot);
    } while (slot != lease->slot);
    return deadline_ns;
}

int64_t lease_remaining_ns(const struct redlock_lease *lease, int64_t (*clock_ns)(void)) {
    int64_t deadline_ns, now_ns;

    /* Before the grant 0 is not final. */
    if (atomic_load_explicit(&lease->deadline_ns, memory_order_acquire) == 0)
        return 0;
    /* Again if the lease was extended while this thread was preempted. */
    do {
        deadline_ns = current_ns(lease);
        now_ns = clock_ns();
    } while (now_ns >= deadline_ns && current_ns(lease) > deadline_ns);
    if (now_ns >= deadline_ns)
        ((struct redlock_lease *) (uintptr_t) lease)->seen_over = true;
    /* Read last: once a thread has got 0, all others get 0. */
    return lease->seen_over ? 0 : deadline_ns - now_ns;
}

bool lease_is_valid_at(const struct redlock_lease *lease, int64_t now_ns) {
    return lease->state == LEASE_HELD && !lease->seen_over && current_ns(lease) > now_ns;
}

bool lease_has_ended(const struct redlock_lease *lease, int64_t now_ns) {
    return now_ns >= lease->deadline_ns || lease->seen_over;
}

/* --- the end --- */

bool lease_is_reported(const struct redlock_lease *lease) {
    return lease->given && !lease->orphan;
}

void lease_lost(struct client *client, struct redlock_lease *lease, const char *reason, const char *text) {
    bool report = lease->state == LEASE_HELD && lease_is_reported(lease);

    lease->seen_over = true;
    lease->state = LEASE_OVER;
    lease->deadline_ns = 0;
    lease->resuming = false;
    if (report && client->callbacks.lost)
        client->callbacks.lost(lease, reason, text, client->userdata);
}

void lease_expired(struct client *client, struct redlock_lease *lease, const char *reason,
                   const char *text) {
    static const struct {
        const char *reason, *text;
    } causes[] = {
        {"no-quorum", "no majority of the nodes extended the lease in time"},
        {"heartbeat", "redlock_beat() was not called in time"},
        {"max-hold", "the lease reached its max_hold"},
        {"unread", "the grant was not read in time"},
    };
    char risk[sizeof(lease->risk)];

    memcpy(risk, lease->risk, sizeof(risk));
    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
        if (strcmp(risk, causes[i].reason) == 0)
            text = causes[i].text;
    lease_lost(client, lease, risk[0] ? risk : reason, text);
}
