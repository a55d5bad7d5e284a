/* A binary min-heap of instants over items with indices, in the caller's memory. The heap knows the position
 * of each item, so an item moves and leaves in O(log n). One timer of a loop, armed for the root, serves any
 * number of items. */
#pragma once

#include <stdint.h>

#include "base/instant.h"

#define HEAP_ABSENT UINT32_MAX

struct heap_entry {
    instant_ns at;
    uint32_t item;
} __attribute__((packed, aligned(4))); /* 12 bytes, not 16: two threads have an entry for each lease */

struct heap {
    struct heap_entry *entries;
    uint32_t *positions; /* by item: position + 1; 0: absent */
    uint32_t count;
    uint32_t capacity;
};

/* `capacity` entries, and as many zeroed positions. Items are 0..capacity-1. */
void heap_init(struct heap *heap, struct heap_entry *entries, uint32_t *positions, uint32_t capacity);

/* Adds the item, or moves it, to this instant. */
void heap_set(struct heap *heap, uint32_t item, instant_ns at);

/* Removes the item, if it is in the heap. */
void heap_remove(struct heap *heap, uint32_t item);

/* The item's instant; INSTANT_NEVER: absent. */
instant_ns heap_at(const struct heap *heap, uint32_t item);

/* The earliest instant; INSTANT_NEVER: the heap is empty. */
instant_ns heap_earliest(const struct heap *heap);

/* The item at the root; HEAP_ABSENT: the heap is empty. */
uint32_t heap_first(const struct heap *heap);

/* A walk over the items in the order of their instants, which removes none. It ends after about
 * HEAP_WALK_MAX items, and is invalid once the heap changes. */
enum { HEAP_WALK_MAX = 1024 };

struct heap_walk {
    const struct heap *heap;
    uint32_t count;
    uint32_t frontier[HEAP_WALK_MAX]; /* positions that may be next: a heap, too */
};

void heap_walk_begin(struct heap_walk *walk, const struct heap *heap);

/* The next item; HEAP_ABSENT: the end. */
uint32_t heap_walk_next(struct heap_walk *walk);
