/* The table of a shard's leases: their slots, states, requests and timers. */
#pragma once

#include "core/round-trace.h"
#include "core/shard-state.h"
#include "core/ticket.h"

static inline uint32_t lease_table_slot(const struct shard *shard, const struct lease *lease) {
    return pool_index(&shard->leases, struct lease, lease);
}

/* Of the lease's round. */
static inline uint64_t lease_table_ticket(const struct shard *shard, const struct lease *lease) {
    return ticket_of(lease_table_slot(shard, lease), lease->serial);
}

static inline struct round_trace lease_table_trace(const struct shard *shard, const struct lease *lease) {
    return round_trace_of(shard->traces, lease_table_ticket(shard, lease));
}

/* A zeroed lease; NULL: all slots are taken by leases and requests. If need be, drops the oldest ending
 * one. */
struct lease *lease_table_new(struct shard *shard);

/* Drops the oldest owed release; if none is owed, the lease that was lost, or has cooled, for longest. Its
 * keys are left to their ttl, which lasts as long as the cooldown, so nothing is deleted early; and since
 * the lease no longer ends here, it may be resumed. False: there is neither. */
bool lease_table_drop_oldest(struct shard *shard);

/* The lease belongs to this request of the front; lease_table_find() finds it. */
void lease_table_attach(struct shard *shard, struct lease *lease, uint64_t request);
struct lease *lease_table_find(const struct shard *shard, uint64_t request);

/* The front waits for no more reports of this lease. */
void lease_table_detach(struct shard *shard, struct lease *lease);

/* Enters a state: updates counters and lists, and closes the round. */
void lease_table_enter(struct shard *shard, struct lease *lease, enum lease_state state);

/* Frees a new lease that has not entered a state; frees a lease in any state. */
void lease_table_free(struct shard *shard, struct lease *lease);
void lease_table_forget(struct shard *shard, struct lease *lease);

/* True if the lease with this secret has ended here, its keys may not all be gone, and no other agent has
 * resumed the lease since. */
bool lease_table_is_ending(const struct shard *shard, const uint8_t secret[SECRET_BYTES]);

/* The lease's timer: lease_tick() is due then. */
static inline void lease_table_set_due(struct shard *shard, struct lease *lease, instant_ns due_ns) {
    timer_queue_set(&shard->due, lease_table_slot(shard, lease), due_ns);
}

static inline instant_ns lease_table_due_ns(const struct shard *shard, const struct lease *lease) {
    return timer_queue_at(&shard->due, lease_table_slot(shard, lease));
}
