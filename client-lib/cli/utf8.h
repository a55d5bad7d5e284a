/* Texts from outside. */
#pragma once

#include <stddef.h>

/* The length of the UTF-8 sequence at the start of these bytes (`length` is at least 1); 1 for a byte that
 * begins none. */
size_t utf8_sequence(const char *text, size_t length);
