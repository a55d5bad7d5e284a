#include "base/shared-string.h"

#include <assert.h>
#include <stdalign.h>
#include <string.h>

static const uint16_t class_bytes[SHARED_STRING_CLASSES] = {32, 48, 64, 96, 128, 256, 512, 1024, 2048};

static_assert(sizeof(struct shared_string) + 2 <= 16 && SHARED_STRING_BYTES_MAX + 16 <= 2048,
              "the longest text fits the largest class");

void shared_string_pool_init(struct shared_string_pool *store, void *memory, size_t size) {
    assert(size % SHARED_STRING_BLOCK_BYTES == 0);

    *store = (struct shared_string_pool){.memory = memory, .size = size};
}

static unsigned class_for(size_t bytes) {
    unsigned size_class = 0;

    while (class_bytes[size_class] < bytes)
        size_class++;
    assert(size_class < SHARED_STRING_CLASSES);
    return size_class;
}

static struct shared_string *class_take(struct shared_string_pool *store, unsigned size_class) {
    struct shared_string_class *class = &store->classes[size_class];
    struct shared_string *text = class->first_free;

    if (text) {
        memcpy(&class->first_free, (const void *) text, sizeof(class->first_free));
        return text;
    }
    if (class->fresh_end - class->fresh < class_bytes[size_class]) {
        if (store->size - store->used < SHARED_STRING_BLOCK_BYTES)
            return NULL;
        class->fresh = store->memory + store->used;
        class->fresh_end = class->fresh + SHARED_STRING_BLOCK_BYTES;
        store->used += SHARED_STRING_BLOCK_BYTES;
    }
    text = (struct shared_string *) (void *) class->fresh;
    class->fresh += class_bytes[size_class];
    return text;
}

struct shared_string *shared_string_new(struct shared_string_pool *store, const void *head,
                                        size_t head_length, const void *tail, size_t tail_length) {
    assert(head_length <= SHARED_STRING_BYTES_MAX && tail_length <= SHARED_STRING_BYTES_MAX - head_length);

    size_t bytes = offsetof(struct shared_string, bytes) + head_length + tail_length;
    unsigned size_class = class_for(bytes);
    struct shared_string *text = class_take(store, size_class);
    if (!text)
        return NULL;
    text->references = 1;
    text->size_class = (uint16_t) size_class;
    text->head_length = (uint16_t) head_length;
    text->tail_length = (uint16_t) tail_length;
    if (head_length > 0)
        memcpy(text->bytes, head, head_length);
    if (tail_length > 0)
        memcpy(text->bytes + head_length, tail, tail_length);
    return text;
}

struct shared_string *shared_string_ref(struct shared_string *text) {
    assert(text->references > 0 && text->references < UINT32_MAX);

    text->references++;
    return text;
}

struct shared_string *shared_string_unref(struct shared_string_pool *store, struct shared_string *text) {
    if (!text)
        return NULL;
    assert(text->references > 0);

    if (--text->references == 0) {
        struct shared_string_class *class = &store->classes[text->size_class];
        memcpy((void *) text, &class->first_free, sizeof(class->first_free));
        class->first_free = text;
    }
    return NULL;
}
