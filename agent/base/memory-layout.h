/* Divides one block of memory into parts. The same code counts the bytes (with base NULL) and hands out the
 * parts. */
#pragma once

#include <stddef.h>

enum { MEMORY_LAYOUT_ALIGNMENT = 64 };

/* The next part; NULL with base NULL. Adds its size, rounded up, to `offset`. */
static inline void *memory_layout_next(unsigned char *base, size_t *offset, size_t bytes) {
    void *part = base ? base + *offset : NULL;

    *offset += (bytes + MEMORY_LAYOUT_ALIGNMENT - 1) / MEMORY_LAYOUT_ALIGNMENT * MEMORY_LAYOUT_ALIGNMENT;
    return part;
}
