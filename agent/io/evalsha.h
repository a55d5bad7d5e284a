/* EVALSHA as it goes over the wire. */
#pragma once

#include <stddef.h>

enum { SHA1_HEX_BYTES = 40 };

struct redis_item {
    const char *bytes;
    size_t length;
};

/* How many bytes evalsha_write() takes at most. */
size_t evalsha_room(const struct redis_item *items, size_t n_items);

/* The script of this hash with `n_keys` keys, then `n_arguments` arguments, all in `items` in that order.
 * Returns the length. */
size_t evalsha_write(char *at, const char *hash, const struct redis_item *items, size_t n_keys,
                     size_t n_arguments);
