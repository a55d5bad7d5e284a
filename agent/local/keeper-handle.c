#include "local/keeper-handle.h"

#include <assert.h>

#include "base/prefetch.h"
#include "local/registry.h"

enum { INDEX_BITS = 20 };

#define INDEX_MASK ((UINT64_C(1) << INDEX_BITS) - 1)

void keeper_handle_table_init(struct keeper_handle_table *table, void *memory, const struct pool *requests) {
    assert(requests->capacity <= 1u << INDEX_BITS);
    table->requests = requests;
    pool_init(&table->slots, memory, sizeof(struct keeper_handle_slot), requests->capacity);
}

static uint32_t index_of(const struct keeper_handle_table *table, const struct request *request) {
    return pool_index(table->requests, struct request, request);
}

static struct keeper_handle_slot *slot_of(const struct keeper_handle_table *table, uint64_t handle) {
    uint32_t index = (uint32_t) (handle & INDEX_MASK);

    if (index >= table->slots.touched)
        return NULL;
    struct keeper_handle_slot *slot = pool_at(&table->slots, index);
    return slot->generation % 2 == 1 && slot->generation == handle >> INDEX_BITS ? slot : NULL;
}

uint32_t keeper_handle_take(struct keeper_handle_table *table, struct request *request) {
    uint32_t index = pool_take(&table->slots);

    assert(index != POOL_NONE); /* as many as requests */
    struct keeper_handle_slot *slot = pool_at(&table->slots, index);
    slot->generation++;
    assert(slot->generation % 2 == 1);
    slot->request = index_of(table, request);
    return index + 1;
}

static struct keeper_handle_slot *taken_slot(const struct keeper_handle_table *table, uint32_t number) {
    struct keeper_handle_slot *slot = pool_at(&table->slots, number - 1);

    assert(slot->generation % 2 == 1);
    return slot;
}

uint64_t keeper_handle_of(const struct keeper_handle_table *table, uint32_t slot) {
    return (uint64_t) taken_slot(table, slot)->generation << INDEX_BITS | (slot - 1);
}

void keeper_handle_move(struct keeper_handle_table *table, uint32_t slot, struct request *request) {
    taken_slot(table, slot)->request = index_of(table, request);
}

void keeper_handle_give(struct keeper_handle_table *table, uint32_t slot) {
    if (slot == 0)
        return;
    taken_slot(table, slot)->generation++;
    pool_give(&table->slots, slot - 1);
}

void keeper_handle_expect(const struct keeper_handle_table *table, uint64_t handle) {
    uint32_t index = (uint32_t) (handle & INDEX_MASK);

    if (index < table->slots.touched)
        prefetch(pool_at(&table->slots, index), sizeof(struct keeper_handle_slot));
}

struct request *keeper_handle_find(const struct keeper_handle_table *table, uint64_t handle) {
    const struct keeper_handle_slot *slot = slot_of(table, handle);
    return slot ? pool_at(table->requests, slot->request) : NULL;
}
