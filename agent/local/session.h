/* A session: one client connection, as the front knows it. Owned by the front thread.
 *
 * The session answers requests in order: while a request is under way, session_ready() is false, and the
 * connection passes no further request to command_run(). */
#pragma once

#include <stdbool.h>

#include "local/front-state.h"

enum session_state {
    SESSION_READY,
    SESSION_ACQUIRING, /* waits for the outcome of `awaited` */
    SESSION_RELEASING, /* the same */
    SESSION_QUERYING,  /* LEADER: waits for the keeper's report */
    SESSION_LISTING,   /* STATUS, NODES, INFO: waits for the keepers' counters */
    SESSION_QUITTING,  /* closes when its output is sent */
};

enum { SESSION_NAME_BYTES_MAX = 64 };

struct session {
    struct admission_requester requester; /* first: the registry's part */
    struct front_state *front;
    uint64_t id;  /* 0: the session has ended */
    int protocol; /* RESP 2 or 3 */
    pid_t pid;
    uid_t uid;
    enum session_state state;
    bool pushes;                /* RESP2: the client used ASYNC or OBSERVE, so expects pushes */
    bool unhurried;             /* the last output may wait a moment for what follows */
    uint32_t written;           /* bytes of output so far, modulo 2^32 */
    uint8_t listing;            /* enum listing_kind, in SESSION_LISTING */
    uint64_t queried_hash;      /* of the name, in SESSION_QUERYING */
    struct request *awaited;    /* in SESSION_ACQUIRING and SESSION_RELEASING */
    struct list observations;   /* see observe.h */
    unsigned n_observations;
    struct list listing_link; /* in the front's `listings` */
    instant_ns asked_ns;      /* of a request that a former process left unanswered; 0: none */
    char name[SESSION_NAME_BYTES_MAX + 1];
};

void session_init(struct session *session, struct front_state *front, uint64_t id, pid_t pid, uid_t uid);

static inline bool session_ready(const struct session *session) {
    return session->state == SESSION_READY;
}

/* The session waits for the outcome of this request, in the state given. */
static inline void session_await(struct session *session, struct request *request,
                                 enum session_state state) {
    session->state = state;
    session->awaited = request;
}

/* The session has its answer and takes the next request. */
static inline void session_proceed(struct session *session) {
    session->state = SESSION_READY;
    session->awaited = NULL;
}

/* False: the session, or its user, has as many requests under way as it may. The connection reads nothing
 * until the registry's sink reports `ready`. */
static inline bool session_may_ask(struct session *session) {
    return registry_may_ask(&session->front->registry, session, session->uid);
}

/* True if the client accepts pushes. */
static inline bool session_takes_pushes(const struct session *session) {
    return session->protocol == 3 || session->pushes;
}
