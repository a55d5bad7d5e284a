#include "io/loop/heap-trim.h"

#include <malloc.h>

enum { TRIM_BYTES_MIN = 4 << 20, DELAY_MS = 1000 };

void heap_trim_init(struct heap_trim *trim) {
    *trim = (struct heap_trim){.due_ns = INSTANT_NEVER};
}

void heap_trim_note(struct heap_trim *trim, size_t bytes) {
    trim->freed_bytes += bytes;
}

instant_ns heap_trim_due_ns(struct heap_trim *trim, instant_ns now_ns) {
    if (trim->due_ns == INSTANT_NEVER && trim->freed_bytes >= TRIM_BYTES_MIN)
        trim->due_ns = now_ns + DELAY_MS * NS_PER_MS;
    return trim->due_ns;
}

void heap_trim_tick(struct heap_trim *trim, instant_ns now_ns) {
    if (now_ns < trim->due_ns)
        return;
    heap_trim_init(trim);
    (void) malloc_trim(0);
}
