#include "core/lease-table.h"

#include <assert.h>
#include <string.h>

#include "core/lock-value.h"

static uint32_t *request_slot(const struct shard *shard, uint64_t request) {
    return &shard->lease_of_request[request % shard->config.requests_max];
}

/* --- slots --- */

bool lease_table_drop_oldest(struct shard *shard) {
    struct list *first = list_first(&shard->owing);

    if (!first)
        first = list_first(&shard->backlog);
    if (!first)
        first = list_first(&shard->lost);
    if (!first)
        return false;
    struct lease *lease = list_entry(first, struct lease, ending_link);
    shard_report_lease(shard, lease, REPORT_RELEASED);
    lease_table_free(shard, lease);
    return true;
}

struct lease *lease_table_new(struct shard *shard) {
    if (shard->leases.taken == shard->leases.capacity)
        (void) lease_table_drop_oldest(shard);
    uint32_t slot = pool_take(&shard->leases);
    if (slot == POOL_NONE)
        return NULL;
    struct lease *lease = pool_at(&shard->leases, slot);
    uint32_t serial = lease->serial;
    assert(lease->state == LEASE_FREE);
    *lease = (struct lease){.serial = serial + 1};
    return lease;
}

void lease_table_attach(struct shard *shard, struct lease *lease, uint64_t request) {
    lease->request = request;
    *request_slot(shard, request) = lease_table_slot(shard, lease) + 1;
}

struct lease *lease_table_find(const struct shard *shard, uint64_t request) {
    uint32_t slot = *request_slot(shard, request);
    if (slot == 0)
        return NULL;
    struct lease *lease = pool_at(&shard->leases, slot - 1);
    return lease->request == request ? lease : NULL;
}

void lease_table_detach(struct shard *shard, struct lease *lease) {
    if (lease->request == 0)
        return;
    uint32_t *slot = request_slot(shard, lease->request);
    if (*slot == lease_table_slot(shard, lease) + 1)
        *slot = 0;
    lease->request = 0;
    if (lease->state == LEASE_RELEASING && !lease->held_back) {
        list_unlink(&lease->ending_link);
        list_append(&shard->owing, &lease->ending_link);
    }
}

void lease_table_free(struct shard *shard, struct lease *lease) {
    uint32_t slot = lease_table_slot(shard, lease);

    lease_table_detach(shard, lease);
    if (lease_state_is_past_attempts(lease)) {
        list_unlink(&lease->ending_link);
        lease->former = shared_string_unref(&shard->texts, lease->former);
    } else {
        lease->seen = shared_string_unref(&shard->texts, lease->seen);
    }
    lease->text = shared_string_unref(&shard->texts, lease->text);
    lease->state = LEASE_FREE;
    lease->serial++;
    timer_queue_remove(&shard->due, slot);
    pool_give(&shard->leases, slot);
}

void lease_table_forget(struct shard *shard, struct lease *lease) {
    lease_table_enter(shard, lease, LEASE_RELEASING);
    lease_table_free(shard, lease);
}

/* --- states --- */

/* The memory that attempts used gets its second meaning: lease-state.h. */
static void leave_attempts(struct shard *shard, struct lease *lease) {
    if (lease->listens)
        shard->sink.listen(shard->sink.userdata, lease->request, lease->text, false);
    lease->listens = false;
    lease->seen = shared_string_unref(&shard->texts, lease->seen);
    lease->former = NULL;
    lease->former_gone_ns = lease->extend_ns = lease->beat_until_ns = 0;
    lease->failures = lease->risk = 0;
    lease->stale = lease->foreign_reported = lease->confirmed = 0;
    list_init(&lease->ending_link);
}

void lease_table_enter(struct shard *shard, struct lease *lease, enum lease_state state) {
    bool was_past = lease_state_is_past_attempts(lease);

    if (lease->state == LEASE_WAITING)
        shard->waiting--;
    if (lease->state == LEASE_HELD)
        shard->counters.held--;
    lease->state = (uint8_t) state;
    assert(!was_past || lease_state_is_past_attempts(lease));
    if (was_past)
        list_unlink(&lease->ending_link);
    else if (lease_state_is_past_attempts(lease))
        leave_attempts(shard, lease);
    if (state == LEASE_LOST)
        list_append(&shard->lost, &lease->ending_link);
    if (state == LEASE_RELEASING)
        list_append(lease->request == 0 ? &shard->owing : &shard->ending, &lease->ending_link);
    if (state == LEASE_WAITING)
        shard->waiting++;
    if (state == LEASE_HELD)
        shard->counters.held++;
    lease->under_way = lease->undecided = lease->held_back = false;
}

/* Not if another agent has resumed the lease since: then the lease comes back. */
static bool is_among(const struct list *leases, const uint8_t secret[SECRET_BYTES]) {
    for (const struct list *at = leases->next; at != leases; at = at->next)
        if (lock_value_is_next(list_entry(at, const struct lease, ending_link)->secret, secret))
            return true;
    return false;
}

bool lease_table_is_ending(const struct shard *shard, const uint8_t secret[SECRET_BYTES]) {
    return is_among(&shard->ending, secret) || is_among(&shard->owing, secret) ||
           is_among(&shard->backlog, secret) || is_among(&shard->lost, secret);
}
