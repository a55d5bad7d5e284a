#include "base/pool.h"

#include <assert.h>
#include <string.h>

void pool_init(struct pool *pool, void *memory, size_t item_bytes, uint32_t capacity) {
    assert(item_bytes >= sizeof(uint32_t));
    assert(capacity < POOL_NONE);

    *pool = (struct pool){
        .memory = memory,
        .item_bytes = item_bytes,
        .capacity = capacity,
        .first_free = POOL_NONE,
        .last_free = POOL_NONE,
    };
}

uint32_t pool_take(struct pool *pool) {
    uint32_t index = pool->first_free;

    if (index == POOL_NONE)
        return pool_take_fresh(pool);
    memcpy(&pool->first_free, pool_at(pool, index), sizeof(pool->first_free));
    if (pool->first_free == POOL_NONE)
        pool->last_free = POOL_NONE;
    pool->taken++;
    return index;
}

uint32_t pool_take_fresh(struct pool *pool) {
    if (pool->touched == pool->capacity)
        return POOL_NONE;
    pool->taken++;
    return pool->touched++;
}

bool pool_claim(struct pool *pool, uint32_t index) {
    if (index >= pool->capacity)
        return false;
    while (pool->touched <= index) {
        uint32_t fresh = pool->touched++;
        memcpy(pool_at(pool, fresh), &pool->first_free, sizeof(pool->first_free));
        pool->first_free = fresh;
        if (pool->last_free == POOL_NONE)
            pool->last_free = fresh;
    }
    for (uint32_t at = pool->first_free, before = POOL_NONE, next; at != POOL_NONE; before = at, at = next) {
        memcpy(&next, pool_at(pool, at), sizeof(next));
        if (at != index)
            continue;
        memcpy(before == POOL_NONE ? (void *) &pool->first_free : pool_at(pool, before), &next,
               sizeof(next));
        if (pool->last_free == index)
            pool->last_free = before;
        pool->taken++;
        return true;
    }
    return false;
}

void pool_give(struct pool *pool, uint32_t index) {
    assert(index < pool->touched);
    assert(pool->taken > 0);

    memcpy(pool_at(pool, index), &pool->first_free, sizeof(pool->first_free));
    pool->first_free = index;
    if (pool->last_free == POOL_NONE)
        pool->last_free = index;
    pool->taken--;
}

void pool_give_last(struct pool *pool, uint32_t index) {
    const uint32_t none = POOL_NONE;

    if (pool->last_free == POOL_NONE) {
        pool_give(pool, index);
        return;
    }
    assert(index < pool->touched);
    assert(pool->taken > 0);
    memcpy(pool_at(pool, index), &none, sizeof(none));
    memcpy(pool_at(pool, pool->last_free), &index, sizeof(index));
    pool->last_free = index;
    pool->taken--;
}
