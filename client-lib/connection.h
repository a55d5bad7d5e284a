/* What the redlock command uses beyond the public calls: any request, and its whole reply. */
#pragma once

#include "client.h"

/* Sends one request and waits for its reply within the answer time-out. The reply's error, or the
 * connection's. */
int connection_ask(struct redlock *connection, const struct resp_token *items, size_t n_items,
                   struct client_reply *reply);
