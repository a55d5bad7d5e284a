/* The clients of the HTTP server, with a time limit for each state: no client keeps a place for long,
 * whatever it sends or does not read, and a new client always finds a place. For one thread. */
#pragma once

#include <stdint.h>

enum http_client_doing {
    HTTP_CLIENT_GONE,  /* a free place */
    HTTP_CLIENT_ENDED, /* the connection was shut down, and is not closed yet */
    HTTP_CLIENT_ASKS,  /* from its connection to its complete request */
    HTTP_CLIENT_RESTS, /* between an answer and the next complete request */
    HTTP_CLIENT_READS, /* its answer */
};

enum {
    HTTP_CLIENTS_MAX = 32,
    HTTP_CLIENT_PLACES = 64, /* more than accepted at once: clients that were ended leave a moment later */
};

struct http_client {
    int fd; /* the server's */
    enum http_client_doing doing;
    int64_t since_ns;
};

/* Zeroed initially. */
struct http_client_table {
    struct http_client places[HTTP_CLIENT_PLACES];
    unsigned count; /* of those that were not ended */
};

/* A client has connected. If there are too many, ends the one that has been without a complete request for
 * longest, else the one that has been reading for longest. NULL: there is no place. */
struct http_client *http_client_new(struct http_client_table *table, int fd, int64_t now_ns);

/* The client does something else from now on: READS or RESTS. */
void http_client_goes_on(struct http_client *client, enum http_client_doing doing, int64_t now_ns);

/* The connection is being closed: its descriptor is still open. */
void http_client_free(struct http_client_table *table, struct http_client *client);

/* Ends the clients whose time is over. */
void http_client_tick(struct http_client_table *table, int64_t now_ns);

/* When the next client's time is over; INT64_MAX: never. */
int64_t http_client_due_ns(const struct http_client_table *table);
