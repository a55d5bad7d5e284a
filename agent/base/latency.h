/* A histogram of recent latencies. Four buckets to each power of two make an error of at most a fifth. There
 * are two windows, the current and the previous one, so a percentile covers the last one to two minutes. */
#pragma once

#include <stdint.h>

#include "base/instant.h"

enum {
    LATENCY_STEPS = 4, /* buckets to a power of two */
    LATENCY_BUCKETS = 24 * LATENCY_STEPS,
    LATENCY_WINDOW_MS = 60 * 1000,
};

/* All zero: no latency was noted. */
struct latency {
    instant_ns began_ns; /* of the current window */
    uint32_t current[LATENCY_BUCKETS], previous[LATENCY_BUCKETS];
};

void latency_note(struct latency *latency, uint32_t us, instant_ns now_ns);

/* The percentile: the end of the bucket in which this many thousandths of the latencies lie. 0: none was
 * noted recently. */
uint32_t latency_us(struct latency *latency, unsigned permille, instant_ns now_ns);
