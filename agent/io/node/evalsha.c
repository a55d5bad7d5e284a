#include "io/node/evalsha.h"

#include <string.h>

#include "base/decimal.h"

static char *put_digits(char *at, size_t number) {
    if (number >= 10 && number < 100) { /* most numbers: lengths of keys and values */
        *at++ = (char) ('0' + number / 10);
        *at++ = (char) ('0' + number % 10);
        return at;
    }
    return at + decimal_write((int64_t) number, at);
}

static char *put_number(char *at, char kind, size_t number) {
    *at++ = kind;
    at = put_digits(at, number);
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

static char *put_bulk(char *at, const char *bytes, size_t length) {
    at = put_number(at, '$', length);
    memcpy(at, bytes, length);
    at += length;
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

size_t evalsha_begin(char *at, const char *hash, size_t n_keys, size_t n_arguments) {
    const char *begin = at;
    char keys[DECIMAL_BYTES_MAX];

    size_t n_key_digits = (size_t) (put_digits(keys, n_keys) - keys);
    at = put_number(at, '*', 3 + n_keys + n_arguments);
    at = put_bulk(at, "EVALSHA", strlen("EVALSHA"));
    at = put_bulk(at, hash, SHA1_HEX_BYTES);
    at = put_bulk(at, keys, n_key_digits);
    return (size_t) (at - begin);
}

size_t evalsha_room(const struct evalsha_item *items, size_t n_items) {
    enum { BYTES_PER_ITEM = 16 };
    size_t length = 0;

    for (size_t i = 0; i < n_items; i++)
        length += items[i].length + BYTES_PER_ITEM;
    return length;
}

size_t evalsha_put(char *at, const struct evalsha_item *items, size_t n_items) {
    const char *begin = at;

    for (size_t i = 0; i < n_items; i++)
        at = put_bulk(at, items[i].bytes, items[i].length);
    return (size_t) (at - begin);
}
