/* The registry's memory, and the ids of its slots. */

#include <assert.h>

#include "base/generation.h"
#include "base/memory-layout.h"
#include "local/registry.h"

static_assert(REQUESTS_MAX == 1 << REQUEST_INDEX_BITS, "an id is a slot's index and its generation");

/* --- memory --- */

/* Each request has a name and the tail of a lock value. */
static size_t text_bytes(uint32_t requests_max) {
    return shared_string_pool_bytes(requests_max, NAME_BYTES_MAX) +
           shared_string_pool_bytes(requests_max, SHARED_STRING_BYTES_MAX);
}

static size_t lay_out(struct registry *registry, uint32_t requests_max, unsigned char *memory) {
    size_t offset = 0;

    void *request_memory =
        memory_layout_next(memory, &offset, (size_t) requests_max * sizeof(struct request));
    void *secrets_memory =
        memory_layout_next(memory, &offset, (size_t) requests_max * sizeof(struct request_secrets));
    void *handle_memory =
        memory_layout_next(memory, &offset, (size_t) requests_max * sizeof(struct keeper_handle_slot));
    void *name_memory =
        memory_layout_next(memory, &offset, (size_t) requests_max * sizeof(struct name_table_entry));
    void *due_memory = memory_layout_next(memory, &offset, timer_queue_memory_bytes(requests_max));
    void *bucket_memory = memory_layout_next(memory, &offset, (size_t) requests_max * sizeof(uint32_t));
    void *text_memory = memory_layout_next(memory, &offset, text_bytes(requests_max));
    void *quota_memory = memory_layout_next(memory, &offset, quota_memory_bytes());

    if (memory) {
        pool_init(&registry->requests, request_memory, sizeof(struct request), requests_max);
        pool_init(&registry->secrets_pool, secrets_memory, sizeof(struct request_secrets), requests_max);
        quota_init(&registry->quota, quota_memory);
        keeper_handle_table_init(&registry->handles, handle_memory, &registry->requests);
        timer_queue_init(&registry->due, due_memory, requests_max);
        shared_string_pool_init(&registry->texts, text_memory, text_bytes(requests_max));
        name_table_init(&registry->names, requests_max, name_memory, bucket_memory, &registry->texts);
    }
    return offset;
}

uint32_t registry_requests_max(uint32_t leases) {
    uint32_t slots = REQUEST_SLOTS_MIN;

    assert(leases <= REQUESTS_MAX);
    while (slots < leases)
        slots *= 2;
    return slots;
}

size_t registry_memory_bytes(uint32_t requests_max) {
    return lay_out(NULL, requests_max, NULL);
}

void registry_init(struct registry *registry, const struct registry_sink *sink, uint32_t requests_max,
                   uint32_t limit, const uint64_t hash_key[2], void *memory) {
    assert(requests_max <= REQUESTS_MAX && (requests_max & (requests_max - 1)) == 0);
    assert(limit <= requests_max && memory);

    *registry = (struct registry){
        .sink = *sink,
        .requests_max = requests_max,
        .limit = limit,
        .names.hash_key = {hash_key[0], hash_key[1]},
        .drops_at_once = REGISTRY_DROPS_AT_ONCE,
    };
    list_init(&registry->leaving);
    (void) lay_out(registry, requests_max, memory);
    admission_init(&registry->admission);
}

/* --- ids --- */

void registry_begin_ids(struct registry *registry, instant_ns now_ns) {
    registry->generation = generation_latest(registry->generation, generation_first(now_ns));
    registry->clock = generation_of(now_ns);
}

/* The generation of the slot's next use. */
static uint32_t next_generation(const struct registry *registry, uint32_t index) {
    uint32_t before = ((const struct request *) pool_at(&registry->requests, index))->generation;

    return generation_next(generation_latest(before, registry->generation));
}

/* A later process might begin with the generation: generation_first() is one more. */
static bool is_ahead_of_time(const struct registry *registry, uint32_t index) {
    return generation_is_later(next_generation(registry, index), generation_next(registry->clock));
}

uint32_t registry_slot_take(struct registry *registry, instant_ns now_ns, uint32_t *ret_generation) {
    uint32_t index = pool_next(&registry->requests), fresh = POOL_NONE;

    registry->clock = generation_latest(registry->clock, generation_of(now_ns));
    if (index != POOL_NONE && is_ahead_of_time(registry, index))
        fresh = pool_take_fresh(&registry->requests);
    index = fresh != POOL_NONE ? fresh : pool_take(&registry->requests);
    if (index != POOL_NONE)
        *ret_generation = next_generation(registry, index);
    return index;
}

/* A slot that is ahead of time rests: the others are used first. */
void registry_slot_give(struct registry *registry, uint32_t index) {
    if (is_ahead_of_time(registry, index))
        pool_give_last(&registry->requests, index);
    else
        pool_give(&registry->requests, index);
}

uint64_t registry_id(const struct registry *registry, const struct request *request) {
    return (uint64_t) request->generation << REQUEST_INDEX_BITS |
           pool_index(&registry->requests, struct request, request);
}

struct request *registry_find(const struct registry *registry, uint64_t id) {
    uint32_t index = (uint32_t) (id & (REQUESTS_MAX - 1));

    if (index >= registry->requests.touched)
        return NULL;
    struct request *request = pool_at(&registry->requests, index);
    return request->state != REQUEST_FREE && request->generation == id >> REQUEST_INDEX_BITS ? request
                                                                                             : NULL;
}

struct request *registry_at(const struct registry *registry, uint32_t *slot) {
    struct request *request = pool_at(&registry->requests, (*slot)++);

    return request->state != REQUEST_FREE ? request : NULL;
}

uint32_t registry_slots(const struct registry *registry) {
    return registry->requests.touched;
}

struct request *registry_next(const struct registry *registry, uint32_t *slot) {
    while (*slot < registry_slots(registry)) {
        struct request *request = registry_at(registry, slot);
        if (request)
            return request;
    }
    return NULL;
}
