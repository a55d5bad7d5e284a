/* The names whose leaders a connection observes, with the last report of each, so that a new agent's first
 * push is reported only if it is a change. Without I/O, as client.h. */
#pragma once

#include <stdint.h>

#include "client.h"

/* Adds a name that request_name() accepts. To be called before OBSERVE is sent, because the first push may
 * precede the reply. 1; 0: already observed; REDLOCK_NO_MEMORY. */
int observe_add(struct client *client, const char *name);

/* 1, or 0: not observed. */
int observe_remove(struct client *client, const char *name);

/* A push: ignored unless it reports the leader of an observed name. */
void observe_push(struct client *client, const struct resp_token *tokens, size_t n_tokens);

/* Reconnected: sends OBSERVE for all names. */
void observe_back(struct client *client, int64_t now_ns);

/* No agent for the answer time-out: all names have an unknown leader. */
void observe_away(struct client *client);

/* Sends OBSERVE again, a second later, where the agent refused it or pushed `unknown`, as it does when its
 * rules end a subscription. Observers notice by this that they may observe again. */
void observe_tick(struct client *client, int64_t now_ns);
int64_t observe_due_ns(const struct client *client);

void observe_deinit(struct client *client);
