/* A pool of items of one size, addressed by index, in the caller's memory. Memory is touched only as items
 * are used, so a pool may be sized for the worst case. An item keeps its bytes from one use to the next,
 * except the first four. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POOL_NONE UINT32_MAX

struct pool {
    unsigned char *memory;
    size_t item_bytes;
    uint32_t capacity;
    uint32_t touched;               /* items that were ever taken; the memory behind them is untouched */
    uint32_t first_free, last_free; /* of the items that were given back */
    uint32_t taken;
};

/* `memory`: capacity × item_bytes zeroed bytes, aligned for the items. item_bytes: at least 4. */
void pool_init(struct pool *pool, void *memory, size_t item_bytes, uint32_t capacity);

/* Takes an item. Its index, or POOL_NONE when all are taken. */
uint32_t pool_take(struct pool *pool);

/* The item that pool_take() reuses next; POOL_NONE: it takes a fresh one. */
static inline uint32_t pool_next(const struct pool *pool) {
    return pool->first_free;
}

/* Takes an item that was never taken. POOL_NONE: there is none. */
uint32_t pool_take_fresh(struct pool *pool);

/* Takes the item with this index. False: it is taken, or there is none. Cheap in ascending order of indices,
 * before any item was given back. */
bool pool_claim(struct pool *pool, uint32_t index);

/* Gives an item back. It is taken next. */
void pool_give(struct pool *pool, uint32_t index);

/* Gives an item back. It is taken after all items that were given back before. */
void pool_give_last(struct pool *pool, uint32_t index);

static inline void *pool_at(const struct pool *pool, uint32_t index) {
    return pool->memory + (size_t) index * pool->item_bytes;
}

/* The index of an item. `type` is the items' type, so that the division is by a constant. */
#define pool_index(pool, type, item) ((uint32_t) ((item) - (const type *) (const void *) (pool)->memory))
