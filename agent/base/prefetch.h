/* Who goes through thousands of leases, each in memory of its own, waits for memory longer than it works:
 * unless what comes next is fetched meanwhile. */
#pragma once

#include <stddef.h>

enum { CACHE_LINE_BYTES = 64 };

/* Fetches `bytes` from there on, to be read and written soon. Any address will do. */
static inline void prefetch(const void *memory, size_t bytes) {
    for (size_t offset = 0; offset < bytes; offset += CACHE_LINE_BYTES)
        __builtin_prefetch((const char *) memory + offset, 1);
}
