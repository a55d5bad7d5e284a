/* The agent's only clock: CLOCK_BOOTTIME, read without a system call. */
#pragma once

#include <time.h>

#include "base/instant.h"

static inline instant_ns clock_now_ns(void) {
    struct timespec now;

    (void) clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t) now.tv_sec * NS_PER_S + now.tv_nsec;
}
