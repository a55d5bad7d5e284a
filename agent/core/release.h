/* Releases: deleting the keys of a lease, or of a failed attempt.
 *
 * A release is sent at once to every node that may have the key, since a request that was cut off may have
 * been executed. It is *owed* to each node that has not confirmed it, and sent again, until the key has
 * expired there. The front's report comes when a majority has confirmed, or after a node time-out. */
#pragma once

#include "core/shard-state.h"

/* Deletes the lease's keys on the nodes of `maybe`. */
void release_begin(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* Gives the value of a failed attempt to an *undo record*, a lease without a request, and deletes its keys.
 * The lease goes on with a fresh value. */
void release_undo(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* One more node may have the key of a lease that is being released. */
void release_add_node(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns);

void release_vote(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote);
void release_tick(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* The node can be asked again. */
void release_node_back(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns);

/* Sends releases of the backlog, as far as the nodes have room. */
void release_send_backlog(struct shard *shard, instant_ns now_ns);

static inline void release_backlog(struct shard *shard, instant_ns now_ns) {
    if (!list_is_empty(&shard->backlog))
        release_send_backlog(shard, now_ns);
}
