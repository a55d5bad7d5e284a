/* Byte strings of up to TEXT_BYTES_MAX in a store of given memory: names and what goes with them, shared by
 * counting references within one thread. Blocks of the memory are dedicated to a size class when first
 * needed, so short names cost little and nothing is allocated. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
    TEXT_BYTES_MAX = 2032,
    TEXT_CLASSES = 9,
    TEXT_BLOCK_BYTES = 16384,
    TEXT_USUAL_BYTES = 128, /* few are longer, with the header */
};

struct text {
    uint32_t references;
    uint16_t size_class;
    uint16_t head_length; /* bytes[0..head_length) */
    uint16_t tail_length; /* the rest, after the head */
    char bytes[];
};

struct text_store {
    unsigned char *memory;
    size_t size;
    size_t used; /* blocks given to classes */
    struct text_class {
        struct text *first_free;
        unsigned char *fresh, *fresh_end; /* the rest of the class's newest block */
    } classes[TEXT_CLASSES];
};

/* Uses `memory` of `size` bytes (a multiple of TEXT_BLOCK_BYTES), aligned for pointers. */
void text_store_init(struct text_store *store, void *memory, size_t size);

/* A text with one reference, or NULL when the store is full. head_length + tail_length at most
 * TEXT_BYTES_MAX. */
struct text *text_new(struct text_store *store, const void *head, size_t head_length, const void *tail,
                      size_t tail_length);

struct text *text_ref(struct text *text);

/* Drops a reference. NULL is fine. Returns NULL. */
struct text *text_unref(struct text_store *store, struct text *text);

static inline const char *text_tail(const struct text *text) {
    return text->bytes + text->head_length;
}
