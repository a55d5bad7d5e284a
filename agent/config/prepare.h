/* Prepares the text of a configuration file for libconfuse, which miscounts lines after comments, expands
 * "${NAME}", ignores bytes that it can't use, and accepts the end of the file as the end of a section or a
 * string. A value credential("x") becomes an empty value and a function call. */
#pragma once

#include <stddef.h>

#define PREPARE_LINE "{" /* an option of this name follows each '{': its line */
enum { PREPARE_GROWTH = 16 /* size of `out` over `length`, without the NUL */ };

/* NULL and the number of lines; or a syntax error and its line. */
const char *prepare_text(const char *text, size_t length, char *out, unsigned *ret_line);
