/* What the redlock command uses beyond the public calls: any request, and its whole reply. */
#pragma once

#include "client.h"

/* What every call begins with: whether the connection is this process's, and not over. */
int connection_begin(struct redlock *connection);

struct client *connection_client(struct redlock *connection);

/* Sends one request and waits for its reply within the answer time-out. The reply's error, or the
 * connection's. */
int connection_ask(struct redlock *connection, const struct resp_token *items, size_t n_items,
                   struct client_reply *reply);
