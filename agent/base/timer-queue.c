#include "base/timer-queue.h"

#include <assert.h>

#include "base/memory-layout.h"
#include "base/prefetch.h"

static size_t lay_out(struct timer_queue *agenda, void *memory, uint32_t capacity) {
    size_t offset = 0;

    void *items = memory_layout_next(memory, &offset, (size_t) capacity * sizeof(struct timer_queue_item));
    void *moments = memory_layout_next(memory, &offset, (size_t) capacity * sizeof(uint32_t));
    void *entries = memory_layout_next(memory, &offset, (size_t) capacity * sizeof(struct heap_entry));
    void *positions = memory_layout_next(memory, &offset, (size_t) capacity * sizeof(uint32_t));

    if (memory) {
        *agenda = (struct timer_queue){.items = items, .capacity = capacity};
        pool_init(&agenda->moments, moments, sizeof(uint32_t), capacity);
        heap_init(&agenda->heap, entries, positions, capacity);
    }
    return offset;
}

size_t timer_queue_memory_bytes(uint32_t capacity) {
    return lay_out(NULL, NULL, capacity);
}

void timer_queue_init(struct timer_queue *agenda, void *memory, uint32_t capacity) {
    (void) lay_out(agenda, memory, capacity);
}

/* --- instants --- */

static uint32_t *first_of(const struct timer_queue *agenda, uint32_t moment) {
    return pool_at(&agenda->moments, moment);
}

static uint32_t *recent_of(struct timer_queue *agenda, instant_ns at) {
    return &agenda->recent[((uint64_t) at * UINT64_C(0x9e3779b97f4a7c15)) >> 60];
}

static_assert(TIMER_QUEUE_RECENT == 1 << 4, "the hash has four bits");

/* The moment of this instant, if it was used of late; otherwise TIMER_QUEUE_ABSENT, and there may be one. */
static uint32_t find(struct timer_queue *agenda, instant_ns at) {
    uint32_t recent = *recent_of(agenda, at);

    if (recent == 0 || at == INSTANT_NEVER || heap_at(&agenda->heap, recent - 1) != at)
        return TIMER_QUEUE_ABSENT;
    return recent - 1;
}

/* --- items --- */

static void append(struct timer_queue *agenda, uint32_t moment, uint32_t item) {
    struct timer_queue_item *items = agenda->items;
    uint32_t first = *first_of(agenda, moment), last = items[first].previous;

    items[item] = (struct timer_queue_item){.moment = moment + 1, .next = first, .previous = last};
    items[last].next = item;
    items[first].previous = item;
}

static void begin(struct timer_queue *agenda, uint32_t item, instant_ns at) {
    uint32_t moment = pool_take(&agenda->moments);

    assert(moment != POOL_NONE); /* there are as many as items */
    *first_of(agenda, moment) = item;
    agenda->items[item] = (struct timer_queue_item){.moment = moment + 1, .next = item, .previous = item};
    heap_set(&agenda->heap, moment, at);
    *recent_of(agenda, at) = moment + 1;
}

static void take_out(struct timer_queue *agenda, uint32_t item) {
    struct timer_queue_item *items = agenda->items, *out = &items[item];
    uint32_t moment = out->moment - 1;

    if (out->next == item) {
        heap_remove(&agenda->heap, moment);
        pool_give(&agenda->moments, moment);
    } else {
        items[out->previous].next = out->next;
        items[out->next].previous = out->previous;
        if (*first_of(agenda, moment) == item)
            *first_of(agenda, moment) = out->next;
    }
    out->moment = 0;
}

void timer_queue_set(struct timer_queue *agenda, uint32_t item, instant_ns at) {
    assert(item < agenda->capacity);

    uint32_t own = agenda->items[item].moment, moment = find(agenda, at);
    if (own != 0 && heap_at(&agenda->heap, own - 1) == at)
        return;
    if (own != 0 && moment == TIMER_QUEUE_ABSENT && agenda->items[item].next == item) {
        heap_set(&agenda->heap, own - 1, at); /* it is alone: its moment goes with it */
        *recent_of(agenda, at) = own;
        return;
    }
    if (own != 0)
        take_out(agenda, item);
    if (moment == TIMER_QUEUE_ABSENT)
        begin(agenda, item, at);
    else
        append(agenda, moment, item);
}

void timer_queue_remove(struct timer_queue *agenda, uint32_t item) {
    assert(item < agenda->capacity);

    if (agenda->items[item].moment != 0)
        take_out(agenda, item);
}

instant_ns timer_queue_at(const struct timer_queue *agenda, uint32_t item) {
    assert(item < agenda->capacity);

    uint32_t moment = agenda->items[item].moment;
    return moment == 0 ? INSTANT_NEVER : heap_at(&agenda->heap, moment - 1);
}

instant_ns timer_queue_earliest(const struct timer_queue *agenda) {
    return heap_earliest(&agenda->heap);
}

uint32_t timer_queue_first(const struct timer_queue *agenda) {
    uint32_t moment = heap_first(&agenda->heap);
    return moment == HEAP_ABSENT ? TIMER_QUEUE_ABSENT : *first_of(agenda, moment);
}

uint32_t timer_queue_neighbour(const struct timer_queue *agenda, uint32_t item) {
    assert(item < agenda->capacity && agenda->items[item].moment != 0);

    uint32_t next = agenda->items[item].next;
    prefetch(&agenda->items[next], sizeof(agenda->items[next]));
    return next;
}

void timer_queue_expect(const struct timer_queue *agenda, uint32_t item) {
    prefetch(&agenda->items[item], sizeof(agenda->items[item]));
}

void timer_queue_walk_begin(struct timer_queue_walk *walk, const struct timer_queue *agenda) {
    walk->agenda = agenda;
    walk->next = TIMER_QUEUE_ABSENT;
    heap_walk_begin(&walk->moments, &agenda->heap);
}

uint32_t timer_queue_walk_next(struct timer_queue_walk *walk) {
    const struct timer_queue *agenda = walk->agenda;

    if (walk->next == TIMER_QUEUE_ABSENT) {
        uint32_t moment = heap_walk_next(&walk->moments);
        if (moment == HEAP_ABSENT)
            return TIMER_QUEUE_ABSENT;
        walk->first = walk->next = *first_of(agenda, moment);
    }
    uint32_t item = walk->next, next = agenda->items[item].next;
    walk->next = next == walk->first ? TIMER_QUEUE_ABSENT : next;
    return item;
}
