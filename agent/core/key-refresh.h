/* Refreshing the keys of a lease after hand-offs on its host.
 *
 * The front hands a lease off alone, and reports some of the hand-offs to the keeper (local/handoff.h has
 * why that is safe). The keeper then gets the present holder: the tail of its lock value, a fresh random
 * part, its token, and the end of its max_hold.
 *
 * A refresh is an extension that replaces the former value by the new one on each node, in one step, and
 * never another's value. Until each node that may have the former value has answered a refresh, or that
 * value has expired, a node may have either value, and each request names both:
 *  - an extension counts a node that had either, since both are ours, and leaves the new one there. A lost
 *    reply does no harm: the next extension finds the new value;
 *  - a release deletes either, in one script call, so a node is never half released.
 * Epochs, deadlines, votes and time-outs are those of an extension.
 *
 * Nodes forget tokens that are not used for fence_retention, so the token of a lease that is held for long
 * is used again from time to time: by a refresh whose former value is the lease's own. It also keeps the
 * largest token of the name. The shortest fence_retention counts, since another agent may have it. A node
 * whose key was missing and is set again, as after a loss of its data, gets the token soon: an extension
 * brings none. */
#pragma once

#include "core/event.h"

struct lease;
struct shard;

/* Gives the lease its new holder. Does nothing if the lease is not held. */
void key_refresh_begin(struct shard *shard, struct lease *lease, const struct command *command,
                       instant_ns now_ns);

/* The nodes have, or get, the lease's token now: plans when they get it again. */
void key_refresh_plan(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* The nodes have had the token for an unknown time: the lease was resumed, or found after a restart. */
void key_refresh_plan_soon(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* The operation that extends the lease now: OPERATION_REFRESH while a node may have the former value, and
 * when the nodes get the token again. */
enum operation key_refresh_operation(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* A node's answer to an extension. */
void key_refresh_vote(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
                      instant_ns now_ns);
