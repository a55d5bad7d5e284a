/* What the redlock command uses beyond the public calls: any request, and its whole reply. */
#pragma once

#include "client.h"

/* What every public call that is no mere look begins with: REDLOCK_OK, and connection_leave() ends it; or
 * REDLOCK_BAD_ARGUMENT (NULL), REDLOCK_FORKED or REDLOCK_IN_USE. */
int connection_enter(struct redlock *connection);
void connection_leave(struct redlock *connection);

/* Whether the connection is this process's, and not over. Clears the error text. */
int connection_begin(struct redlock *connection);

/* REDLOCK_BAD_ARGUMENT, with this text. */
int connection_misused(struct redlock *connection, const char *text);

struct client *connection_client(struct redlock *connection);

/* Sends one request and waits for its reply within the answer time-out. The reply's error, or the
 * connection's. */
int connection_ask(struct redlock *connection, const struct resp_token *items, size_t n_items,
                   struct client_reply *reply);
