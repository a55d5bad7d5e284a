/* Public structures that begin with their size, of which caller and library may have different versions. New
 * members are appended, and 0 means the behaviour before the member existed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Copies the caller's structure to `ret` of `size` bytes; members that the caller lacks become 0. False,
 * with `ret` untouched: the size is impossible (`first_size`: of the first version), or a member that this
 * library lacks is not 0. */
bool sized_take(void *ret, size_t size, size_t first_size, const void *given);

/* Whether the caller's structure has a possible size to be filled. */
bool sized_has_room(const void *room, size_t first_size);

/* Fills the caller's structure, which keeps its size, from `ours`; members that `ours` lacks become 0. */
void sized_give(void *room, const void *ours, size_t size);
