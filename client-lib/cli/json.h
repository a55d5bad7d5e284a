/* RESP values as JSON. */
#pragma once

#include <stddef.h>
#include <stdio.h>

struct resp_token;

/* Writes the value that begins at tokens[0]; returns its number of tokens. */
size_t json_value(FILE *out, const struct resp_token *tokens);

/* Writes a string; characters that are not printable (printable.h) as escapes, and bytes that are not UTF-8
 * as the characters U+0080 to U+00FF. */
void json_string(FILE *out, const char *text, size_t length);
