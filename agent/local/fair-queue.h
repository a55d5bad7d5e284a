/* The order in which sessions are served: users take turns, and within a user its sessions. So a user with
 * 500 busy sessions has one user's turns, not 500. The queue skips a user that has used its share of the
 * work. */
#pragma once

#include <stdint.h>

#include "base/list.h"
#include "local/quota.h"
#include "local/work-share.h"

enum { FAIR_QUEUE_ENDED_MAX = 8 /* in a turn */ };

struct fair_queue_user {
    struct list turn_link; /* in `users`; a user whose last session was unlinked stays for a while */
    struct list ended;
    unsigned n_ended; /* were served in the user's present turn */
    struct list links;
};

struct fair_queue {
    const struct work_share *share;
    struct list first; /* served before all users, in this order */
    struct list users;
    struct fair_queue_user by_account[QUOTA_ACCOUNTS];
};

/* `share`: NULL if no user pauses. */
void fair_queue_init(struct fair_queue *queue, const struct work_share *share);

/* Adds a session of the user with this account, unless it is queued. list_unlink() takes it out again. */
void fair_queue_add(struct fair_queue *queue, uint8_t account, struct list *link);

/* The same for a session that is to be closed: before the user's others, and whatever its share. Up to
 * FAIR_QUEUE_ENDED_MAX of these have one turn, so that a process's few sessions end before another user asks
 * for what they had. */
void fair_queue_add_ended(struct fair_queue *queue, uint8_t account, struct list *link);

/* The same, before all users and behind those that were added so. */
void fair_queue_add_first(struct fair_queue *queue, struct list *link);

/* Takes out the next one: its user goes behind all others when its turn is over. NULL: the queue is empty,
 * or its users pause. */
struct list *fair_queue_next(struct fair_queue *queue, instant_ns now_ns);

/* When fair_queue_next() returns one; 0: at once; INSTANT_NEVER: the queue is empty. */
instant_ns fair_queue_due_ns(struct fair_queue *queue, instant_ns now_ns);
