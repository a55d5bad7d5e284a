/* Returns freed memory to the system after a peak of load; the allocator alone keeps most of it. One for the
 * process, owned by the front, whose connections have the large buffers. */
#pragma once

#include <stddef.h>

#include "base/instant.h"

struct heap_trim {
    size_t freed_bytes; /* since the last trim */
    instant_ns due_ns;  /* INSTANT_NEVER: no trim is planned */
};

void heap_trim_init(struct heap_trim *trim);

/* Counts freed bytes. */
void heap_trim_note(struct heap_trim *trim, size_t bytes);

/* When to call heap_trim_tick(): a second after some MiB were freed, so that one trim serves a whole peak.
 * */
instant_ns heap_trim_due_ns(struct heap_trim *trim, instant_ns now_ns);
void heap_trim_tick(struct heap_trim *trim, instant_ns now_ns);
