#include "base/text.h"

#include <assert.h>
#include <stdalign.h>
#include <string.h>

static const uint16_t class_bytes[TEXT_CLASSES] = {32, 48, 64, 96, 128, 256, 512, 1024, 2048};

static_assert(sizeof(struct text) + 2 <= 16 && TEXT_BYTES_MAX + 16 <= 2048,
              "the longest text fits the largest class");

void text_store_init(struct text_store *store, void *memory, size_t size) {
    assert(size % TEXT_BLOCK_BYTES == 0);

    *store = (struct text_store){.memory = memory, .size = size};
}

static unsigned class_for(size_t bytes) {
    unsigned size_class = 0;

    while (class_bytes[size_class] < bytes)
        size_class++;
    assert(size_class < TEXT_CLASSES);
    return size_class;
}

static struct text *class_take(struct text_store *store, unsigned size_class) {
    struct text_class *class = &store->classes[size_class];
    struct text *text = class->first_free;

    if (text) {
        memcpy(&class->first_free, (const void *) text, sizeof(class->first_free));
        return text;
    }
    if (class->fresh_end - class->fresh < class_bytes[size_class]) {
        if (store->size - store->used < TEXT_BLOCK_BYTES)
            return NULL;
        class->fresh = store->memory + store->used;
        class->fresh_end = class->fresh + TEXT_BLOCK_BYTES;
        store->used += TEXT_BLOCK_BYTES;
    }
    text = (struct text *) (void *) class->fresh;
    class->fresh += class_bytes[size_class];
    return text;
}

struct text *text_new(struct text_store *store, const void *head, size_t head_length, const void *tail,
                      size_t tail_length) {
    assert(head_length <= TEXT_BYTES_MAX && tail_length <= TEXT_BYTES_MAX - head_length);

    size_t bytes = offsetof(struct text, bytes) + head_length + tail_length;
    unsigned size_class = class_for(bytes);
    struct text *text = class_take(store, size_class);
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

struct text *text_ref(struct text *text) {
    assert(text->references > 0 && text->references < UINT32_MAX);

    text->references++;
    return text;
}

struct text *text_unref(struct text_store *store, struct text *text) {
    if (!text)
        return NULL;
    assert(text->references > 0);

    if (--text->references == 0) {
        struct text_class *class = &store->classes[text->size_class];
        memcpy((void *) text, &class->first_free, sizeof(class->first_free));
        class->first_free = text;
    }
    return NULL;
}
