/* Generations: the part of an id that distinguishes the uses of a slot. A process starts with the time
 * since the boot in units of 2^24 ns (17 ms), so two processes of one boot use different generations. The
 * numbers wrap after two years. 0: none. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/instant.h"

enum { GENERATION_SHIFT = 24 };

static inline uint32_t generation_of(instant_ns now_ns) {
    return (uint32_t) ((uint64_t) now_ns >> GENERATION_SHIFT);
}

static inline bool generation_is_later(uint32_t a, uint32_t b) {
    return (int32_t) (a - b) > 0;
}

static inline uint32_t generation_latest(uint32_t a, uint32_t b) {
    if (a == 0 || b == 0)
        return a + b;
    return generation_is_later(a, b) ? a : b;
}

static inline uint32_t generation_next(uint32_t generation) {
    return generation + 1 + (generation == UINT32_MAX);
}

/* Later than any generation that a process can have used until now, if its generations do not run ahead of
 * the time. */
static inline uint32_t generation_first(instant_ns now_ns) {
    return generation_next(generation_of(now_ns));
}
