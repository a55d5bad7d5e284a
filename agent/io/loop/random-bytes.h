/* Random bytes for lock values and resume tokens, from getrandom(2), fetched in bulk. Not thread-safe. */
#pragma once

#include <stdint.h>

#include "core/limits.h"

enum { RANDOM_BYTES_BATCH = 128 };

struct random_bytes {
    uint8_t bytes[RANDOM_BYTES_BATCH][SECRET_BYTES];
    unsigned left;
};

/* All zeroes is the initial state. Aborts when the kernel fails: lock values must be unique. */
void random_bytes_take(struct random_bytes *random_bytes, uint8_t secret[SECRET_BYTES]);
