/* Foreign contenders: lock clients that are no agents and try for a name at intervals of their own.
 *
 * Such a client gets no message when a lease is released: it tries every 50 to 400 ms. Where agents hand a
 * name to each other within a millisecond, it finds the name free in one of a hundred tries. So for
 * FOREIGN_CONTENDER_MS after an agent met another program's value under a name, each release of an agent's
 * lease is followed by a pause of about one polling interval, in which agents leave the name free: the
 * former holder's agent before its next request contends (foreign_contender_pause_ns()), the agents that a
 * message wakes before their next attempt (retry.c). The message of the release reports it to agents that
 * did not meet the value. They do not repeat the report, so it ends with the last agent that meets such a
 * value. A series of hand-offs within a host ends after HANDOFF_MS (local/handoff.h).
 *
 * A name without such a client is not delayed. The check costs a comparison before the shard's first
 * meeting, afterwards a hash of the name at each acquisition and release. The table is a hint: another name
 * may take an entry, and a missing pause harms only fairness. */
#pragma once

#include <stdbool.h>

#include "base/instant.h"

struct lease;
struct shard;

enum { FOREIGN_CONTENDERS_MAX = 64 };

struct foreign_contender {
    uint64_t name_hash;
    instant_ns met_ns;        /* when another program's value was met last; 0: never */
    instant_ns reported_ns;   /* when another agent reported it last; 0: never */
    instant_ns left_until_ns; /* a release here leaves the name free until then */
};

/* An attempt met another program's key under the lease's name. */
void foreign_contender_met(struct shard *shard, const struct lease *lease, instant_ns now_ns);

/* Another agent's message of a release reports such a meeting. */
void foreign_contender_reported(struct shard *shard, const struct lease *lease, instant_ns now_ns);

/* True: this agent met such a key not long ago. */
bool foreign_contender_was_met(const struct shard *shard, const struct lease *lease, instant_ns now_ns);

/* True: lock clients that are no agents may want the lease's name. */
bool foreign_contender_is_near(const struct shard *shard, const struct lease *lease, instant_ns now_ns);

/* A lease of this agent is being released while they are near: the name is left to them until then. */
void foreign_contender_leave(struct shard *shard, const struct lease *lease, instant_ns until_ns);

/* The time for which the name is still left free; 0: none. */
int64_t foreign_contender_pause_ns(const struct shard *shard, const struct lease *lease, instant_ns now_ns);
