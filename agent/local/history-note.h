/* The registry's notes in the history. Without a history nothing is written. */
#pragma once

#include "local/history.h"
#include "local/request.h"

/* The request has this outcome. Its name is known, unless it has ended. */
void history_note_outcome(struct registry *registry, const struct request *request,
                          const struct request_outcome *outcome, instant_ns now_ns);

/* An attempt of the request has failed so, and the request waits on. */
void history_note_contended(struct registry *registry, const struct request *request,
                            const struct request_outcome *failure, instant_ns now_ns);

/* The request was made, and is in its queue. */
void history_note_asked(struct registry *registry, const struct request *request, int64_t wait_ms,
                        instant_ns now_ns);

/* An event that is no outcome. */
void history_note_event(struct registry *registry, const struct request *request, enum history_kind kind,
                        instant_ns now_ns);

/* The lease has ended: notes its cooldown, if there is one. */
void history_note_cooling(struct registry *registry, const struct request *request, instant_ns now_ns);
