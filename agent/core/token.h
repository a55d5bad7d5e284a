/* Fencing tokens: which number to propose for a new holder.
 *
 * A node accepts a number only if it is larger than every one that it accepted before for the name, only
 * while the lock is the proposer's, and only near its own clock. A holder's token is a number that a
 * majority has accepted for it: so two majorities share a node that saw the smaller number first. Which
 * number is proposed decides how soon a majority agrees, and nothing else: a time is larger than all before,
 * mostly.
 *
 * With its own token a holder may have a block of the next ones reserved, for whom the lease is handed over
 * to on its host. The proposal T then stands for all from T to T + block: a node accepts it if T is larger
 * than all before, remembers T + block, and wants that one near its clock too, since a floor must be at
 * least the largest that can exist. So whoever acquires next has a larger one than each of the block, and no
 * two blocks have a number in common; what is not used of a block is a gap. Blocks can't carry a name's
 * tokens away from the clock: none is reserved beyond the first quarter of what is between the time (or what
 * stands for it after a blessing, beyond the floor) and the largest token that nodes accept. */
#pragma once

#include "base/instant.h"

struct lease;
struct shard;
struct vote;

/* The last one of the lease's block. */
int64_t token_last(const struct lease *lease);

/* A first proposal: by the median of the nodes' clocks, beyond the floors of their blessings, this shard's
 * own tokens and what is known of the name. 0 without fencing. */
void token_propose(const struct shard *shard, struct lease *lease, instant_ns now_ns);

/* The next one, when it was too small for some nodes. Those who have accepted it have accepted its whole
 * block. */
void token_raise(const struct shard *shard, struct lease *lease, instant_ns now_ns);

/* What a node made of the proposed one. */
void token_vote(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
                instant_ns now_ns);

/* How far the node's clock is ahead of the median of all; 0 when it is not known. */
int64_t token_clock_ahead_us(const struct shard *shard, unsigned node, instant_ns now_ns);
