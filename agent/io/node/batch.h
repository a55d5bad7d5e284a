/* A batch: one script call under way, with its bytes and the tickets of its names. Batches and the memory
 * for bytes are reused, so a turn allocates nothing once the pool is as large as the largest turn. */
#pragma once

#include <stddef.h>

#include "core/event.h"

struct batch {
    struct batch *next;     /* in a free list, or in its owner's list */
    struct batch *next_all; /* of all batches */
    node_set awaited;       /* nodes that have not answered it */
    node_set bounced;       /* nodes to which the call could not be sent */
    node_set silent;        /* release: nodes that publish no message */
    enum operation operation;
    uint32_t count;
    uint32_t room;
    instant_ns sent_ns;
    char *bytes; /* NULL while the batch is free */
    size_t bytes_used, bytes_room;
    uint64_t tickets[];
};

enum { BATCH_SPARES_MAX = 16 };

/* Zeroes are an empty pool. */
struct batch_pool {
    struct batch *free_singles, *free_full;
    struct batch *all;
    struct {
        char *bytes;
        size_t room;
    } spares[BATCH_SPARES_MAX]; /* more are freed after a burst */
    unsigned n_spares;
};

void batch_pool_deinit(struct batch_pool *pool);

/* A batch for `count` names, at most BATCH_NAMES_MAX. Like the following, waits for memory
 * (io/loop/memory.h): without it leases can't be extended. */
struct batch *batch_take(struct batch_pool *pool, uint32_t count);

/* Clears the bytes: they have lock values. */
void batch_give(struct batch_pool *pool, struct batch *batch);

/* Room for the bytes of a batch that has none. */
char *batch_room(struct batch_pool *pool, struct batch *batch, size_t wanted);

/* Memory for `wanted` elements, at least doubled when it grows. */
void *batch_grow(void *memory, size_t *room, size_t wanted, size_t each);
