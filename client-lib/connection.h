/* One request and its reply on a connection: what the redlock command uses beside the public calls. A
 * connection belongs to one thread at a time, which connection_enter() enforces. */
#pragma once

#include "client.h"

/* Begins a public call: REDLOCK_OK, to be ended by connection_leave(); or REDLOCK_BAD_ARGUMENT (NULL),
 * REDLOCK_FORKED or REDLOCK_IN_USE. connection_leave() sets the event loop's timer to the next due time. */
int connection_enter(struct redlock *connection);
void connection_leave(struct redlock *connection);

/* Clears the error text. REDLOCK_OK, REDLOCK_FORKED, or REDLOCK_AGENT_AWAY if the connection is over. */
int connection_begin(struct redlock *connection);

/* Notes what happened, unless the error came with a text. Returns the error; REDLOCK_FORKED in a forked
 * child. To be called before a call returns one that connection_begin() began. */
int connection_failed(struct redlock *connection, int error);

/* Notes the text, and returns REDLOCK_BAD_ARGUMENT. */
int connection_misused(struct redlock *connection, const char *text);

/* The same for REDLOCK_PROTOCOL: the reply came, and is not what the protocol says. */
int connection_misanswered(struct redlock *connection, const char *text);

/* Sends one request and waits for its reply, at most for the answer time-out. The reply's error, or the
 * connection's. */
int connection_ask(struct redlock *connection, const struct resp_token *items, size_t n_items,
                   struct client_reply *reply);
