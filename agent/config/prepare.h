/* Writes the text of a configuration file as libconfuse reads it right. libconfuse miscounts the lines
 * behind comments, expands "${NAME}", passes over bytes that it can't use, and takes the end of the file for
 * that of a section or a string. A value credential("x") becomes an empty value and a call. */
#pragma once

#include <stddef.h>

#define PREPARE_LINE "{"      /* behind each '{': an option of this name, with the line */
enum { PREPARE_GROWTH = 16 }; /* `out` holds so many times `length` bytes and a NUL */

/* Gives the number of lines and NULL; or what syntax error there is, and its line. */
const char *prepare_text(const char *text, size_t length, char *out, unsigned *ret_line);
