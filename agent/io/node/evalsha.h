/* EVALSHA as it goes over the wire. */
#pragma once

#include <stddef.h>

enum {
    SHA1_HEX_BYTES = 40,
    EVALSHA_BEGIN_BYTES = 128, /* what evalsha_begin() takes at most */
};

struct evalsha_item {
    const char *bytes;
    size_t length;
};

/* What comes first: the script of this hash, and how many keys and arguments follow. Returns the length. */
size_t evalsha_begin(char *at, const char *hash, size_t n_keys, size_t n_arguments);

/* How many bytes evalsha_put() takes at most. */
size_t evalsha_room(const struct evalsha_item *items, size_t n_items);

/* Keys, then arguments, all of them or some. Returns the length. */
size_t evalsha_put(char *at, const struct evalsha_item *items, size_t n_items);
