/* The terms of a lease: as ACQUIRE and the policy set them. One struct travels from the option parser
 * through the request and its command into the shard's lease, the ledger and the resume token: a new term is
 * a field here, an option in local/lease-command.c, and the code that applies it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct lease_terms {
    uint32_t ttl_ms;          /* first: a free slot's pool link shares its place */
    uint32_t node_timeout_ms; /* of each round */
    uint32_t heartbeat_ms;    /* BEATs come at least this often; 0: none expected */
    uint32_t linger_ms;       /* extended this long after the session's end; for the front alone */
    uint32_t max_hold_ms;     /* 0: no bound */
    uint32_t cooldown_ms;     /* the name stays taken this long after the attempt that acquires it */
    uint8_t fencing;      /* truth: the grant gets a token. A byte, as a ledger may have any value here */
    uint8_t legacy_setnx; /* truth: the lock value begins with LOCK_VALUE_FAR_FUTURE */
};

/* True if the keeper treats leases with either terms alike: then a lease with the one may be handed off to a
 * request with the other. A request with a cooldown gets no hand-off, and a lease with a cooldown is never
 * handed off, since its tenure has no secret (local/registry-report.c). */
static inline bool lease_terms_match(const struct lease_terms *one, const struct lease_terms *other) {
    return one->ttl_ms == other->ttl_ms && one->node_timeout_ms == other->node_timeout_ms &&
           one->heartbeat_ms == other->heartbeat_ms && one->max_hold_ms == other->max_hold_ms &&
           one->fencing == other->fencing && one->legacy_setnx == other->legacy_setnx &&
           other->cooldown_ms == 0;
}
