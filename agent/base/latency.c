#include "base/latency.h"

#include <assert.h>
#include <string.h>

static void turn_windows(struct latency *latency, instant_ns now_ns) {
    int64_t age_ns = now_ns - latency->began_ns, window_ns = LATENCY_WINDOW_MS * NS_PER_MS;

    if (age_ns < window_ns)
        return;
    if (age_ns < 2 * window_ns)
        memcpy(latency->previous, latency->current, sizeof(latency->previous));
    else
        memset(latency->previous, 0, sizeof(latency->previous));
    memset(latency->current, 0, sizeof(latency->current));
    latency->began_ns = now_ns;
}

/* Bucket 4k + i is [2^k (1 + i/4), 2^k (1 + (i + 1)/4)). Longer latencies count in the last one. */
static unsigned bucket_of(uint32_t us) {
    if (us == 0)
        return 0;
    unsigned k = 31 - (unsigned) __builtin_clz(us);
    unsigned quarter = (unsigned) (((uint64_t) us * LATENCY_STEPS >> k) - LATENCY_STEPS);
    unsigned bucket = k * LATENCY_STEPS + quarter;
    return bucket < LATENCY_BUCKETS ? bucket : LATENCY_BUCKETS - 1;
}

/* The largest latency of the bucket. */
static uint32_t bucket_end_us(unsigned bucket) {
    unsigned k = bucket / LATENCY_STEPS, quarter = bucket % LATENCY_STEPS;

    return (uint32_t) ((((uint64_t) (LATENCY_STEPS + quarter + 1) << k) + LATENCY_STEPS - 1) /
                           LATENCY_STEPS -
                       1);
}

void latency_note(struct latency *latency, uint32_t us, instant_ns now_ns) {
    turn_windows(latency, now_ns);
    latency->current[bucket_of(us)]++;
}

uint32_t latency_us(struct latency *latency, unsigned permille, instant_ns now_ns) {
    uint64_t total = 0, seen = 0;

    assert(permille > 0 && permille <= 1000);
    turn_windows(latency, now_ns);
    for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
        total += (uint64_t) latency->current[i] + latency->previous[i];
    if (total == 0)
        return 0;
    for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
        seen += (uint64_t) latency->current[i] + latency->previous[i];
        if (seen * 1000 >= total * permille)
            return bucket_end_us(i);
    }
    return bucket_end_us(LATENCY_BUCKETS - 1);
}
