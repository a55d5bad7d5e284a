/* Where the registry has what. */

#include <assert.h>

#include "base/memory-layout.h"
#include "local/registry.h"

static size_t text_bytes(uint32_t requests_max) {
    size_t worst = (size_t) requests_max * (SHARED_STRING_BYTES_MAX + sizeof(struct shared_string));
    return (worst / SHARED_STRING_BLOCK_BYTES + SHARED_STRING_CLASSES) * SHARED_STRING_BLOCK_BYTES;
}

static size_t lay_out(struct registry *registry, uint32_t requests_max, unsigned char *memory) {
    size_t offset = 0;

    void *request_memory =
        memory_layout_next(memory, &offset, (size_t) requests_max * sizeof(struct request));
    void *guise_memory =
        memory_layout_next(memory, &offset, (size_t) requests_max * sizeof(struct request_secrets));
    void *number_memory =
        memory_layout_next(memory, &offset, (size_t) requests_max * sizeof(struct keeper_handle_slot));
    void *name_memory =
        memory_layout_next(memory, &offset, (size_t) requests_max * sizeof(struct name_table_entry));
    void *due_memory = memory_layout_next(memory, &offset, timer_queue_memory_bytes(requests_max));
    void *bucket_memory = memory_layout_next(memory, &offset, (size_t) requests_max * sizeof(uint32_t));
    void *text_memory = memory_layout_next(memory, &offset, text_bytes(requests_max));

    if (memory) {
        pool_init(&registry->requests, request_memory, sizeof(struct request), requests_max);
        pool_init(&registry->secrets_pool, guise_memory, sizeof(struct request_secrets), requests_max);
        keeper_handle_table_init(&registry->numbers, number_memory, &registry->requests);
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
    };
    (void) lay_out(registry, requests_max, memory);
    admission_init(&registry->admission);
    name_table_set_key(&registry->names, hash_key);
}
