/* Texts that others gave us. */
#pragma once

#include <stddef.h>

/* The length of the well-formed sequence at the front of these bytes (at least one); 1 also for a byte that
 * begins none. */
size_t utf8_sequence(const char *text, size_t length);
