/* When a request that waits tries again.
 *
 * An attempt is lost as soon as no majority can say yes, and takes its keys back at once. Why it is lost may
 * not be known by then: the answers still under way tell a holder from a split from a missing quorum. Until
 * they have come, or the node time-out has passed, the lease waits *undecided*, and nothing is reported.
 *
 * A release tells all nodes' subscribers of the name (see agent/scripts/release.lua), and so does a key that
 * a node deletes or lets expire, where it sends keyspace notifications. A request that has found a holder
 * listens on all nodes. What it hears is a hint: it brings the next attempt forward, and counts for nothing
 * in it. It tries as soon as a majority is free as far as it has heard, or had let it in the last time; or a
 * little after the first message, since the others may never come.
 *
 * No wake-up is lost. A node is *covered* when it was listened to before the last attempt began. That
 * attempt met one value on a majority of nodes (otherwise it was a split, and its next one is due in
 * milliseconds). If a majority is covered, both share a node, and what deletes the value there is heard.
 * Until then there is polling; when a majority comes to be listened to without being covered, one more
 * attempt covers it; and when a node is no longer listened to, it is not covered either. So a failed attempt
 * need not tell that it takes its keys back unless they may have been a majority: only then has anybody met
 * its value as a holder's.
 *
 * Polling goes on all the same, rarely while a majority is covered and the holder is one of those that tell:
 * another agent. And what expires need not be told: a request tries when so many of the keys that it met
 * have expired that it may win. */
#pragma once

#include <stdbool.h>

#include "base/instant.h"

struct lease;
struct shard;
struct vote;

/* The same for all that tries again without knowing better. */
int64_t retry_ordinary_ns(struct shard *shard);

/* An attempt begins. */
void retry_begun(struct lease *lease);

/* It is decided, by answers and not by a time-out: so long it took. */
void retry_note_trip(struct shard *shard, const struct lease *lease, instant_ns now_ns);

/* A node has another's value, so not ours: remembers whose the key is, for messages and for the time of the
 * next try. */
void retry_met(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote);

/* Why an attempt fails. */
enum retry_obstacle {
    OBSTACLE_UNKNOWN,   /* answers are awaited that may tell */
    OBSTACLE_HOLDER,    /* one foreign value has a majority */
    OBSTACLE_SPLIT,     /* none has: a majority votes, and contenders cancel each other out */
    OBSTACLE_NO_QUORUM, /* no majority votes */
};

/* `timed_out`: a node that has not answered by now does not vote. */
enum retry_obstacle retry_obstacle(const struct shard *shard, const struct lease *lease, bool timed_out);

/* The attempt has failed, the reason is known, and the lease waits: arms its next one. */
void retry_failed(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* No later than that. */
void retry_by(struct shard *shard, struct lease *lease, instant_ns at_ns);

/* The node tells that its key may be gone; that it is listened to, since then; that it is not. True: try
 * now. */
bool retry_freed(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns);
bool retry_listening(struct shard *shard, struct lease *lease, unsigned node, instant_ns since_ns,
                     instant_ns now_ns);
void retry_deaf(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns);

/* A node's answer to a release: who holds next on this host is to know that others wait. */
void retry_heard(struct shard *shard, struct lease *lease, const struct vote *vote);

/* It waits no longer. */
void retry_over(struct shard *shard, struct lease *lease);
