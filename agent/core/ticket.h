/* A ticket goes with each request to a node, and comes back with the vote: the slot, of a lease or of a
 * leader query, and the serial of the round. */
#pragma once

#include <stdint.h>

static inline uint64_t ticket_of(uint32_t slot, uint32_t serial) {
    return (uint64_t) serial << 32 | slot;
}

static inline uint32_t ticket_slot(uint64_t ticket) {
    return (uint32_t) ticket;
}

static inline uint32_t ticket_serial(uint64_t ticket) {
    return (uint32_t) (ticket >> 32);
}
