/* Histograms for monitoring: counts since the start in fixed buckets, so that a reader of two of them knows
 * what lies between. (latency.h has finer buckets of the last minutes, for percentiles.) Written by one
 * thread; others get copies. All zero: nothing was noted. */
#pragma once

#include <stdint.h>

#include "base/instant.h"

enum {
    HISTOGRAM_FIRST_LOG2_US = 4, /* the first bucket ends at 2^4 = 16 µs, each other one at twice as much, */
    HISTOGRAM_BOUNDS = 20,       /* and the last bound is 2^23 µs = 8.4 s */
    HISTOGRAM_SHARES = 10,
};

/* Durations. */
struct histogram {
    uint64_t counts[HISTOGRAM_BOUNDS + 1]; /* the last one: beyond all bounds */
    uint64_t sum_us;
};

/* Negative durations count as 0. */
static inline void histogram_note(struct histogram *histogram, int64_t ns) {
    uint64_t us = ns > 0 ? (uint64_t) (ns / NS_PER_US) : 0;
    unsigned log2 = 63 - (unsigned) __builtin_clzll(us | 1);
    unsigned bucket = log2 < HISTOGRAM_FIRST_LOG2_US ? 0 : log2 - HISTOGRAM_FIRST_LOG2_US + 1;

    histogram->counts[bucket < HISTOGRAM_BOUNDS ? bucket : HISTOGRAM_BOUNDS]++;
    histogram->sum_us += us;
}

/* The end of the bucket: durations below it. */
static inline uint64_t histogram_bound_us(unsigned bucket) {
    return UINT64_C(1) << (HISTOGRAM_FIRST_LOG2_US + bucket);
}

static inline void histogram_add(struct histogram *sum, const struct histogram *other) {
    for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++)
        sum->counts[i] += other->counts[i];
    sum->sum_us += other->sum_us;
}

/* Shares between 0 and 1, in tenths. */
struct histogram_shares {
    uint64_t counts[HISTOGRAM_SHARES];
    uint64_t sum_permille;
};

/* At most 1,000. */
static inline void histogram_note_share(struct histogram_shares *shares, uint32_t permille) {
    unsigned tenth = permille / (1000 / HISTOGRAM_SHARES);

    shares->counts[tenth < HISTOGRAM_SHARES ? tenth : HISTOGRAM_SHARES - 1]++;
    shares->sum_permille += permille;
}

static inline void histogram_add_shares(struct histogram_shares *sum, const struct histogram_shares *other) {
    for (unsigned i = 0; i < HISTOGRAM_SHARES; i++)
        sum->counts[i] += other->counts[i];
    sum->sum_permille += other->sum_permille;
}
