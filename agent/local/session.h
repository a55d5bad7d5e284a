/* A session: the protocol state of one client connection. Owned by the front thread.
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
    SESSION_LISTING,   /* waits for its listing: listing.h */
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
    gid_t gid;
    uint8_t account;            /* in the quota */
    const char *unit;           /* systemd's system unit of the process; NULL: unknown. The connection's */
    policy_rules rules;         /* that are for this peer, or may be */
    policy_rules rules_unknown; /* those that may be: they allow nothing */
    enum session_state state;
    bool pushes;              /* RESP2: the client used ASYNC or OBSERVE, so expects pushes */
    bool unhurried;           /* the last output may wait a moment for what follows */
    uint32_t written;         /* bytes of output so far, modulo 2^32 */
    uint8_t listing;          /* enum listing_kind, in SESSION_LISTING */
    uint64_t listed_after;    /* LEASES: the argument, */
    uint32_t listed_slots;    /* and the slots that were searched */
    uint64_t queried_hash;    /* of the name, in SESSION_QUERYING */
    struct list query_link;   /* while the session pauses: query-share.h */
    struct request *awaited;  /* in SESSION_ACQUIRING and SESSION_RELEASING */
    struct list observations; /* see observe.h */
    unsigned n_observations;
    struct list listing_link; /* in the front's `uncounted` or `listings` */
    uint64_t request_at;      /* position of the last request taken, in the stream of requests */
    uint64_t accepted_at;     /* position of a request that the former process accepted, + 1; 0: none */
    instant_ns asked_ns;      /* of that request, or else the first one that it left unanswered; 0: none */
    char name[SESSION_NAME_BYTES_MAX + 1];
};

void session_init(struct session *session, struct front_state *front, uint64_t id, pid_t pid, uid_t uid);

/* The peer is known, or the rules have changed. Before, the session has the rules of its uid alone. */
void session_set_peer(struct session *session, const struct policy_peer *peer);

/* Root and the agent's own user may do everything. */
static inline bool session_is_trusted(const struct session *session) {
    return quota_is_trusted(&session->front->registry.quota, session->uid);
}

/* The rule for this name and peer; NULL: none. */
static inline const struct policy_rule *session_rule(const struct session *session, const char *name,
                                                     size_t length) {
    return policy_find(&session->front->policy, session->rules, name, length);
}

/* True if this rule may be for the peer, whose groups or unit could not be read. The next rule could allow
 * what this one denies, so what it says of the name is denied. */
bool session_rule_is_unknown(const struct session *session, const struct policy_rule *rule);

/* True if the peer may do this with the name ("" for an action without a name). */
bool session_may(const struct session *session, enum policy_action action, const char *name, size_t length);

/* The front has done so many units of work (work-share.h) for the session. After a restart, requests that
 * the former process left unanswered are taken first, without pauses. */
static inline void session_note_work(const struct session *session, unsigned units, instant_ns now_ns) {
    bool counts = !session_is_trusted(session) && !session->front->registry.restoring;

    work_share_note(&session->front->work, session->account, counts ? units : 0, now_ns);
}

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

/* False: the session, or its user, has as many requests or queries under way as it may. The connection reads
 * nothing until the registry's sink reports `ready`. */
static inline bool session_may_ask(struct session *session) {
    return list_is_empty(&session->query_link) &&
           admission_may_ask(&session->front->registry, &session->requester, session->uid);
}

/* True if the client accepts pushes. */
static inline bool session_takes_pushes(const struct session *session) {
    return session->protocol == 3 || session->pushes;
}
