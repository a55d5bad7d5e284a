/* When a node that lost its memory may be blessed.
 *
 * The model. A lease with a ttl of T is granted and extended by nodes whose epochs say T or more, all of
 * which the agent knew when the round began. So while it is valid, a majority S gave the votes of its last
 * round under such epochs. Let F be one of them that has forgotten its vote. Agent X leaves its mark on F,
 * and then reads the epochs of n - quorum + 1 *other* nodes. S has quorum - 1 others, so X reads one of
 * them, G.
 *
 *   - G's epoch stood from before the round until G's vote. If X reads it in that time, it says T or more.
 *   - If X reads it later, and G has kept its epoch, that says as much: shorter leases are agreed on only
 * when a proposal has stood for as long as the longer ones live, and nobody votes under one who needs longer
 *     ones (core/node.h). By then this lease has ended.
 *   - If G has forgotten and was blessed anew, this lease had ended by then, for the same reason as here.
 *
 * So X knows a max_ttl that is at least T. It waits that long on its own stopwatch, from the mark on, and
 * its drift and a margin; then the lease has ended, and X blesses F. No two agents hold one name: whose
 * majorities share a node that has not forgotten, or one that has forgotten what has ended. What the epoch
 * says then is what agents that have left marks there need, or have read of its last epoch.
 *
 * Nobody blesses F because too few others can be reached: what they know may be what counts. It takes
 * longer than any lease may last (a day), or an operator's word.
 *
 * If so many have lost their epochs that the rest are fewer (all at once, say, or the only one), nobody may
 * know. Those on which X's mark stands count as read, and X waits for the longest max_ttl of all agents that
 * have left a mark on any of them, and of the last epochs that these agents have read there; but long enough
 * for each agent that is connected there to have noticed, from the last of these losses on, and reads these
 * nodes once more. Then the promise is kept if all agents have the same max_ttl, or those with longer
 * leases, or an agent that has read their epochs, are connected to a node that lost its memory.
 *
 * Sets of nodes. The epochs name the fleet that they belong to, also after the process that they name. X's
 * marks, readings and blessings count for one fleet only: a node with another fleet's epoch is not read, and
 * bars all others; also when it has lost that epoch, since its fleet may go on without it: then X does not
 * bless it without an operator's word. One that another fleet waits for is not blessed without enough epochs
 * of ours. And where others reach a node of this name at other addresses only, it may be another server that
 * took the name: somebody who reaches it there blesses it. */
#pragma once

#include "core/shard-state.h"

enum { QUARANTINE_TEXT_BYTES = 200 };

/* When the node's quarantine ends, if our mark stands; INSTANT_NEVER: not known. */
instant_ns quarantine_until_ns(const struct shard *shard, unsigned node);

/* When the node may be blessed, as far as is known: not before the nodes that count by our marks were read
 * once more since the quarantine's end. An agent that noticed a loss at the last moment has left its mark,
 * or renewed its fleet's epoch, since they were read before. `ret_covered_ms`: leases with a ttl up to this
 * one have ended then, if it forgot any. */
instant_ns quarantine_bless_ns(const struct shard *shard, unsigned node, uint32_t *ret_covered_ms);

/* How long a node rests by the longest ttl that we know of now: where no node has forgotten. */
int64_t quarantine_longest_ns(const struct shard *shard);

/* Whether some node's quarantine waits for what this one has to tell. */
bool quarantine_wants(const struct shard *shard, unsigned node);

/* Why its end is not known, for people. False if there is nothing to say but that it rests, or not yet. */
bool quarantine_explain(const struct shard *shard, unsigned node, instant_ns now_ns,
                        char text[QUARANTINE_TEXT_BYTES]);
