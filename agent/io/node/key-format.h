/* The form of a lock's key: a prefix, the leased name, and a suffix. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/limits.h"

enum { KEY_FORMAT_KEY_BYTES_MAX = NAME_BYTES_MAX + 2 * KEY_AFFIX_BYTES_MAX };

/* Reads a text such as "redlock:{name}". NULL, and the prefix's length and the suffix; or what the text
 * should be instead. */
const char *key_format_read(const char *text, size_t *ret_prefix_length, const char **ret_suffix);

/* The key of a name. Returns its length. */
size_t key_format_put(const char *prefix, const char *suffix, const char *name, size_t length,
                      char ret[static KEY_FORMAT_KEY_BYTES_MAX]);

/* The name within a key. False: the key does not have this form. */
bool key_format_name(const char *prefix, const char *suffix, const char *key, size_t length,
                     const char **ret, size_t *ret_length);
