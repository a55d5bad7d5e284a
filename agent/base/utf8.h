/* UTF-8 (RFC 3629, section 4). */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The length of the well-formed sequence at the start of these bytes (`length` is at least 1), or 0. Its
 * code point is in *ret. */
size_t utf8_decode(const char *text, size_t length, uint32_t *ret);

/* Replaces each character that could change what a person reads, and each byte that is no UTF-8, by '?', and
 * ends the text with a zero, for which there is room. In place; returns the new length. */
size_t utf8_make_printable(char *text, size_t length);
