/* Retries: when a waiting request starts its next attempt.
 *
 * An attempt fails as soon as no majority can say yes, and its keys are released at once. The obstacle may
 * still be unknown: the outstanding answers distinguish a holder, a split and a missing quorum. Until they
 * arrive, or the node time-out passes, the lease waits *undecided*, and nothing is reported.
 *
 * A release publishes on the name's channel (agent/scripts/release.lua), and so does a node that deletes or
 * expires the key, if its keyspace notifications are on. A request that met a holder subscribes on all
 * nodes. A message is a hint: it brings the next attempt forward, and counts for nothing in it. The attempt
 * starts as soon as a majority of nodes is free, by messages and by its last votes; or a short grace after
 * the first message, since the other messages may never come.
 *
 * No wake-up is lost. A node is *covered* if the subscription there began before the last attempt. That
 * attempt met one value on a majority of nodes (otherwise it was a split, which is retried in milliseconds).
 * If a majority is covered, both majorities share a node, whose message about that value arrives. Until then
 * the request polls. When a majority is subscribed but not covered, one more attempt covers it; a node whose
 * subscription ends is no longer covered. Therefore a failed attempt releases its keys *quietly*, without a
 * message, unless they may have been a majority: only then can a request have met its value as a holder's.
 * A node's keyspace notification comes all the same. So a message brings nothing forward if the last attempt
 * set its key on that node, or may have: it did not meet the holder there, and the shared node is another
 * one.
 *
 * Where polling lock clients want the name, too, neither the message of an agent's release nor a new
 * subscription starts an attempt. The next attempt comes after the delay of a poll (foreign-contender.h).
 *
 * Polling goes on, rarely while a majority is covered and the holder is an agent, which publishes, or while
 * no majority can be asked. Expiry needs no message: a request tries when so many of the keys that it met
 * have expired that it may win. */
#pragma once

#include <stdbool.h>

#include "base/instant.h"

struct lease;
struct shard;
struct vote;

/* The delay of an ordinary poll. */
int64_t retry_ordinary_ns(struct shard *shard);

/* An attempt begins. */
void retry_begin_attempt(struct lease *lease);

/* An attempt was decided by answers, not by a time-out: measures how long that took. */
void retry_note_trip(struct shard *shard, const struct lease *lease, instant_ns now_ns);

/* A node has another's value, and so not ours. Remembers the value, for messages, and its time left, for the
 * next attempt. */
void retry_met(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
               instant_ns now_ns);

/* The obstacle to an attempt. */
enum retry_obstacle {
    OBSTACLE_UNKNOWN,   /* outstanding answers may decide */
    OBSTACLE_HOLDER,    /* one foreign value has a majority */
    OBSTACLE_SPLIT,     /* a majority votes, but no value has one: contenders cancel each other out */
    OBSTACLE_NO_QUORUM, /* no majority votes */
};

/* `timed_out`: outstanding answers count as no votes. */
enum retry_obstacle retry_obstacle(const struct shard *shard, const struct lease *lease, bool timed_out);

/* The attempt failed, and its obstacle is known: schedules the next attempt. */
void retry_failed(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* The next attempt starts at this instant at the latest. */
void retry_by(struct shard *shard, struct lease *lease, instant_ns at_ns);

/* A node's message that the key may be gone; a subscription that began at `since_ns`. True: an attempt is
 * due now. */
bool retry_freed(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns);
bool retry_subscribed(struct shard *shard, struct lease *lease, unsigned node, instant_ns since_ns,
                      instant_ns now_ns);

/* A waiting request gets a node's late answer. Unless the answer shows the attempt's own key there, a
 * message that came before the answer is taken for the holder's, and counts from now on. (If a cut
 * connection hides that key, one attempt more is made.) */
void retry_answered_late(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns);

/* A subscription on the node ended. */
void retry_unsubscribed(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns);
