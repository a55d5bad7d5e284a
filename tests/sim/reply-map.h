/* Maps in the agents' replies, and their words. A key that must be there and is not is a violation. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "resp.h"

/* The token is this word. */
bool reply_map_is(const struct resp_token *token, const char *word);

/* The value of the key in this map of plain values; NULL: none. */
const struct resp_token *reply_map_value(const struct resp_token *map, const char *key);

int64_t reply_map_number(const struct resp_token *map, const char *key);

/* The value of the key is this word. */
bool reply_map_has(const struct resp_token *map, const char *key, const char *word);
