/* Text from elsewhere for a line of text: names, data, and what other hosts and programs wrote. Characters
 * that move a cursor, end a line or turn its direction would forge what people read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PRINTABLE_BYTES_MAX = 2048 };

/* The length of the sequence at the start of the text, and its character; the length is 0 for a byte that is
 * not UTF-8. `length` is at least 1. */
size_t printable_decode(const char *text, size_t length, uint32_t *ret);

/* No control character (also U+0080 to U+009F), line separator or mark of direction. */
bool printable_is(uint32_t character);

/* Makes the text printable, in place: any other character, or byte that belongs to none, becomes a question
 * mark. Ends the text, which may become shorter, with a NUL byte: at most at text[length]. */
void printable_clean(char *text, size_t length);

/* A printable copy, cut at PRINTABLE_BYTES_MAX. The text of one of the last eight calls. */
const char *printable_text(const char *text, size_t length);
