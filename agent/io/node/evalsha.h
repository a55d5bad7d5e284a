/* Composes the EVALSHA command in RESP. */
#pragma once

#include <stddef.h>

enum {
    SHA1_HEX_BYTES = 40,
    EVALSHA_BEGIN_BYTES = 128, /* the most that evalsha_begin() writes */
};

struct evalsha_item {
    const char *bytes;
    size_t length;
};

/* Writes the head: the script's hash, and the numbers of keys and arguments. Returns the length. */
size_t evalsha_begin(char *at, const char *hash, size_t n_keys, size_t n_arguments);

/* The most bytes that evalsha_put() writes. */
size_t evalsha_room(const struct evalsha_item *items, size_t n_items);

/* Writes the next keys or arguments. Returns the length. */
size_t evalsha_put(char *at, const struct evalsha_item *items, size_t n_items);
