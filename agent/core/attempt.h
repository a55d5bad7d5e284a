/* Attempts of a request to acquire a lease (the acquisition of the Redlock algorithm, "Distributed Locks
 * with Redis" in the Redis documentation).
 *
 * Each attempt has a fresh lock value, so a reply counts for its own attempt only. An attempt asks all nodes
 * at once, and ends as soon as a majority has decided. If too few nodes of the majority accepted its fencing
 * token, further rounds raise the token where the key is ours. A failed attempt releases its keys at once;
 * core/retry.h decides when the request tries again. */
#pragma once

#include "core/shard-state.h"

void attempt_begin(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* A node's vote: in an attempt, while the token is raised, after the attempt failed. */
void attempt_vote(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
                  instant_ns now_ns);
void attempt_raise_vote(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
                        instant_ns now_ns);
void attempt_late_vote(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
                       instant_ns now_ns);

/* The time-out of an attempt, or the next attempt, is due. */
void attempt_tick(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* A message says that the key may be gone on this node; a subscription began there at `since_ns`. */
void attempt_freed(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns);
void attempt_subscribed(struct shard *shard, struct lease *lease, unsigned node, instant_ns since_ns,
                        instant_ns now_ns);

/* A node can be asked again; a node was examined, and does not vote. For waiting and resuming leases. */
void attempt_node_back(struct shard *shard, struct lease *lease, instant_ns now_ns);
void attempt_node_out(struct shard *shard, struct lease *lease, instant_ns now_ns);
