/* Handles: how a keeper names a lease. A request gets a slot with its first command; the slot's index and
 * generation are the handle. At a hand-off the slot goes to the next holder, so that the keeper's reports
 * reach it. Owned by the front thread. */
#pragma once

#include <stdint.h>

#include "base/pool.h"

struct request;

struct keeper_handle_slot {
    uint32_t request;    /* index; the pool's link while the slot is free */
    uint32_t generation; /* with the slot's index the handle; odd while taken */
};

struct keeper_handle_table {
    struct pool slots;
    const struct pool *requests;
};

/* `memory`: as many zeroed slots as there are slots of requests. */
void keeper_handle_table_init(struct keeper_handle_table *table, void *memory, const struct pool *requests);

/* A slot for the request: its index + 1. */
uint32_t keeper_handle_take(struct keeper_handle_table *table, struct request *request);

/* The slot's handle: never 0, never used twice. No two handles in use are equal modulo the capacity, rounded
 * up to a power of two: the keeper's table relies on it. */
uint64_t keeper_handle_of(const struct keeper_handle_table *table, uint32_t slot);

/* The slot names this request from now on. */
void keeper_handle_move(struct keeper_handle_table *table, uint32_t slot, struct request *request);

/* No effect for 0. */
void keeper_handle_give(struct keeper_handle_table *table, uint32_t slot);

/* Prefetches the slot for keeper_handle_find(). */
void keeper_handle_expect(const struct keeper_handle_table *table, uint64_t handle);

/* The handle's request, or NULL. */
struct request *keeper_handle_find(const struct keeper_handle_table *table, uint64_t handle);
