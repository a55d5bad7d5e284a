/* What is due when: items named by index, each at one instant at most, in memory that the caller gives. Many
 * are due at the same instant (the names of one call are), so a heap orders the instants, and each has a
 * list of its items: to move a call's names on costs one step of the heap and a few links. One timer a loop,
 * armed for the earliest instant, serves any number of items. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/instant.h"
#include "base/pool.h"

#define TIMER_QUEUE_ABSENT UINT32_MAX

enum { TIMER_QUEUE_RECENT = 16 };

struct timer_queue_item {
    uint32_t moment; /* index + 1, so that zeroed memory means absent */
    uint32_t next, previous;
};

struct timer_queue {
    struct timer_queue_item *items;
    uint32_t capacity;
    struct pool moments;                 /* each has the index of its first item */
    struct heap heap;                    /* of moments */
    uint32_t recent[TIMER_QUEUE_RECENT]; /* moments that were used of late, by a hash of their instant: index
                                            + 1 */
};

/* How much memory `capacity` items want. Most of it is touched only as they are used. */
size_t timer_queue_memory_bytes(uint32_t capacity);

/* `memory`: that many zeroed bytes, aligned for pointers; items are 0..capacity-1. */
void timer_queue_init(struct timer_queue *agenda, void *memory, uint32_t capacity);

/* Puts `item` at `at`, moving it when it is there already. */
void timer_queue_set(struct timer_queue *agenda, uint32_t item, instant_ns at);

/* Takes `item` out; nothing happens when it is not in. */
void timer_queue_remove(struct timer_queue *agenda, uint32_t item);

/* When `item` is due; INSTANT_NEVER when it is not in. */
instant_ns timer_queue_at(const struct timer_queue *agenda, uint32_t item);

/* The earliest instant; INSTANT_NEVER when empty. */
instant_ns timer_queue_earliest(const struct timer_queue *agenda);

/* An item of the earliest instant; TIMER_QUEUE_ABSENT when empty. */
uint32_t timer_queue_first(const struct timer_queue *agenda);

/* The item behind this one at the same instant, or the first one again: for prefetching, which begins with
 * that item's links. */
uint32_t timer_queue_neighbour(const struct timer_queue *agenda, uint32_t item);

/* `item` will be moved soon: its links are fetched from memory meanwhile. */
void timer_queue_expect(const struct timer_queue *agenda, uint32_t item);

/* The items in the order of their instants, without taking them out. A walk ends after some HEAP_WALK_MAX
 * instants, or when the agenda changes. */
struct timer_queue_walk {
    const struct timer_queue *agenda;
    struct heap_walk moments;
    uint32_t first, next; /* of the present instant; next is TIMER_QUEUE_ABSENT at its end */
};

void timer_queue_walk_begin(struct timer_queue_walk *walk, const struct timer_queue *agenda);

/* TIMER_QUEUE_ABSENT at the end, and from then on. */
uint32_t timer_queue_walk_next(struct timer_queue_walk *walk);
