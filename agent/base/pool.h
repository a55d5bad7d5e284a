/* A pool of equal items in memory that the caller gives, addressed by index. Pages are touched only as items
 * are used, so a pool may be sized for the worst case. Taking an item leaves its bytes as they were, but for
 * the first four. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POOL_NONE UINT32_MAX

struct pool {
    unsigned char *memory;
    size_t item_bytes;
    uint32_t capacity;
    uint32_t touched; /* items that were ever taken: the rest of the memory is as the caller gave it */
    uint32_t first_free, last_free; /* of those that were given back */
    uint32_t taken;
};

/* Uses `memory` of capacity × item_bytes, zeroed, aligned for the items. item_bytes at least 4. */
void pool_init(struct pool *pool, void *memory, size_t item_bytes, uint32_t capacity);

/* An item's index, or POOL_NONE when all are taken. */
uint32_t pool_take(struct pool *pool);

/* The item that was given back and is taken next, or POOL_NONE when there is none. */
static inline uint32_t pool_next(const struct pool *pool) {
    return pool->first_free;
}

/* Takes an item that was never taken, or POOL_NONE when there is none. */
uint32_t pool_take_fresh(struct pool *pool);

/* Takes the item with this index. False when it is taken, or there is none. Cheap in the order of the
 * indices, before any was given back. */
bool pool_claim(struct pool *pool, uint32_t index);

/* It is the next to be taken. */
void pool_give(struct pool *pool, uint32_t index);

/* It is taken after all others that were given back so far. */
void pool_give_last(struct pool *pool, uint32_t index);

static inline void *pool_at(const struct pool *pool, uint32_t index) {
    return pool->memory + (size_t) index * pool->item_bytes;
}

/* The index of an item of this type, which is the pool's. A subtraction of typed pointers: its divisor is a
 * constant. */
#define pool_index(pool, type, item) \
    ((uint32_t) ((item) - (const type *) (const void *) (pool)->memory))
