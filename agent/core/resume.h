/* Resuming: a lease whose holder has outlived the agent that granted it is taken over.
 *
 * What proves that it still stands is a majority of nodes on which its key was found, never what the holder
 * says. On each of them the key is *taken over* in one step: the random part of the value stays, agent and
 * process become ours. So whatever the earlier agent still does or has under way finds another's value: it
 * can neither delete the key nor extend it, be it dead, or alive and about to release what its client left.
 * (What this agent itself is about to delete it does not resume.) And of two agents that resume one lease,
 * one has the majority. A resume sets no missing key: what had ended does not begin again.
 * If it fails, its keys are left to their ttl, since the holder may go on believing until its last deadline
 * and try again. A node that was out of reach has the old value until it expires, and is repaired then. */
#pragma once

#include "base/instant.h"

struct lease;
struct shard;

/* What the lease's life is to make of it. */
enum resume_progress {
    RESUME_OPEN,   /* under way, or about to try again */
    RESUME_DONE,   /* it is held from now on, until `deadline_ns` */
    RESUME_FAILED, /* which was reported: it is to be forgotten */
};

/* Tries for the first time. */
enum resume_progress resume_begin(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* A node has answered, which the round has counted. */
enum resume_progress resume_vote(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* Something is due: the time-out, or another try. */
enum resume_progress resume_tick(struct shard *shard, struct lease *lease, instant_ns now_ns);
