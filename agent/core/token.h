/* Fencing tokens: which number to propose for a new holder. (Leases with a fencing token: Kleppmann, "How to
 * do distributed locking". The rule for a majority of independent counters is ours: tests/model/fence.pml.)
 *
 * A node accepts a number only if it is larger than all that it accepted for the name before, only while the
 * lock is the proposer's, and only near its own clock. A token is a number that a majority has accepted for
 * its holder. Two majorities share a node, which accepted the smaller number first: so tokens grow. The
 * choice of the proposal decides only how soon a majority agrees. A time is mostly larger than all earlier
 * proposals.
 *
 * A holder may reserve a block of tokens behind its own, for hand-offs on its host. The proposal T then
 * means T to T + block: a node accepts it if T is larger than all before, remembers T + block, and
 * wants T + block near its clock, too, since a floor must be at least the largest token that can exist. So
 * the next acquisition has a token larger than the block, and no two blocks overlap. Unused tokens are a
 * gap. Blocks cannot carry a name's tokens away from the clock: none is reserved beyond the first quarter
 * between the time (after a blessing: the floor and what has been added since) and the largest token that
 * nodes accept. */
#pragma once

#include "base/instant.h"

struct lease;
struct shard;
struct vote;

/* The last token of the lease's block. */
int64_t token_last(const struct lease *lease);

/* Sets the lease's first proposal: the median of the nodes' clocks, but beyond the floors of their
 * blessings, this shard's tokens, and the largest token that is known of the name. 0 without fencing. */
void token_propose(const struct shard *shard, struct lease *lease, instant_ns now_ns);

/* Sets the next proposal, after some nodes found the last one too small. A node that accepted it accepted
 * its whole block. */
void token_raise(const struct shard *shard, struct lease *lease, instant_ns now_ns);

/* Counts a node's verdict on the proposal. */
void token_vote(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
                instant_ns now_ns);

/* How far the node's clock is ahead of the median of all clocks; 0: unknown. */
int64_t token_clock_ahead_us(const struct shard *shard, unsigned node, instant_ns now_ns);
