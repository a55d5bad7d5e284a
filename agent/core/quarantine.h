/* Quarantine: when a node that lost its memory may be blessed.
 *
 * The model. A lease with a ttl of T is granted and extended by nodes whose epochs say T or more, and which
 * the agent knew when the round began. So while it is valid, a majority S voted in its last round under such
 * epochs. Let F be a node of S that has forgotten its vote. Agent X leaves its mark on F, and then reads the
 * epochs of n - quorum + 1 *other* nodes. S has quorum - 1 others, so X reads one of them, G.
 *
 *   - If X reads G's epoch between the begin of the round and G's vote, it says T or more.
 *   - If X reads it later, and G has kept its epoch, it says as much: shorter leases take effect only when a
 *     proposal is as old as the longer ones live, and no agent that needs longer ones sends requests under
 *     it (core/node-epoch.h). By then this lease has ended.
 *   - If G has forgotten and was blessed anew, this lease had ended by then, for the same reason as here.
 *
 * So X knows a max_ttl of at least T. It waits that long on its own stopwatch, from the mark on, with drift
 * and a margin; then the lease has ended, and X blesses F. No two agents hold one name: two majorities share
 * a node that has not forgotten, or that has forgotten only leases that have ended. The new epoch's max_ttl
 * covers the agents that have left marks there, or have read the node's last epoch.
 *
 * If too few other nodes can be reached, F is not blessed: their epochs may be the ones that count. The node
 * then waits as long as any lease may last (a day), or for an operator's BLESS.
 *
 * If so many nodes have lost their epochs that the rest are too few (all at once, say, or the only one), no
 * epoch may prove T. Then nodes with X's mark count as read, and X waits for the longest max_ttl that the
 * marks on them show: those of the agents, and of the last epochs that these agents have read there. X also
 * waits, after the last of these losses, until each agent that is connected there has noticed the loss. Then
 * X reads these nodes once more. This is safe if all agents have the same max_ttl, or if those with longer
 * leases, or an agent that has read their epochs, are connected to a node that lost its memory.
 *
 * Sets of nodes. An epoch names its fleet, also after its process. X's marks, readings and blessings count
 * for one fleet only. A node with another fleet's epoch is not read, and bars all others; also when it has
 * lost that epoch, since its fleet may go on without it: then X does not bless it without an operator's
 * BLESS. A node with another fleet's mark is not blessed without enough epochs of ours. A node that others
 * reach at other addresses only may be another server under the same name: an agent that reaches it there
 * blesses it. */
#pragma once

#include "core/shard-state.h"

enum { QUARANTINE_TEXT_BYTES = 200 };

/* When the node's quarantine ends, if our mark is present; INSTANT_NEVER: unknown. */
instant_ns quarantine_until_ns(const struct shard *shard, unsigned node);

/* When the quarantined node may be blessed, as far as known: not before the nodes that count by our marks
 * were read once more after the quarantine's end. An agent that noticed a loss at the last moment has left
 * its mark, or renewed its fleet's epoch, since the reading before. `ret_covered_ms`: by then forgotten
 * leases with at most this ttl have ended. */
instant_ns quarantine_bless_ns(const struct shard *shard, unsigned node, uint32_t *ret_covered_ms);

/* The length of a quarantine for the longest ttl that is known now; 0: there are no quarantines. */
int64_t quarantine_longest_ns(const struct shard *shard);

/* True if a quarantine waits for a reading of this node. */
bool quarantine_wants(const struct shard *shard, unsigned node);

/* The reason why the quarantine's end is unknown, for people. False: the end is known, or the reason not
 * yet. */
bool quarantine_explain(const struct shard *shard, unsigned node, instant_ns now_ns,
                        char text[QUARANTINE_TEXT_BYTES]);
