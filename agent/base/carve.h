/* One piece of memory, handed out in parts: how much is needed is counted by the same code that hands it
 * out. */
#pragma once

#include <stddef.h>

enum { CARVE_ALIGNMENT = 64 };

/* The next `bytes` of it; with base NULL they are only counted. */
static inline void *carve(unsigned char *base, size_t *offset, size_t bytes) {
    void *piece = base ? base + *offset : NULL;

    *offset += (bytes + CARVE_ALIGNMENT - 1) / CARVE_ALIGNMENT * CARVE_ALIGNMENT;
    return piece;
}
