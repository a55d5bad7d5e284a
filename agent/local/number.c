#include "local/number.h"

#include <assert.h>

#include "base/prefetch.h"
#include "local/registry.h"

enum { INDEX_BITS = 20 };

#define INDEX_MASK ((UINT64_C(1) << INDEX_BITS) - 1)

void numbers_init(struct numbers *numbers, void *memory, const struct pool *requests) {
    assert(requests->capacity <= 1u << INDEX_BITS);
    numbers->requests = requests;
    pool_init(&numbers->slots, memory, sizeof(struct number_slot), requests->capacity);
}

static uint32_t index_of(const struct numbers *numbers, const struct request *request) {
    return (uint32_t) (request - (const struct request *) (const void *) numbers->requests->memory);
}

static struct number_slot *slot_of(const struct numbers *numbers, uint64_t number) {
    uint32_t index = (uint32_t) (number & INDEX_MASK);

    if (index >= numbers->slots.touched)
        return NULL;
    struct number_slot *slot = pool_at(&numbers->slots, index);
    return slot->generation % 2 == 1 && slot->generation == number >> INDEX_BITS ? slot : NULL;
}

uint64_t number_take(struct numbers *numbers, struct request *request) {
    uint32_t index = pool_take(&numbers->slots);

    assert(index != POOL_NONE); /* there are as many as requests */
    struct number_slot *slot = pool_at(&numbers->slots, index);
    slot->generation++;
    assert(slot->generation % 2 == 1);
    slot->request = index_of(numbers, request);
    return (uint64_t) slot->generation << INDEX_BITS | index;
}

void number_move(struct numbers *numbers, uint64_t number, struct request *request) {
    struct number_slot *slot = slot_of(numbers, number);

    assert(slot && request);
    slot->request = index_of(numbers, request);
}

void number_give(struct numbers *numbers, uint64_t number) {
    if (number == 0)
        return;
    struct number_slot *slot = slot_of(numbers, number);
    assert(slot);
    slot->generation++;
    pool_give(&numbers->slots, (uint32_t) (number & INDEX_MASK));
}

void number_expect(const struct numbers *numbers, uint64_t number) {
    uint32_t index = (uint32_t) (number & INDEX_MASK);

    if (index < numbers->slots.touched)
        prefetch(pool_at(&numbers->slots, index), sizeof(struct number_slot));
}

struct request *number_find(const struct numbers *numbers, uint64_t number) {
    const struct number_slot *slot = slot_of(numbers, number);
    return slot ? pool_at(numbers->requests, slot->request) : NULL;
}
