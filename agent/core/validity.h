/* How long a majority's answer is worth (the Redlock algorithm, "distributed locks" in the Redis
 * documentation): deadline = instant just before this attempt's first send + ttl − drift. */
#pragma once

#include "base/instant.h"
#include "core/limits.h"

/* What the clocks' rates may differ by over one ttl. */
static inline int64_t validity_drift_ns(uint32_t ttl_ms) {
    return (int64_t) ttl_ms * NS_PER_MS / DRIFT_DIVISOR + DRIFT_FIXED_MS * NS_PER_MS;
}

static inline instant_ns validity_deadline_ns(instant_ns started_ns, uint32_t ttl_ms) {
    return started_ns + (int64_t) ttl_ms * NS_PER_MS - validity_drift_ns(ttl_ms);
}

/* How long a node rests, so that all leases with a ttl up to this one have ended that it may have forgotten.
 */
static inline int64_t validity_quarantine_ns(uint32_t ttl_ms) {
    return (int64_t) ttl_ms * NS_PER_MS + QUARANTINE_MARGIN_MS * NS_PER_MS + validity_drift_ns(ttl_ms);
}

/* When a key that was set or extended at `answered_ns` at the latest has gone from its node. */
static inline instant_ns validity_key_gone_ns(instant_ns answered_ns, uint32_t ttl_ms) {
    return answered_ns + (int64_t) ttl_ms * NS_PER_MS + validity_drift_ns(ttl_ms);
}
