#include "core/lease-table.h"

#include <assert.h>

#include "base/hash.h"
#include "core/lock-value.h"

static uint32_t *request_slot(const struct shard *shard, uint64_t request) {
    return &shard->lease_of_request[request % shard->config.requests_max];
}

/* --- ending leases by their secret: a RESUME finds its lease among very many --- */

static uint32_t *ending_chain(const struct shard *shard, const uint8_t secret[SECRET_BYTES]) {
    const uint64_t key[2] = {shard->config.seed, shard->config.seed};
    uint64_t hash = hash_bytes(key, secret, SECRET_LEASE_BYTES);

    return &shard->ending_chains[hash % shard->leases.capacity];
}

static struct lease *ending_at(const struct shard *shard, uint32_t place) {
    return pool_at(&shard->leases, place - 1);
}

static void ending_add(struct shard *shard, struct lease *lease) {
    uint32_t *first = ending_chain(shard, lease->secret), place = lease_table_slot(shard, lease) + 1;

    lease->ending_next = *first;
    lease->ending_before = 0;
    if (*first != 0)
        ending_at(shard, *first)->ending_before = place;
    *first = place;
}

static void ending_remove(struct shard *shard, const struct lease *lease) {
    if (lease->ending_before != 0)
        ending_at(shard, lease->ending_before)->ending_next = lease->ending_next;
    else
        *ending_chain(shard, lease->secret) = lease->ending_next;
    if (lease->ending_next != 0)
        ending_at(shard, lease->ending_next)->ending_before = lease->ending_before;
}

/* False if another agent has resumed the lease since: then a client may resume it here again. */
bool lease_table_is_ending(const struct shard *shard, const uint8_t secret[SECRET_BYTES]) {
    uint32_t at = *ending_chain(shard, secret);

    while (at != 0 && !lock_value_is_next(ending_at(shard, at)->secret, secret))
        at = ending_at(shard, at)->ending_next;
    return at != 0;
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
    if (lease_state_is_ending(lease))
        ending_remove(shard, lease);
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
    lease->stale = lease->foreign_reported = 0;
    lease->foreign_watch = 0;
    list_init(&lease->ending_link);
}

void lease_table_enter(struct shard *shard, struct lease *lease, enum lease_state state) {
    bool was_past = lease_state_is_past_attempts(lease), was_ending = lease_state_is_ending(lease);

    if (lease->state == LEASE_WAITING)
        poll_share_leave(&shard->polls, lease->user);
    if (lease->state == LEASE_HELD)
        shard->counters.held--;
    lease->state = (uint8_t) state;
    assert(!was_past || lease_state_is_past_attempts(lease));
    if (was_past)
        list_unlink(&lease->ending_link);
    else if (lease_state_is_past_attempts(lease))
        leave_attempts(shard, lease);
    if (lease_state_is_ending(lease) && !was_ending)
        ending_add(shard, lease);
    if (state == LEASE_LOST)
        list_append(&shard->lost, &lease->ending_link);
    if (state == LEASE_RELEASING)
        list_append(lease->request == 0 ? &shard->owing : &shard->ending, &lease->ending_link);
    if (state == LEASE_WAITING)
        poll_share_enter(&shard->polls, lease->user);
    if (state == LEASE_HELD)
        shard->counters.held++;
    lease->under_way = lease->undecided = lease->held_back = false;
}
