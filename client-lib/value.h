/* Reads values of the agent's replies, as resp.h parses them. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "resp.h"

/* Whether the token's text equals `text`. */
bool value_is(const struct resp_token *token, const char *text);

/* The value of `key` in a flat map of scalars with its head in tokens[0]; NULL: absent, or no map. */
const struct resp_token *value_get(const struct resp_token *tokens, size_t n_tokens, const char *key);

/* The integer; 0 for NULL, other types and negative numbers. */
uint64_t value_integer(const struct resp_token *token);

/* A NUL-terminated copy, truncated to `size`; "" for NULL and other types. */
void value_copy(const struct resp_token *token, char *ret, size_t size, size_t *ret_length);
