#include "base/heap.h"

#include <assert.h>

void heap_init(struct heap *heap, struct heap_entry *entries, uint32_t *positions, uint32_t capacity) {
    *heap = (struct heap){.entries = entries, .positions = positions, .capacity = capacity};
}

static void place(struct heap *heap, uint32_t position, struct heap_entry entry) {
    heap->entries[position] = entry;
    heap->positions[entry.item] = position + 1;
}

static void sift_up(struct heap *heap, uint32_t position, struct heap_entry entry) {
    while (position > 0) {
        uint32_t parent = (position - 1) / 2;
        if (heap->entries[parent].at <= entry.at)
            break;
        place(heap, position, heap->entries[parent]);
        position = parent;
    }
    place(heap, position, entry);
}

static void sift_down(struct heap *heap, uint32_t position, struct heap_entry entry) {
    for (;;) {
        uint32_t child = 2 * position + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && heap->entries[child + 1].at < heap->entries[child].at)
            child++;
        if (entry.at <= heap->entries[child].at)
            break;
        place(heap, position, heap->entries[child]);
        position = child;
    }
    place(heap, position, entry);
}

void heap_set(struct heap *heap, uint32_t item, instant_ns at) {
    assert(item < heap->capacity);

    struct heap_entry entry = {.at = at, .item = item};
    uint32_t position = heap->positions[item];
    if (position == 0) {
        assert(heap->count < heap->capacity);
        sift_up(heap, heap->count++, entry);
        return;
    }
    position--;
    if (at < heap->entries[position].at)
        sift_up(heap, position, entry);
    else
        sift_down(heap, position, entry);
}

void heap_remove(struct heap *heap, uint32_t item) {
    assert(item < heap->capacity);

    uint32_t position = heap->positions[item];
    if (position == 0)
        return;
    position--;
    heap->positions[item] = 0;
    struct heap_entry last = heap->entries[--heap->count];
    if (last.item == item)
        return;
    if (position > 0 && last.at < heap->entries[(position - 1) / 2].at)
        sift_up(heap, position, last);
    else
        sift_down(heap, position, last);
}

instant_ns heap_at(const struct heap *heap, uint32_t item) {
    assert(item < heap->capacity);

    uint32_t position = heap->positions[item];
    return position == 0 ? INSTANT_NEVER : heap->entries[position - 1].at;
}

instant_ns heap_earliest(const struct heap *heap) {
    return heap->count == 0 ? INSTANT_NEVER : heap->entries[0].at;
}

uint32_t heap_first(const struct heap *heap) {
    return heap->count == 0 ? HEAP_ABSENT : heap->entries[0].item;
}

static instant_ns frontier_at(const struct heap_walk *walk, uint32_t i) {
    return walk->heap->entries[walk->frontier[i]].at;
}

static void frontier_add(struct heap_walk *walk, uint32_t position) {
    uint32_t i = walk->count++;

    for (; i > 0; i = (i - 1) / 2) {
        if (frontier_at(walk, (i - 1) / 2) <= walk->heap->entries[position].at)
            break;
        walk->frontier[i] = walk->frontier[(i - 1) / 2];
    }
    walk->frontier[i] = position;
}

/* Replaces the first position. */
static void frontier_replace(struct heap_walk *walk, uint32_t position) {
    uint32_t i = 0;

    for (uint32_t child = 1; child < walk->count; child = 2 * i + 1) {
        if (child + 1 < walk->count && frontier_at(walk, child + 1) < frontier_at(walk, child))
            child++;
        if (walk->heap->entries[position].at <= frontier_at(walk, child))
            break;
        walk->frontier[i] = walk->frontier[child];
        i = child;
    }
    walk->frontier[i] = position;
}

void heap_walk_begin(struct heap_walk *walk, const struct heap *heap) {
    walk->heap = heap;
    walk->count = 0;
    if (heap->count > 0)
        frontier_add(walk, 0);
}

uint32_t heap_walk_next(struct heap_walk *walk) {
    const struct heap *heap = walk->heap;

    if (walk->count == 0 || walk->count == HEAP_WALK_MAX)
        return HEAP_ABSENT;
    uint32_t position = walk->frontier[0], child = 2 * position + 1;
    if (child < heap->count)
        frontier_replace(walk, child);
    else if (--walk->count > 0)
        frontier_replace(walk, walk->frontier[walk->count]);
    if (child + 1 < heap->count)
        frontier_add(walk, child + 1);
    return heap->entries[position].item;
}
