/* Random numbers for delays and jitter: xoshiro256** (Blackman and Vigna). The seed determines them, so a
 * simulation replays. Not for secrets. Not thread-safe. */
#pragma once

#include <stdint.h>

struct random {
    uint64_t state[4];
};

void random_init(struct random *random, uint64_t seed);

uint64_t random_next(struct random *random);

/* Uniform in [low, high]. */
int64_t random_between(struct random *random, int64_t low, int64_t high);
