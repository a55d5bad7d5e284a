/* One piece of memory, handed out in parts: how much is needed is counted by the same code that hands it
 * out. */
#pragma once

#include <stddef.h>

enum { MEMORY_LAYOUT_ALIGNMENT = 64 };

/* The next `bytes` of it; with base NULL they are only counted. */
static inline void *memory_layout_next(unsigned char *base, size_t *offset, size_t bytes) {
    void *piece = base ? base + *offset : NULL;

    *offset += (bytes + MEMORY_LAYOUT_ALIGNMENT - 1) / MEMORY_LAYOUT_ALIGNMENT * MEMORY_LAYOUT_ALIGNMENT;
    return piece;
}
