/* UTF-8 (RFC 3629, section 4). */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The length of the well-formed sequence at the start of these bytes (`length` is at least 1), or 0. Its
 * code point is in *ret. */
size_t utf8_decode(const char *text, size_t length, uint32_t *ret);
