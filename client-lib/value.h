/* Reading what the agent says: values as resp.h gives them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "resp.h"

/* Whether the token has exactly this text. */
bool value_is(const struct resp_token *token, const char *text);

/* The value of a key in a flat map of scalars whose head is tokens[0]; NULL when it is not there. */
const struct resp_token *value_get(const struct resp_token *tokens, size_t n_tokens, const char *key);

/* 0 when it is NULL, no integer, or negative. */
uint64_t value_integer(const struct resp_token *token);

/* A terminated copy, cut to fit: "" when the token is NULL or no string. */
void value_copy(const struct resp_token *token, char *ret, size_t size, size_t *ret_length);
