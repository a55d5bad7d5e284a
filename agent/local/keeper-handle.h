/* What a keeper knows a lease by. A request gets a number when it first goes to its keeper; when a lease is
 * handed over the number goes with it, so that the keeper's news find whoever has it now. Pure, owned by the
 * front thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"

struct request;

struct keeper_handle_slot {
    uint32_t request;    /* its index; the pool's while the slot is free */
    uint32_t generation; /* with the slot's index it is the number; odd while it is taken */
};

struct keeper_handle_table {
    struct pool slots;
    const struct pool *requests;
};

/* `memory`: of as many zeroed slots as there may be requests. */
void keeper_handle_table_init(struct keeper_handle_table *numbers, void *memory,
                              const struct pool *requests);

/* Never 0, and never the same twice; modulo the capacity, rounded up to a power of two, no two living ones
 * are the same. */
uint64_t keeper_handle_take(struct keeper_handle_table *numbers, struct request *request);

/* It is this request's from now on. */
void keeper_handle_move(struct keeper_handle_table *numbers, uint64_t number, struct request *request);

/* Nothing for 0. */
void keeper_handle_give(struct keeper_handle_table *numbers, uint64_t number);

/* It is about to be looked for: what that touches may be fetched. */
void keeper_handle_expect(const struct keeper_handle_table *numbers, uint64_t number);

/* Whose it is, or NULL. */
struct request *keeper_handle_find(const struct keeper_handle_table *numbers, uint64_t number);
