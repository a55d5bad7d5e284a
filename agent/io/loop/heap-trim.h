/* Gives freed memory back to the system when a load is gone: the allocator alone keeps most of it. One for
 * the process; owned by the front, whose connections have the large buffers. */
#pragma once

#include <stddef.h>

#include "base/instant.h"

struct heap_trim {
    size_t freed_bytes; /* since the last time */
    instant_ns due_ns;  /* INSTANT_NEVER: nothing to give back */
};

void heap_trim_init(struct heap_trim *trim);

/* So many bytes were freed. */
void heap_trim_note(struct heap_trim *trim, size_t bytes);

/* When heap_trim_tick() has something to do. After a few MiB, a moment later: what is freed by one load is
 * given back at once. */
instant_ns heap_trim_due_ns(struct heap_trim *trim, instant_ns now_ns);
void heap_trim_tick(struct heap_trim *trim, instant_ns now_ns);
