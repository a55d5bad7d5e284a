/* The names whose leaders a connection observes, with the last report of each, so that a new agent's first
 * push is reported only if it is a change. Without I/O, as client.h. */
#pragma once

#include <stdint.h>

#include "client.h"

/* Adds a name that request_name() accepts. To be called before OBSERVE is sent, because the first push may
 * precede the reply. 1; 0: already observed; REDLOCK_NO_MEMORY. */
int observe_add(struct client *client, const char *name);

/* The agent has accepted the first OBSERVE. */
void observe_accepted(struct client *client, const char *name);

/* 1, or 0: not observed. */
int observe_remove(struct client *client, const char *name);

/* A push: ignored unless it reports the leader of an observed name. */
void observe_push(struct client *client, const struct resp_token *tokens, size_t n_tokens);

/* Reconnected: sends OBSERVE for all names. */
void observe_back(struct client *client, int64_t now_ns);

/* No agent, or no answer, for the answer time-out: all names have an unknown leader. */
void observe_away(struct client *client);

/* Sends OBSERVE again, a second later, where the agent refused it or pushed `unknown`, as it does when its
 * rules end a subscription. Observers notice by this that they may observe again. Sends PING to an agent
 * that has sent nothing for some seconds. */
void observe_tick(struct client *client, int64_t now_ns);
int64_t observe_due_ns(const struct client *client);

/* Once nothing has come for the answer time-out while a reply is due: all names have an unknown leader. To
 * be called when the input has been read. */
void observe_silent(struct client *client, int64_t now_ns);
int64_t observe_silent_due_ns(const struct client *client);

/* Such an agent has sent something: asks for the present leaders, which it pushes for new subscriptions. */
void observe_answered(struct client *client, int64_t now_ns);

void observe_deinit(struct client *client);
