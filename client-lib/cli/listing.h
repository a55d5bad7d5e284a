/* Requests the agent's listings (STATUS, NODES, LEASES), and reads them. */
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

/* Which leases of this host are meant. */
struct listing_choice {
    uint64_t id, fence; /* 0: any */
    const char *name;   /* NULL: any */
};

/* Whether the map is that of such a lease, and the lease is valid. */
bool listing_is_chosen(const struct listing_choice *choice, const struct resp_token *lease);

/* The number of tokens of this value, with those within it. */
size_t listing_size(const struct resp_token *value);

/* The value of `key` in a map; NULL without that key. */
const struct resp_token *listing_get(const struct resp_token *map, const char *key);

/* Print a map such as STATUS's, with a line for each pair, quota and user; and any value, as JSON. */
void listing_print_map(void *userdata, const struct resp_token *tokens, size_t n_tokens);
void listing_print_json(void *userdata, const struct resp_token *tokens, size_t n_tokens);

/* A printable copy of a text (printable_text()); "" without that key. */
const char *listing_text(const struct resp_token *map, const char *key);

/* An integer value; 0 without that key. */
int64_t listing_integer(const struct resp_token *map, const char *key);
