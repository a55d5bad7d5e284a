#include "io/node/batch.h"

#include <stdlib.h>

#include "base/secret.h"
#include "io/loop/memory.h"
#include "io/loop/secret-memory.h"

void batch_pool_deinit(struct batch_pool *pool) {
    while (pool->all) {
        struct batch *batch = pool->all;
        pool->all = batch->next_all;
        secret_memory_free(batch->bytes, batch->bytes_used);
        free(batch);
    }
    while (pool->n_spares > 0)
        free(pool->spares[--pool->n_spares].bytes);
}

struct batch *batch_take(struct batch_pool *pool, uint32_t count) {
    struct batch **list = count == 1 ? &pool->free_singles : &pool->free_full;
    struct batch *batch = *list;

    if (batch) {
        *list = batch->next;
        return batch;
    }
    uint32_t room = count == 1 ? 1 : BATCH_NAMES_MAX;
    batch = memory_await_zeroed(sizeof(*batch) + room * sizeof(batch->tickets[0]));
    batch->room = room;
    batch->next_all = pool->all;
    pool->all = batch;
    return batch;
}

void batch_give(struct batch_pool *pool, struct batch *batch) {
    struct batch **list = batch->room == 1 ? &pool->free_singles : &pool->free_full;

    secret_clear(batch->bytes, batch->bytes_used);
    if (pool->n_spares < BATCH_SPARES_MAX) {
        pool->spares[pool->n_spares].bytes = batch->bytes;
        pool->spares[pool->n_spares++].room = batch->bytes_room;
    } else {
        free(batch->bytes);
    }
    batch->bytes = NULL;
    batch->bytes_used = batch->bytes_room = 0;
    batch->next = *list;
    *list = batch;
}

char *batch_room(struct batch_pool *pool, struct batch *batch, size_t wanted) {
    if (pool->n_spares > 0) {
        batch->bytes = pool->spares[--pool->n_spares].bytes;
        batch->bytes_room = pool->spares[pool->n_spares].room;
    }
    batch->bytes = batch_grow(batch->bytes, &batch->bytes_room, wanted, 1);
    return batch->bytes;
}

void *batch_grow(void *memory, size_t *room, size_t wanted, size_t each) {
    size_t larger = *room ? *room : 64;

    if (wanted <= *room)
        return memory;
    while (larger < wanted)
        larger *= 2;
    memory = memory_await(memory, larger * each);
    *room = larger;
    return memory;
}
