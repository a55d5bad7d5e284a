/* Asks the agent for its listings (STATUS, NODES, LEASES), and reads them. */
#pragma once

#include "connection.h"

struct listing {
    struct redlock *connection;
};

/* Sends "WORD" or "WORD option value". The exit status, a failure reported. */
int listing_ask(struct listing *listing, const char *word, const char *option, const char *value,
                void (*on_value)(void *userdata, const struct resp_token *tokens, size_t n_tokens),
                void *userdata);

/* Calls `on_lease` with the map of each lease of this host. The exit status. */
int listing_leases(struct listing *listing, void (*on_lease)(void *userdata, const struct resp_token *lease),
                   void *userdata);

/* The value of `key` in a map of scalars; NULL without that key. */
const struct resp_token *listing_get(const struct resp_token *map, const char *key);

/* An integer value; 0 without that key. */
int64_t listing_integer(const struct resp_token *map, const char *key);
