#include "local/keeper-handle.h"

#include <assert.h>

#include "base/prefetch.h"
#include "local/registry.h"

enum { INDEX_BITS = 20 };

#define INDEX_MASK ((UINT64_C(1) << INDEX_BITS) - 1)

void keeper_handle_table_init(struct keeper_handle_table *numbers, void *memory,
                              const struct pool *requests) {
    assert(requests->capacity <= 1u << INDEX_BITS);
    numbers->requests = requests;
    pool_init(&numbers->slots, memory, sizeof(struct keeper_handle_slot), requests->capacity);
}

static uint32_t index_of(const struct keeper_handle_table *numbers, const struct request *request) {
    return pool_index(numbers->requests, struct request, request);
}

static struct keeper_handle_slot *slot_of(const struct keeper_handle_table *numbers, uint64_t number) {
    uint32_t index = (uint32_t) (number & INDEX_MASK);

    if (index >= numbers->slots.touched)
        return NULL;
    struct keeper_handle_slot *slot = pool_at(&numbers->slots, index);
    return slot->generation % 2 == 1 && slot->generation == number >> INDEX_BITS ? slot : NULL;
}

uint64_t keeper_handle_take(struct keeper_handle_table *numbers, struct request *request) {
    uint32_t index = pool_take(&numbers->slots);

    assert(index != POOL_NONE); /* there are as many as requests */
    struct keeper_handle_slot *slot = pool_at(&numbers->slots, index);
    slot->generation++;
    assert(slot->generation % 2 == 1);
    slot->request = index_of(numbers, request);
    return (uint64_t) slot->generation << INDEX_BITS | index;
}

void keeper_handle_move(struct keeper_handle_table *numbers, uint64_t number, struct request *request) {
    struct keeper_handle_slot *slot = slot_of(numbers, number);

    assert(slot && request);
    slot->request = index_of(numbers, request);
}

void keeper_handle_give(struct keeper_handle_table *numbers, uint64_t number) {
    if (number == 0)
        return;
    struct keeper_handle_slot *slot = slot_of(numbers, number);
    assert(slot);
    slot->generation++;
    pool_give(&numbers->slots, (uint32_t) (number & INDEX_MASK));
}

void keeper_handle_expect(const struct keeper_handle_table *numbers, uint64_t number) {
    uint32_t index = (uint32_t) (number & INDEX_MASK);

    if (index < numbers->slots.touched)
        prefetch(pool_at(&numbers->slots, index), sizeof(struct keeper_handle_slot));
}

struct request *keeper_handle_find(const struct keeper_handle_table *numbers, uint64_t number) {
    const struct keeper_handle_slot *slot = slot_of(numbers, number);
    return slot ? pool_at(numbers->requests, slot->request) : NULL;
}
