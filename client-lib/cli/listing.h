/* Requests the agent's listings (STATUS, NODES, LEASES), and reads them. */
#pragma once

#include "connection.h"

typedef void listing_reader(void *userdata, const struct resp_token *tokens, size_t n_tokens);

/* Sends the request, at most 4 words and NULL, and waits for its reply. Its error. */
int listing_request(struct redlock *connection, const char *const words[], listing_reader *on_value,
                    void *userdata);

/* The same for one word. The exit status, a failure reported. */
int listing_ask(struct redlock *connection, const char *word, listing_reader *on_value, void *userdata);

/* Calls `on_lease` with the map of each lease of this host. The exit status. */
int listing_leases(struct redlock *connection,
                   void (*on_lease)(void *userdata, const struct resp_token *lease), void *userdata);

/* Which leases of this host are meant. */
struct listing_choice {
    uint64_t id, fence; /* 0: any */
    const char *name;   /* NULL: any */
};

/* Whether the map is that of such a lease; and the lease is valid. */
bool listing_is_meant(const struct listing_choice *choice, const struct resp_token *lease);
bool listing_is_chosen(const struct listing_choice *choice, const struct resp_token *lease);

/* The number of tokens of this value, with those within it. */
size_t listing_size(const struct resp_token *value);

/* The value of `key` in a map; NULL without that key. */
const struct resp_token *listing_get(const struct resp_token *map, const char *key);

/* Print a map such as STATUS's, with a line for each pair, quota and user; and any value, as JSON. */
listing_reader listing_print_map, listing_print_json;

/* A printable copy of a text (printable_text()); "" without that key. */
const char *listing_text(const struct resp_token *map, const char *key);

/* Whether the map has `key` with this text. */
bool listing_is(const struct resp_token *map, const char *key, const char *text);

/* An integer value; 0 without that key. */
int64_t listing_integer(const struct resp_token *map, const char *key);
