/* Admission: which requests contend for their names now, and which are held back for a moment. Part of the
 * registry.
 *
 * A keeper sends each request to the nodes at once, and the nodes answer in order. So an extension waits
 * behind all that was sent before it, and a flood of requests would end the leases of all sessions.
 * Therefore at most ADMITTED_MAX requests are in their first attempt at a time, ADMITTED_USER_MAX of one
 * user and ADMITTED_SESSION_MAX of one session. While several users ask, each has ADMITTED_SHARED_MAX: a
 * request of one waits at the nodes behind all that the others have there. Other requests are held back in
 * the front: their WAIT goes on, and the withdrawal of an ACQUIRE costs no message. They are admitted in
 * round robin: by user, within a user by session, within a session in the order of its requests.
 *
 * A request leaves with the keeper's first report on it: granted, failed, released, or contended (from then
 * on the keeper retries at a bounded rate).
 *
 * The front reads nothing more of a session with ASKING_SESSION_MAX requests under way until half of them
 * have left: so a flood stays in its socket. Sessions of a user with ASKING_USER_MAX have a smaller share
 * each.
 *
 * Users are accounts of the quota (quota.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/limits.h"
#include "local/quota.h"

struct deadline_page;
struct registry;
struct request;
struct session;

/* The registry's part of a session: its first member. */
struct admission_requester {
    struct list requests;       /* of the session */
    struct list held_back;      /* those of them that are held back, in order */
    struct list turn_link;      /* in the user's `sessions` */
    struct deadline_page *page; /* the connection's; NULL until PAGE. Outlives the session's requests */
    uint32_t n_held_back, n_admitted;
    bool paused; /* admission_may_ask() was false: the sink's ready() follows */
};

static inline struct admission_requester *admission_requester_of(struct session *session) {
    return (struct admission_requester *) (void *) session;
}

struct admission_user {
    struct list turn_link;
    struct list sessions; /* with requests held back, and below their limit */
    uint32_t n_held_back, n_admitted;
};

struct admission {
    uint32_t all_max, user_max, session_max, shared_max; /* ADMITTED_…; smaller in tests */
    unsigned latest;                                     /* the account that asked last */
    uint32_t latest_clock; /* when this account asked, by the registry's clock */
    uint32_t former_clock; /* when another account asked last */
    struct admission_user users[QUOTA_ACCOUNTS];
    struct list turns; /* users with such sessions, and below their limit */
    uint32_t n_held_back, n_admitted;
};

void admission_init(struct admission *admission);
void admission_requester_init(struct admission_requester *requester);

/* Call before the request contends. True: admitted. False: held back until admission_next() returns it or
 * admission_leave() is called. */
bool admission_ask(struct registry *registry, struct request *request);

/* Admits the next request. NULL: none, or no room. */
struct request *admission_next(struct registry *registry);

/* The request is no longer held back or in its first attempt. Idempotent. */
void admission_leave(struct registry *registry, struct request *request);

/* The request loses its session. In its first attempt it still counts for its user. */
void admission_orphan(struct registry *registry, struct request *request);

/* False: a session of this user may not send more requests now; the registry's sink gets ready() later. */
bool admission_may_ask(struct registry *registry, struct admission_requester *requester, uid_t uid);
