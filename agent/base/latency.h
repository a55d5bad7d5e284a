/* How long something took of late: counts in buckets that grow by a fifth, over two windows. A percentile
 * covers the window under way and the one before, so the last one to two minutes. */
#pragma once

#include <stdint.h>

#include "base/instant.h"

enum {
    LATENCY_STEPS = 4, /* buckets from each power of two to the next */
    LATENCY_BUCKETS = 24 * LATENCY_STEPS,
    LATENCY_WINDOW_MS = 60 * 1000,
};

/* All zero: nothing yet. */
struct latency {
    instant_ns began_ns; /* the window under way */
    uint32_t current[LATENCY_BUCKETS], previous[LATENCY_BUCKETS];
};

void latency_note(struct latency *latency, uint32_t us, instant_ns now_ns);

/* At most so many us in this many of a thousand cases, up to the end of its bucket; 0 when nothing was noted
 * of late. */
uint32_t latency_us(struct latency *latency, unsigned permille, instant_ns now_ns);
