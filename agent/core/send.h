/* Sending requests to the nodes. A ticket comes back with each vote: it has the slot, of a lease or of a
 * leader query, and the serial of the round. */
#pragma once

#include "core/shard-state.h"

/* Sends the lease's operation to these nodes, which can all be asked, in a new round. */
void send_round(struct shard *shard, struct lease *lease, enum operation operation, node_set nodes,
                instant_ns now_ns);

/* Sends the operation to more nodes in the current round: the other votes count on. */
void send_more(struct shard *shard, struct lease *lease, enum operation operation, node_set nodes,
               instant_ns now_ns);

/* Sends a composed request to its nodes, which can all be asked. */
void send_to_nodes(struct shard *shard, const struct send *send, instant_ns now_ns);

static inline uint64_t send_ticket(uint32_t slot, uint32_t serial) {
    return (uint64_t) serial << 32 | slot;
}

static inline uint32_t send_ticket_slot(uint64_t ticket) {
    return (uint32_t) ticket;
}

static inline uint32_t send_ticket_serial(uint64_t ticket) {
    return (uint32_t) (ticket >> 32);
}
