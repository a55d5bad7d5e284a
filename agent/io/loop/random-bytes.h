/* Random bytes for lock values, from the kernel, which is asked for many at a time. One thread's own. */
#pragma once

#include <stdint.h>

#include "core/limits.h"

enum { SECRETS = 128 };

struct random_bytes {
    uint8_t bytes[SECRETS][SECRET_BYTES];
    unsigned left;
};

void random_bytes_take(struct random_bytes *secrets, uint8_t secret[SECRET_BYTES]);
