/* Arguments of requests: parsing and checks. The input is not trusted. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct resp_token;

/* Ids are integers that a double holds exactly. */
#define ARGUMENT_ID_MAX ((INT64_C(1) << 53) - 1)

/* True if the token is this word, in capitals or not. `word` is in capitals. */
bool argument_is(const struct resp_token *token, const char *word);

/* Parses a decimal integer within low..high, without blanks or plus sign. */
bool argument_integer(const struct resp_token *token, int64_t low, int64_t high, int64_t *ret);

/* NULL if the name is allowed; otherwise a sentence about its fault. */
const char *argument_name_fault(const char *name, size_t length);
