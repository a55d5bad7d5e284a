/* The names whose leaders a connection observes, and what its user was told of them: so that a new agent's
 * first word is passed on only if it is new. Without I/O, as client.h. */
#pragma once

#include <stdint.h>

#include "client.h"

/* A push: passed over unless it is about the leader of an observed name. */
void observe_push(struct client *client, const struct resp_token *tokens, size_t n_tokens);

/* There is an agent again: asks it for all. */
void observe_back(struct client *client, int64_t now_ns);

/* There has been none for long. */
void observe_away(struct client *client);

/* Asks again where a new agent had no room at first. */
void observe_tick(struct client *client, int64_t now_ns);
int64_t observe_due_ns(const struct client *client);

void observe_deinit(struct client *client);
