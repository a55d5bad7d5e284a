/* A held lease: extensions, and the end.
 *
 * A lease is extended by a majority, in a round that ends before the deadline. A failed extension changes
 * nothing but the report: the lease is at risk, and the extension is retried until the deadline. (It is not
 * at risk yet while nodes are examined that may extend it, and more than half of its ttl is left.)
 * Extensions end earlier when the lease reaches its `max_hold`, misses a heartbeat, or is abandoned. A
 * missing key is set again, and counts from the next round on. A key with another's value is never
 * overwritten; when so many nodes have one that no majority is left, the lease is lost. */
#pragma once

#include "core/shard-state.h"

/* The lease is granted, or resumed. `last_token`: of its block; 0: none. `beat_ns`: its last heartbeat. */
void held_lease_begin(struct shard *shard, struct lease *lease, int64_t last_token, instant_ns beat_ns,
                      instant_ns now_ns);

/* Sends an extension. */
void held_lease_extend(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* The holder has released the lease. Its keys are deleted at `until_ns`: the end of its cooldown. */
void held_lease_cool_down(struct shard *shard, struct lease *lease, instant_ns until_ns);

/* The lease is over for its holder. Its keys are deleted when its deadline and its cooldown have passed. */
void held_lease_lose(struct shard *shard, struct lease *lease, enum reason reason, instant_ns now_ns);

/* The front has seen the deadline pass, and asked for the release: reports and counts the loss. */
void held_lease_report_expired(struct shard *shard, const struct lease *lease);

void held_lease_vote(struct shard *shard, struct lease *lease, instant_ns now_ns);
void held_lease_tick(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* The holder sent a heartbeat at `beat_ns`. */
void held_lease_beat(struct shard *shard, struct lease *lease, instant_ns beat_ns, instant_ns now_ns);

/* No more extensions: the lease ends at its deadline. */
void held_lease_abandon(struct shard *shard, struct lease *lease, bool unread);

/* A node's vote no longer counts: the lease is extended soon. */
void held_lease_vote_is_void(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* A node can be asked again. */
void held_lease_node_back(struct shard *shard, struct lease *lease, instant_ns now_ns);
