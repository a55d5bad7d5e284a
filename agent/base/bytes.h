/* Byte strings: a pointer and a length, without a terminating zero. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool bytes_equal(const void *one, size_t one_length, const void *other, size_t other_length) {
    return one_length == other_length && (one_length == 0 || memcmp(one, other, one_length) == 0);
}

static inline bool bytes_begin_with(const void *bytes, size_t length, const void *prefix,
                                    size_t prefix_length) {
    return length >= prefix_length && (prefix_length == 0 || memcmp(bytes, prefix, prefix_length) == 0);
}

/* Copies them as text: every byte that is no printable ASCII character, space and backslash included,
 * becomes \xNN. Stops when the buffer is full, and always writes a terminating zero. Returns the text's
 * length. */
size_t bytes_escape(const void *bytes, size_t length, char *buffer, size_t size);
