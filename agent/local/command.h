/* The protocol's commands: a table of name, number of arguments and handler. */
#pragma once

#include <stddef.h>

#include "base/instant.h"

struct resp_token;
struct session;

/* Runs one request of a session that is ready. `tokens` are the request's items, at least one. The reply is
 * written before the return, or the session waits for it (session.h). Returns the units of work
 * (work-share.h), without those for the reply; 0: the request is not taken, since its user has too many
 * queries under way. Then session_may_ask() is false until the registry's sink reports `ready`. */
unsigned command_run(struct session *session, const struct resp_token *tokens, size_t n_tokens,
                     instant_ns now_ns);
