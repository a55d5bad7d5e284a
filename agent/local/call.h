/* A command's call: what its handler gets. */
#pragma once

#include "local/session.h"
#include "resp.h"

struct call {
    struct session *session;
    const struct resp_token *arguments; /* without the command's name; as many as its entry allows */
    size_t n_arguments;
    instant_ns now_ns;
    instant_ns asked_ns; /* when a former process got this request, which it left unanswered; else now */
    bool accepted;       /* the former process accepted it: quotas, limits and rights of now do not end it */
};

/* True if the peer may do this with the name ("" for an action without a name); otherwise replies DENIED. */
bool call_may(const struct call *call, enum policy_action action, const char *name, size_t length);

/* True if the first argument is a lease's name; otherwise replies with an error. */
bool call_has_name(const struct call *call);
