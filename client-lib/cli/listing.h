/* Requests the agent's listings (STATUS, NODES, LEASES), and reads them. A reply may be anything: one of
 * another form than expected is an error, and a value of another type counts as one that is not there. */
#pragma once

#include "connection.h"

typedef void listing_reader(void *userdata, const struct resp_token *tokens, size_t n_tokens);

/* What a reply must be. */
enum listing_form {
    LISTING_OK,     /* a simple string */
    LISTING_TEXT,   /* a bulk string */
    LISTING_MAP,    /* a map */
    LISTING_MAPS,   /* an array of maps */
    LISTING_HOLDER, /* LEADER's: nil, or a map with a validity */
};

/* Sends the request, at most 4 words and NULL, and waits for its reply, which `on_value` reads (NULL:
 * nobody) if it has this form. The reply's error; REDLOCK_PROTOCOL for another form. */
int listing_request(struct redlock *connection, const char *const words[], enum listing_form form,
                    listing_reader *on_value, void *userdata);

/* The same for one word. The exit status, a failure reported. */
int listing_ask(struct redlock *connection, const char *word, enum listing_form form,
                listing_reader *on_value, void *userdata);

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

/* The values within a value, one after the other: elements of an array, keys and values of a map in turn,
 * none of another value, or of NULL. */
struct listing_items {
    const struct resp_token *next;
    uint64_t left;
};

struct listing_items listing_items(const struct resp_token *value);

/* NULL: there is no other. */
const struct resp_token *listing_next(struct listing_items *items);

/* The next map of an array, or NULL. Other values are left out. */
const struct resp_token *listing_next_map(struct listing_items *items);

/* The value of `key` in a map, the first one; NULL without that key, and for a value that is no map. */
const struct resp_token *listing_get(const struct resp_token *map, const char *key);

/* The same for a text; NULL for a value of another type, too. */
const struct resp_token *listing_get_text(const struct resp_token *map, const char *key);

/* Print a map such as STATUS's, with a line for each pair, quota and user; and any value, as JSON. */
listing_reader listing_print_map, listing_print_json;

/* A printable copy of a text (printable_text()); "" without one. */
const char *listing_text(const struct resp_token *map, const char *key);

/* Whether the map has `key` with this text. */
bool listing_is(const struct resp_token *map, const char *key, const char *text);

/* An integer value; 0 without one. */
int64_t listing_integer(const struct resp_token *map, const char *key);
