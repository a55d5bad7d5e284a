/* Validity (the Redlock algorithm, "Distributed Locks with Redis" in the Redis documentation): a majority's
 * answer is valid until the instant just before the round's first send + ttl − drift. */
#pragma once

#include "base/instant.h"
#include "core/limits.h"

/* How far clocks may run apart over one ttl. */
static inline int64_t validity_drift_ns(uint32_t ttl_ms) {
    return (int64_t) ttl_ms * NS_PER_MS / DRIFT_DIVISOR + DRIFT_FIXED_MS * NS_PER_MS;
}

static inline instant_ns validity_deadline_ns(instant_ns started_ns, uint32_t ttl_ms) {
    return started_ns + (int64_t) ttl_ms * NS_PER_MS - validity_drift_ns(ttl_ms);
}

/* The length of a quarantine: by then every forgotten lease with a ttl of at most this one has ended. */
static inline int64_t validity_quarantine_ns(uint32_t ttl_ms) {
    return (int64_t) ttl_ms * NS_PER_MS + QUARANTINE_MARGIN_MS * NS_PER_MS + validity_drift_ns(ttl_ms);
}

/* By then a key that was set or extended at `answered_ns` at the latest has expired on its node. */
static inline instant_ns validity_key_gone_ns(instant_ns answered_ns, uint32_t ttl_ms) {
    return answered_ns + (int64_t) ttl_ms * NS_PER_MS + validity_drift_ns(ttl_ms);
}
