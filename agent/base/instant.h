/* Instants and durations: signed nanoseconds of CLOCK_BOOTTIME, which goes on during suspend, as the ttl of
 * a key does. */
#pragma once

#include <stdint.h>

typedef int64_t instant_ns;

#define NS_PER_US INT64_C(1000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

#define INSTANT_NEVER INT64_MAX
#define INSTANT_LONG_AGO INT64_C(-1)

static inline instant_ns instant_min(instant_ns a, instant_ns b) {
    return a < b ? a : b;
}

static inline instant_ns instant_max(instant_ns a, instant_ns b) {
    return a > b ? a : b;
}

/* `at` + `duration_ns`, at most INSTANT_NEVER. Both at least 0. */
static inline instant_ns instant_add(instant_ns at, int64_t duration_ns) {
    return at > INSTANT_NEVER - duration_ns ? INSTANT_NEVER : at + duration_ns;
}
