/* Writes the requests and observations of sessions into the ledger. Each function is called just before the
 * session's output gets the reply or push that reports the change. Without a ledger, nothing is written. */
#pragma once

#include "local/recovery/ledger.h"
#include "local/registry.h"

struct session;

/* The session's request was accepted at this instant, from which its bound counts. */
void ledger_writer_accepted(const struct session *session, instant_ns asked_ns);

/* The request waits. */
void ledger_writer_waiting(const struct session *session, struct request *request,
                           const struct registry_ask *ask);

/* The request is granted. `secret` is the random part in its grant. */
void ledger_writer_granted(const struct session *session, struct request *request, const char *secret);

/* The lease is at risk, or no longer; or REQUEST_LOST: the agent closes the session. */
void ledger_writer_risk(const struct session *session, const struct request *request);

/* The reply to the client's RELEASE comes next. */
void ledger_writer_released(const struct session *session, struct request *request);

/* The request is over. */
void ledger_writer_ended(const struct session *session, struct request *request);

/* The lease is lost: a client that misses the push may consider it valid until its deadline. */
void ledger_writer_lost(const struct session *session, struct request *request);

/* The session ends without a release: its lease may linger, and then belongs to no session. */
void ledger_writer_lingers(const struct session *session, const struct request *request, instant_ns now_ns);

/* A client asks to resume a lease: it may consider the lease valid whatever the answer is. */
void ledger_writer_resuming(const struct session *session, const struct registry_ask *ask,
                            instant_ns now_ns);

/* The request was restored: the entry of the former process is repeated. */
void ledger_writer_restored(const struct session *session, struct request *request,
                            const struct registry_ask *ask);

/* The session observes a name. Returns the entry for ledger_writer_not_observed(). */
uint32_t ledger_writer_observed(const struct session *session, const char *name, size_t length);
void ledger_writer_not_observed(const struct session *session, uint32_t entry);
