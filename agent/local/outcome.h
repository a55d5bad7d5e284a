/* Outcomes of requests: each is noted in the ledger, and then written to its session as a reply or a push.
 * */
#pragma once

#include "core/event.h"
#include "local/registry.h"

/* The registry's sink. */
void outcome_deliver(struct request *request, const struct request_outcome *outcome, instant_ns now_ns);

/* Call before RELEASE of the request, or the end of its session, takes effect: a RESUME that is under way
 * counts as one that fails. */
void outcome_note_withdrawn(const struct request *request, instant_ns now_ns);

/* Pushes `lost`, if the client takes pushes. */
void outcome_push_lost(const struct request *request, enum reason reason, const char *text);

/* Pushes the end of a lease, or of a request that waits, of a former process that is not restored. */
void outcome_push_left_out(struct session *session, uint64_t id, bool held);
