/* What the agent lists: asking for it, and reading it. */
#pragma once

#include "connection.h"

struct listing {
    struct redlock *connection;
};

/* Sends "WORD" or "WORD option value"; complains of a failure. The exit status. */
int listing_ask(struct listing *listing, const char *word, const char *option, const char *value,
                void (*on_value)(void *userdata, const struct resp_token *tokens, size_t n_tokens),
                void *userdata);

/* Calls `on_lease` with the map of each lease of this host. The exit status. */
int listing_leases(struct listing *listing, void (*on_lease)(void *userdata, const struct resp_token *lease),
                   void *userdata);

/* The value of `key` in the map at `map`; NULL when it is not there. Maps here hold scalars only. */
const struct resp_token *listing_get(const struct resp_token *map, const char *key);

/* The same of a number; 0 when it is not there. */
int64_t listing_integer(const struct resp_token *map, const char *key);
