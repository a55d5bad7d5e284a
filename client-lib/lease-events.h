/* What the agent, the connection and time do to a lease: replies, pushes, resuming at a new agent, and the
 * deadline. Called by client.c; changes the handle (lease.h) and calls the callbacks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client.h"

/* Replies to ACQUIRE (the error goes to *ret_error), ACQUIRE ASYNC and RESUME ASYNC. */
void lease_events_acquired(struct client *client, struct redlock_lease *lease,
                           const struct resp_token *tokens, size_t n_tokens, int *ret_error);
void lease_events_queued(struct client *client, struct redlock_lease *lease, const struct resp_token *tokens,
                         size_t n_tokens);
void lease_events_resuming(struct client *client, struct redlock_lease *lease,
                           const struct resp_token *tokens, size_t n_tokens);

/* The reply to a CHECK or BEAT sent at `sent_ns`. `asked`: a caller waits for the reply; else the library
 * sent the request on its own. */
void lease_events_checked(struct client *client, struct redlock_lease *lease, enum client_kind kind,
                          int64_t sent_ns, bool asked, const struct resp_token *token);

/* A push whose second element is a lease's id. Others, and unknown words, are ignored. */
void lease_events_push(struct client *client, const struct resp_token *tokens, size_t n_tokens);

/* The request ended without a lease. Reports to the blocking caller, or by `failed`, after which the handle
 * is an orphan. */
void lease_events_failed(struct client *client, struct redlock_lease *lease, int error);

/* client_disconnected(), which has noted the reason. May free the lease. */
void lease_events_cut_off(struct client *client, struct redlock_lease *lease, int error);

/* Sends RESUME. */
void lease_events_resume(struct client *client, struct redlock_lease *lease);

/* Ends the request if its outcome is late, or the lease if its deadline has passed, sends CHECK or RESUME if
 * due, and calls `at_risk` while there is no agent. The lease stays in the list. */
void lease_events_tick(struct client *client, struct redlock_lease *lease);
int64_t lease_events_due_ns(const struct client *client, const struct redlock_lease *lease);

/* The same during blocking calls, see client_tick_resuming(). */
void lease_events_tick_resuming(struct client *client, struct redlock_lease *lease);
bool lease_events_would_end(const struct redlock_lease *lease, int64_t now_ns);
int64_t lease_events_resume_due_ns(const struct redlock_lease *lease);

/* Ends the lease if its deadline in the page has passed, or the request if its outcome is late, see
 * client_end_overdue(). */
void lease_events_end_overdue(struct client *client, struct redlock_lease *lease);
int64_t lease_events_deadline_ns(const struct client *client, const struct redlock_lease *lease);
