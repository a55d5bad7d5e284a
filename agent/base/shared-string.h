/* Byte strings of up to SHARED_STRING_BYTES_MAX in a store of given memory: names and what goes with them,
 * shared by counting references within one thread. Blocks of the memory are dedicated to a size class when
 * first needed, so short names cost little and nothing is allocated. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
    SHARED_STRING_BYTES_MAX = 2032,
    SHARED_STRING_CLASSES = 9,
    SHARED_STRING_BLOCK_BYTES = 16384,
    SHARED_STRING_USUAL_BYTES = 128, /* few are longer, with the header */
};

struct shared_string {
    uint32_t references;
    uint16_t size_class;
    uint16_t head_length; /* bytes[0..head_length) */
    uint16_t tail_length; /* the rest, after the head */
    char bytes[];
};

struct shared_string_pool {
    unsigned char *memory;
    size_t size;
    size_t used; /* blocks given to classes */
    struct shared_string_class {
        struct shared_string *first_free;
        unsigned char *fresh, *fresh_end; /* the rest of the class's newest block */
    } classes[SHARED_STRING_CLASSES];
};

/* Uses `memory` of `size` bytes (a multiple of SHARED_STRING_BLOCK_BYTES), aligned for pointers. */
void shared_string_pool_init(struct shared_string_pool *store, void *memory, size_t size);

/* A text with one reference, or NULL when the store is full. head_length + tail_length at most
 * SHARED_STRING_BYTES_MAX. */
struct shared_string *shared_string_new(struct shared_string_pool *store, const void *head,
                                        size_t head_length, const void *tail, size_t tail_length);

struct shared_string *shared_string_ref(struct shared_string *text);

/* Drops a reference. NULL is fine. Returns NULL. */
struct shared_string *shared_string_unref(struct shared_string_pool *store, struct shared_string *text);

static inline const char *shared_string_tail(const struct shared_string *text) {
    return text->bytes + text->head_length;
}
