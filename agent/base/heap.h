/* A binary min-heap of instants over items named by index, in memory that the caller gives. Each item keeps
 * its position, so that it can be moved and removed in O(log n). One timer a loop, armed for the root,
 * serves any number of leases. */
#pragma once

#include <stdint.h>

#include "base/instant.h"

#define HEAP_ABSENT UINT32_MAX

struct heap_entry {
    instant_ns at;
    uint32_t item;
};

struct heap {
    struct heap_entry *entries;
    uint32_t *positions; /* by item: position + 1, so that zeroed memory means absent */
    uint32_t count;
    uint32_t capacity;
};

/* Uses `entries` and zeroed `positions`, `capacity` of each; items are 0..capacity-1. */
void heap_init(struct heap *heap, struct heap_entry *entries, uint32_t *positions, uint32_t capacity);

/* Puts `item` at `at`, moving it when it is there already. */
void heap_set(struct heap *heap, uint32_t item, instant_ns at);

/* Takes `item` out; nothing happens when it is not in. */
void heap_remove(struct heap *heap, uint32_t item);

/* The earliest instant; INSTANT_NEVER when empty. */
instant_ns heap_earliest(const struct heap *heap);

/* The item at the root; HEAP_ABSENT when empty. */
uint32_t heap_first(const struct heap *heap);
