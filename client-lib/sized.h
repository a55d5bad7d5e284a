/* Public structures that begin with their size, which callers and library may know in different versions:
 * members are only ever appended, and all zero is how each was before there was it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Copies what a caller gave into `ret`, which has `size` bytes; what the caller doesn't know is zero. False,
 * and `ret` is untouched, when its size is none of such a structure, of which the first version had
 * `first_size`, or when it wants what this library doesn't know. */
bool sized_take(void *ret, size_t size, size_t first_size, const void *given);

/* Whether a caller's structure is one to be filled. */
bool sized_has_room(const void *room, size_t first_size);

/* Fills it with what it has room for of `ours`, and zero where it has more; it keeps its size. */
void sized_give(void *room, const void *ours, size_t size);
