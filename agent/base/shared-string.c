#include "base/shared-string.h"

#include <assert.h>
#include <stdalign.h>
#include <string.h>

static const uint16_t class_units[SHARED_STRING_CLASSES] = {4, 5, 6, 8, 12, 16, 32, 64, 128, 256};

static_assert(sizeof(struct shared_string) + 2 <= 16 && SHARED_STRING_BYTES_MAX + 16 <= 2048,
              "the longest string fits the largest class");

static size_t class_bytes(unsigned size_class) {
    return (size_t) class_units[size_class] * SHARED_STRING_UNIT_BYTES;
}

static unsigned class_for(size_t bytes) {
    unsigned size_class = 0;

    while (class_bytes(size_class) < bytes)
        size_class++;
    assert(size_class < SHARED_STRING_CLASSES);
    return size_class;
}

size_t shared_string_pool_bytes(size_t strings, size_t length_max) {
    size_t each = class_bytes(class_for(offsetof(struct shared_string, bytes) + length_max));

    return (strings * each / SHARED_STRING_BLOCK_BYTES + SHARED_STRING_CLASSES) * SHARED_STRING_BLOCK_BYTES;
}

void shared_string_pool_init(struct shared_string_pool *pool, void *memory, size_t size) {
    assert(size % SHARED_STRING_BLOCK_BYTES == 0);

    *pool = (struct shared_string_pool){.memory = memory, .size = size};
}

static struct shared_string *free_take(struct shared_string_class *class) {
    struct shared_string *string = class->first_free;

    if (string)
        memcpy(&class->first_free, (const void *) string, sizeof(void *));
    return string;
}

static struct shared_string *fresh_take(struct shared_string_pool *pool, unsigned size_class) {
    struct shared_string_class *class = &pool->classes[size_class];

    if ((size_t) (class->fresh_end - class->fresh) < class_bytes(size_class)) {
        if (pool->size - pool->used < SHARED_STRING_BLOCK_BYTES)
            return NULL;
        class->fresh = pool->memory + pool->used;
        class->fresh_end = class->fresh + SHARED_STRING_BLOCK_BYTES;
        pool->used += SHARED_STRING_BLOCK_BYTES;
    }
    struct shared_string *string = (struct shared_string *) (void *) class->fresh;
    class->fresh += class_bytes(size_class);
    return string;
}

/* In a full pool a short string takes a free place of longer ones: blocks keep their class, so the places of
 * former long strings would be lost to short ones. */
static struct shared_string *take(struct shared_string_pool *pool, size_t bytes) {
    for (unsigned size_class = class_for(bytes); size_class < SHARED_STRING_CLASSES; size_class++) {
        struct shared_string *string = free_take(&pool->classes[size_class]);
        if (!string)
            string = fresh_take(pool, size_class);
        if (!string)
            continue;
        string->size_class = (uint16_t) size_class;
        return string;
    }
    return NULL;
}

struct shared_string *shared_string_new(struct shared_string_pool *pool, const void *head,
                                        size_t head_length, const void *tail, size_t tail_length) {
    assert(head_length <= SHARED_STRING_BYTES_MAX && tail_length <= SHARED_STRING_BYTES_MAX - head_length);

    struct shared_string *string =
        take(pool, offsetof(struct shared_string, bytes) + head_length + tail_length);
    if (!string)
        return NULL;
    string->references = 1;
    string->head_length = (uint16_t) head_length;
    string->tail_length = (uint16_t) tail_length;
    if (head_length > 0)
        memcpy(string->bytes, head, head_length);
    if (tail_length > 0)
        memcpy(string->bytes + head_length, tail, tail_length);
    return string;
}

struct shared_string *shared_string_ref(struct shared_string *string) {
    assert(string->references > 0 && string->references < UINT32_MAX);

    string->references++;
    return string;
}

struct shared_string *shared_string_unref(struct shared_string_pool *pool, struct shared_string *string) {
    if (!string)
        return NULL;
    assert(string->references > 0);

    if (--string->references == 0) {
        struct shared_string_class *class = &pool->classes[string->size_class];
        memcpy((void *) string, &class->first_free, sizeof(void *));
        class->first_free = string;
    }
    return NULL;
}
