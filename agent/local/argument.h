/* Reading and judging the arguments of requests. Nothing here trusts its input. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct resp_token;

/* Whether the token is this word, whatever its case. `word` in capitals. */
bool argument_is(const struct resp_token *token, const char *word);

/* A decimal integer without blanks or plus sign within low..high. */
bool argument_integer(const struct resp_token *token, int64_t low, int64_t high, int64_t *ret);

/* What is wrong with this name, as a sentence; NULL when nothing is. */
const char *argument_name_trouble(const char *name, size_t length);
