#include "base/timer-queue.h"

#include <assert.h>

#include "base/memory-layout.h"
#include "base/prefetch.h"

static size_t lay_out(struct timer_queue *queue, void *memory, uint32_t capacity) {
    size_t offset = 0;

    void *items = memory_layout_next(memory, &offset, (size_t) capacity * sizeof(struct timer_queue_item));
    void *slots = memory_layout_next(memory, &offset, (size_t) capacity * sizeof(uint32_t));
    void *entries = memory_layout_next(memory, &offset, (size_t) capacity * sizeof(struct heap_entry));
    void *positions = memory_layout_next(memory, &offset, (size_t) capacity * sizeof(uint32_t));

    if (memory) {
        *queue = (struct timer_queue){.items = items, .capacity = capacity};
        pool_init(&queue->slots, slots, sizeof(uint32_t), capacity);
        heap_init(&queue->heap, entries, positions, capacity);
    }
    return offset;
}

size_t timer_queue_memory_bytes(uint32_t capacity) {
    return lay_out(NULL, NULL, capacity);
}

void timer_queue_init(struct timer_queue *queue, void *memory, uint32_t capacity) {
    (void) lay_out(queue, memory, capacity);
}

/* --- instants --- */

static uint32_t *first_of(const struct timer_queue *queue, uint32_t slot) {
    return pool_at(&queue->slots, slot);
}

static uint32_t *recent_of(struct timer_queue *queue, instant_ns at) {
    return &queue->recent[((uint64_t) at * UINT64_C(0x9e3779b97f4a7c15)) >> 60];
}

static_assert(TIMER_QUEUE_RECENT == 1 << 4, "the hash has four bits");

/* The slot of this instant, if it was used recently; TIMER_QUEUE_ABSENT otherwise, even if there is one. */
static uint32_t find(struct timer_queue *queue, instant_ns at) {
    uint32_t recent = *recent_of(queue, at);

    if (recent == 0 || at == INSTANT_NEVER || heap_at(&queue->heap, recent - 1) != at)
        return TIMER_QUEUE_ABSENT;
    return recent - 1;
}

/* --- items --- */

static void append(struct timer_queue *queue, uint32_t slot, uint32_t item) {
    struct timer_queue_item *items = queue->items;
    uint32_t first = *first_of(queue, slot), last = items[first].previous;

    items[item] = (struct timer_queue_item){.slot = slot + 1, .next = first, .previous = last};
    items[last].next = item;
    items[first].previous = item;
}

static void begin(struct timer_queue *queue, uint32_t item, instant_ns at) {
    uint32_t slot = pool_take(&queue->slots);

    assert(slot != POOL_NONE); /* there is one for each item */
    *first_of(queue, slot) = item;
    queue->items[item] = (struct timer_queue_item){.slot = slot + 1, .next = item, .previous = item};
    heap_set(&queue->heap, slot, at);
    *recent_of(queue, at) = slot + 1;
}

static void take_out(struct timer_queue *queue, uint32_t item) {
    struct timer_queue_item *items = queue->items, *out = &items[item];
    uint32_t slot = out->slot - 1;

    if (out->next == item) {
        heap_remove(&queue->heap, slot);
        pool_give(&queue->slots, slot);
    } else {
        items[out->previous].next = out->next;
        items[out->next].previous = out->previous;
        if (*first_of(queue, slot) == item)
            *first_of(queue, slot) = out->next;
    }
    out->slot = 0;
}

void timer_queue_set(struct timer_queue *queue, uint32_t item, instant_ns at) {
    assert(item < queue->capacity);

    uint32_t own = queue->items[item].slot, slot = find(queue, at);
    if (own != 0 && heap_at(&queue->heap, own - 1) == at)
        return;
    if (own != 0 && slot == TIMER_QUEUE_ABSENT && queue->items[item].next == item) {
        heap_set(&queue->heap, own - 1, at); /* the only item of its instant: the slot moves */
        *recent_of(queue, at) = own;
        return;
    }
    if (own != 0)
        take_out(queue, item);
    if (slot == TIMER_QUEUE_ABSENT)
        begin(queue, item, at);
    else
        append(queue, slot, item);
}

void timer_queue_remove(struct timer_queue *queue, uint32_t item) {
    assert(item < queue->capacity);

    if (queue->items[item].slot != 0)
        take_out(queue, item);
}

instant_ns timer_queue_at(const struct timer_queue *queue, uint32_t item) {
    assert(item < queue->capacity);

    uint32_t slot = queue->items[item].slot;
    return slot == 0 ? INSTANT_NEVER : heap_at(&queue->heap, slot - 1);
}

instant_ns timer_queue_earliest(const struct timer_queue *queue) {
    return heap_earliest(&queue->heap);
}

uint32_t timer_queue_first(const struct timer_queue *queue) {
    uint32_t slot = heap_first(&queue->heap);
    return slot == HEAP_ABSENT ? TIMER_QUEUE_ABSENT : *first_of(queue, slot);
}

uint32_t timer_queue_neighbour(const struct timer_queue *queue, uint32_t item) {
    assert(item < queue->capacity && queue->items[item].slot != 0);

    uint32_t next = queue->items[item].next;
    prefetch(&queue->items[next], sizeof(queue->items[next]));
    return next;
}

void timer_queue_expect(const struct timer_queue *queue, uint32_t item) {
    prefetch(&queue->items[item], sizeof(queue->items[item]));
}

void timer_queue_walk_begin(struct timer_queue_walk *walk, const struct timer_queue *queue) {
    walk->queue = queue;
    walk->next = TIMER_QUEUE_ABSENT;
    heap_walk_begin(&walk->instants, &queue->heap);
}

uint32_t timer_queue_walk_next(struct timer_queue_walk *walk) {
    const struct timer_queue *queue = walk->queue;

    if (walk->next == TIMER_QUEUE_ABSENT) {
        uint32_t slot = heap_walk_next(&walk->instants);
        if (slot == HEAP_ABSENT)
            return TIMER_QUEUE_ABSENT;
        walk->first = walk->next = *first_of(queue, slot);
    }
    uint32_t item = walk->next, next = queue->items[item].next;
    walk->next = next == walk->first ? TIMER_QUEUE_ABSENT : next;
    return item;
}
