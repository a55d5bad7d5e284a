/* A timer queue: items with indices, each due at one instant at most, in the caller's memory. Many items are
 * due at the same instant (the names of one script call), so a heap orders the instants, and each instant
 * has a list of its items: moving all names of a call costs one step of the heap and a few links. One timer
 * of a loop, armed for the earliest instant, serves any number of items. With a plain heap of items, 100,000
 * leases cost the agent 1.4 times the CPU. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/instant.h"
#include "base/pool.h"

#define TIMER_QUEUE_ABSENT UINT32_MAX

enum { TIMER_QUEUE_RECENT = 16 }; /* instants that are found without a search */

struct timer_queue_item {
    uint32_t slot; /* of its instant: index + 1; 0: absent */
    uint32_t next, previous;
};

struct timer_queue {
    struct timer_queue_item *items;
    uint32_t capacity;
    struct pool slots;                   /* one for each instant: the index of its first item */
    struct heap heap;                    /* of slots */
    uint32_t recent[TIMER_QUEUE_RECENT]; /* recently used slots, by a hash of the instant: index + 1 */
};

/* The memory for `capacity` items. Most of it is touched only as items are used. */
size_t timer_queue_memory_bytes(uint32_t capacity);

/* `memory`: zeroed, aligned for pointers. Items are 0..capacity-1. */
void timer_queue_init(struct timer_queue *queue, void *memory, uint32_t capacity);

/* Adds the item, or moves it, to this instant. */
void timer_queue_set(struct timer_queue *queue, uint32_t item, instant_ns at);

/* Removes the item, if it is in the queue. */
void timer_queue_remove(struct timer_queue *queue, uint32_t item);

/* When the item is due; INSTANT_NEVER: absent. */
instant_ns timer_queue_at(const struct timer_queue *queue, uint32_t item);

/* The earliest instant; INSTANT_NEVER: the queue is empty. */
instant_ns timer_queue_earliest(const struct timer_queue *queue);

/* An item of the earliest instant; TIMER_QUEUE_ABSENT: the queue is empty. */
uint32_t timer_queue_first(const struct timer_queue *queue);

/* The item behind this one at the same instant; behind the last comes the first. Prefetches its links. */
uint32_t timer_queue_neighbour(const struct timer_queue *queue, uint32_t item);

/* Prefetches the links of an item that is moved soon. */
void timer_queue_expect(const struct timer_queue *queue, uint32_t item);

/* A walk over the items in the order of their instants, which removes none. It ends after about
 * HEAP_WALK_MAX instants, and is invalid once the queue changes. */
struct timer_queue_walk {
    const struct timer_queue *queue;
    struct heap_walk instants;
    uint32_t first, next; /* of the current instant; next: TIMER_QUEUE_ABSENT at its end */
};

void timer_queue_walk_begin(struct timer_queue_walk *walk, const struct timer_queue *queue);

/* The next item; TIMER_QUEUE_ABSENT: the end. */
uint32_t timer_queue_walk_next(struct timer_queue_walk *walk);
