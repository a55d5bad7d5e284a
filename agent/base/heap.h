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
} __attribute__((packed, aligned(4))); /* there is one for each lease, here and there: 12 bytes, not 16 */

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

/* When `item` is due; INSTANT_NEVER when it is not in. */
instant_ns heap_at(const struct heap *heap, uint32_t item);

/* The earliest instant; INSTANT_NEVER when empty. */
instant_ns heap_earliest(const struct heap *heap);

/* The item at the root; HEAP_ABSENT when empty. */
uint32_t heap_first(const struct heap *heap);

/* The items in the order of their instants, without taking them out. A walk ends after some HEAP_WALK_MAX
 * items, or when the heap changes. */
enum { HEAP_WALK_MAX = 1024 };

struct heap_walk {
    const struct heap *heap;
    uint32_t count;
    uint32_t frontier[HEAP_WALK_MAX]; /* positions of those that may be next, a heap of its own */
};

void heap_walk_begin(struct heap_walk *walk, const struct heap *heap);

/* HEAP_ABSENT at the end. */
uint32_t heap_walk_next(struct heap_walk *walk);
