/* Byte strings with reference counts, in a pool in the caller's memory, for one thread. A string has two
 * parts, a head and a tail: a name, say, and what belongs to it. The pool's blocks are assigned to a size
 * class when first needed, so short strings take little memory. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
    SHARED_STRING_BYTES_MAX = 2032,
    SHARED_STRING_CLASSES = 10,
    SHARED_STRING_BLOCK_BYTES = 16384,
    SHARED_STRING_UNIT_BYTES = 8,    /* each string begins at a multiple of this in its pool */
    SHARED_STRING_USUAL_BYTES = 128, /* few strings are longer, header included */
};

struct shared_string {
    uint32_t references;
    uint16_t size_class;
    uint16_t head_length; /* bytes[0..head_length) */
    uint16_t tail_length; /* behind the head */
    char bytes[];
};

struct shared_string_pool {
    unsigned char *memory;
    size_t size;
    size_t used; /* of `memory`: in blocks that have a class */
    struct shared_string_class {
        struct shared_string *first_free;
        unsigned char *fresh, *fresh_end; /* unused part of its newest block */
    } classes[SHARED_STRING_CLASSES];
};

/* The size of a pool with room for so many strings, each of at most `length_max` bytes. */
size_t shared_string_pool_bytes(size_t strings, size_t length_max);

/* `size`: a multiple of SHARED_STRING_BLOCK_BYTES. `memory` is aligned for pointers. */
void shared_string_pool_init(struct shared_string_pool *pool, void *memory, size_t size);

/* A string with one reference; NULL: the pool is full. head_length + tail_length: at most
 * SHARED_STRING_BYTES_MAX. */
struct shared_string *shared_string_new(struct shared_string_pool *pool, const void *head,
                                        size_t head_length, const void *tail, size_t tail_length);

struct shared_string *shared_string_ref(struct shared_string *string);

/* Drops a reference; the last one frees the string. NULL is fine. Returns NULL. */
struct shared_string *shared_string_unref(struct shared_string_pool *pool, struct shared_string *string);

static inline const char *shared_string_tail(const struct shared_string *string) {
    return string->bytes + string->head_length;
}
