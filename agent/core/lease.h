/* A lease's life in its keeper: from the first attempt until its last key is gone from the last node. This
 * file passes each event to the file of the lease's state.
 *
 *   waiting ──▶ acquiring ─┬─────────▶ held ──▶ releasing ──▶ (forgotten)
 *      ▲            │      raising ──▶ ▲ │          ▲
 *      └────────────┴─────────┘ resuming └─▶ lost ──┘
 *
 * waiting, acquiring, raising: core/attempt.h; resuming: core/resume.h; held: core/held-lease.h; releasing:
 * core/release.h.
 *
 * A lease with a *cooldown* keeps its name taken for that time, also after it was released or lost. The
 * cooldown counts from the attempt that acquired the lease, as validity does, and every key that is set or
 * extended lives at least until its end. So the end of the agent changes nothing, and this agent deletes the
 * keys no sooner. Only the keys of failed attempts, and of grants that were not sent, are deleted at once.
 *
 * A lock value has one life. A failed attempt leaves its value to an undo record, a lease in `releasing`
 * without a request, and the request goes on with a fresh value. So a reply can count for its own attempt
 * only, and a key that may have been set is owed a release until that is confirmed, or the key has
 * expired. */
#pragma once

#include "core/shard-state.h"

/* --- requests and commands --- */

/* Begins the first attempt, after a pause. */
void lease_begin(struct shard *shard, struct lease *lease, int64_t pause_ns, instant_ns now_ns);

/* Begins to resume the lease. Its `deadline_ns` has no meaning yet. */
void lease_resume(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* The holder releases, or the request is withdrawn. The keys of a lease that is held, or being resumed, stay
 * until `keep_until_ns`. */
void lease_release(struct shard *shard, struct lease *lease, instant_ns keep_until_ns, instant_ns now_ns);

/* The request ends, and its client did not get a grant: the keys are left to their ttl. */
void lease_forget(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* The holder may live on without the agent: no more extensions, and no deletion before the deadline. */
void lease_abandon(struct shard *shard, struct lease *lease, bool unread, instant_ns now_ns);

/* The holder sent a heartbeat at `beat_ns`. */
void lease_beat(struct shard *shard, struct lease *lease, instant_ns beat_ns, instant_ns now_ns);

/* --- votes and time --- */

/* A node's vote in the current round. */
void lease_vote(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
                instant_ns now_ns);

/* A retry, a time-out, an extension, the deadline, or the end of the keys is due. */
void lease_tick(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* --- nodes and clocks --- */

/* The node's keys may have ended early: its votes in the current round no longer count, and a held lease is
 * extended soon. Not while releasing. */
void lease_vote_is_void(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns);

/* The node can be asked again. */
void lease_node_back(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns);
