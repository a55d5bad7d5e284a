/* Admission: which requests contend for their names now, and which are held back for a moment. Pure, part of
 * the registry.
 *
 * A keeper sends each request to the nodes at once, and the nodes answer in order. So an extension waits
 * behind everything that was sent before it, and a flood of requests would end the leases of all sessions.
 * Therefore only ADMITTED_MAX requests at a time are in their first attempt, ADMITTED_USER_MAX of them for
 * one user and ADMITTED_SESSION_MAX for one session. The others are held back here, in the front: their WAIT
 * goes on, and withdrawing one costs no message. They follow in turns: by user, within a user by session,
 * and within a session in the order of its requests.
 *
 * A request leaves with the keeper's first report about it: granted, failed, released, or contended (from
 * then on the keeper retries it at a bounded rate).
 *
 * A session that has ASKING_SESSION_MAX requests on the way is not read from until half of them have left,
 * so a flood stays in its socket. Sessions of a user that has ASKING_USER_MAX have a smaller share each.
 *
 * Users share a turn if their uids are equal modulo ADMISSION_USERS. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/limits.h"

struct registry;
struct request;

/* A session as the registry knows it. Every session begins with one. */
struct admission_requester {
    struct list requests;  /* all of the session's */
    struct list held_back; /* of these, in their order */
    struct list turn_link; /* in its user's `sessions` */
    uint32_t n_held_back, n_admitted;
    bool paused; /* it was told that it asks for too much: the sink hears when it may go on */
};

struct admission_user {
    struct list turn_link;
    struct list sessions; /* that have requests held back, and may have more admitted */
    uint32_t n_held_back, n_admitted;
};

struct admission {
    uint32_t all_max, user_max, session_max; /* ADMITTED_…; a test may have less */
    struct admission_user users[ADMISSION_USERS];
    struct list turns; /* users that have such sessions, and may have more admitted */
    uint32_t n_held_back, n_admitted;
};

void admission_init(struct admission *admission);
void admission_requester_init(struct admission_requester *requester);

/* The request would contend. True: it does so now. False: it is held back, until admission_next() returns it
 * or admission_leave() is called. */
bool admission_ask(struct registry *registry, struct request *request);

/* The next one that is to contend now; NULL: there is none, or no room. */
struct request *admission_next(struct registry *registry);

/* The request is neither held back nor in its first attempt any more. Idempotent. */
void admission_leave(struct registry *registry, struct request *request);

/* Its session is about to forget it. One that is in its first attempt goes on being counted. */
void admission_orphan(struct registry *registry, struct request *request);

/* Whether a session of this user may ask for more. If not, the registry's sink tells when it may again. */
bool admission_may_ask(struct registry *registry, struct admission_requester *requester, uint32_t uid);
