/* A lease whose holder has changed on its own host: its keys are brought up to date behind it.
 *
 * The front hands a lease over by itself, to the next of its waiters, and tells the keeper later and not
 * each time (local/handoff.h has why that is safe): for the keeper a lease is its number and its keys,
 * whoever has it. What it is told in the end is the holder of that moment: the rest of the lock value (its
 * process and data), a fresh random part, its token, and until when it may hold.
 *
 * The nodes are then *refreshed*: an extension that on each node puts the new value in the place of the
 * former one, in one step, and never in the place of another's. Until each node that may have the former
 * value has answered such a request, or that value has expired, a node of this lease has one of two values,
 * and every request names both:
 *  - an extension counts a node that had either (both are nobody's but ours), and leaves the new one there.
 * A reply that is lost changes nothing: the next extension finds the new value;
 *  - a release deletes either. Both stand in one script call, so that a node is never half released.
 * The epoch, the deadline, votes and time-outs are an extension's. */
#pragma once

#include "core/event.h"
#include "core/lease.h"

struct shard;

/* COMMAND_HAND_OVER. Nothing when the lease is not held any more. */
void key_refresh_begin(struct shard *shard, struct lease *lease, const struct command *command,
                       instant_ns now_ns);

/* How a held lease is extended now: OPERATION_REFRESH as long as a node may have the former value. */
enum operation key_refresh_operation(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* A node's answer to an extension. */
void key_refresh_vote(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote);
