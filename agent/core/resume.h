/* Resuming a lease whose holder outlives the agent, or the process of this agent, that granted it.
 *
 * A lease is proven valid by a majority of nodes that have its key, never by its holder's claim. Each of
 * them *adopts* the key in one step: most of the random part of its value stays, agent and process
 * become ours. So extensions and releases of the earlier agent, dead or alive, find another's value:
 * they can neither delete nor extend the key. (A lease whose keys this agent deletes is not resumed.) Of
 * two agents that resume one lease, one has the majority. A resume sets no missing key: a lease that has
 * ended does not begin again. A failed resume leaves the keys to their ttl, since the holder may
 * consider the lease valid until its deadline, and try again. A node that was out of reach keeps the old
 * value until it expires; an extension repairs it then. A try that has not succeeded within a node time-out
 * is reported; the next one begins when the outstanding answers cannot decide it, or core/patience.h ends.
 *
 * A client's RESUME adopts the key from any agent, unless the lease was resumed again since: the number
 * in the lock value grows with each RESUME (core/lock-value.h). Two RESUMEs with one resume token have
 * the same number, and the later one takes the key: the client had no reply from the agent that it asked
 * first. That agent never deletes the key, nor does its next process (core/foreign-key.h).
 *
 * A *search* continues a lease of the ledger after a restart, or a RESUME that a former process may have
 * sent. Of values with its own number it adopts those of this process and the former ones of this agent
 * only: the client may have resumed the lease elsewhere, and may close its connection to this agent,
 * which releases the lease here. Each process that searches is known to the next one before. */
#pragma once

#include "base/instant.h"

struct lease;
struct shard;

/* The outcome so far. */
enum resume_progress {
    RESUME_OPEN,   /* answers are outstanding, or the next try is scheduled */
    RESUME_DONE,   /* the lease is held, until its `deadline_ns` */
    RESUME_FAILED, /* and reported: the lease is forgotten */
};

/* The first try. */
enum resume_progress resume_begin(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* A node answered, and the round has counted the answer. */
enum resume_progress resume_vote(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* The time-out, or the next try, is due; or the late answers are looked at. */
enum resume_progress resume_tick(struct shard *shard, struct lease *lease, instant_ns now_ns);
