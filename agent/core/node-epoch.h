/* The trust in a node: what its probes find, and what to send next.
 *
 * A node that lost its memory (restarted empty or with old data, was flushed, promoted, or is new) must not
 * vote until every lease that it may have forgotten has ended. Its *epoch key* names the process for which
 * an agent has waited that long. A node without an epoch key, or with that of another process, is
 * in *quarantine*: the agent waits on its own stopwatch, as long as core/quarantine.h says, and then blesses
 * the node. The stopwatch starts when the node confirms our *mark*, and counts only while that mark is
 * present. Each start has a mark with a new number: an unconfirmed mark (the connection broke) proves
 * nothing, since it may have been left after a loss. A blessing removes all marks, since the agents that
 * left them have not waited for what is granted after it. One exception is configured: a process with all
 * data of the former process (its *heir*) inherits the blessing, if its clock was not set meanwhile.
 *
 * An epoch also has: the longest ttl that agents grant; whether the node was *rested*, that is, in
 * quarantine (agents with `quarantine = no` bless without, which counts for them alone); and the node's
 * fleet: an agent with another set of nodes asks no node while it sees such an epoch. Each change of an
 * epoch increments a number, so no two epochs are equal: a vote under an epoch proves that the node had this
 * epoch from our reading until the vote. A vote counts only if its epoch was known when the round began.
 * Shorter leases are proposed first, and take effect when the proposal is as old as a quarantine is long: an
 * agent that needs longer leases sends nothing under such an epoch, but changes the epoch back. */
#pragma once

#include "core/node.h"

enum node_epoch_wish {
    NODE_EPOCH_WANTS_NOTHING,
    NODE_EPOCH_WANTS_MARK,
    NODE_EPOCH_WANTS_PROBE,
    NODE_EPOCH_WANTS_BLESSING,
    NODE_EPOCH_WANTS_AMENDMENT,
};

/* What the trust in a node depends on besides the node. */
struct node_epoch_terms {
    uint32_t max_ttl_ms;     /* the longest lease that this agent grants */
    bool quarantine;         /* only blessings after a quarantine count */
    instant_ns bless_ns;     /* when it may be blessed, if its mark is present; INSTANT_NEVER: unknown */
    uint32_t covered_ms;     /* by then forgotten leases with at most this ttl have ended */
    instant_ns withdrawn_ns; /* when a withdrawn proposal was last noticed on any node */
    int64_t turn_ns;         /* so long after the first node's proposal comes this node's */
};

/* Notes that a mark, a probe, a blessing or an amendment is being sent, as the wish says. */
void node_epoch_asked(struct node *node, enum node_epoch_wish wish, instant_ns now_ns);

/* The blessing to send. */
struct blessing node_epoch_blessing(struct node *node, const struct node_epoch_terms *terms);

/* The amendment to send. */
struct amendment node_epoch_amendment(const struct node *node, const struct node_epoch_terms *terms,
                                      instant_ns now_ns);

/* The inquiry to send for a mark or a probe, after node_epoch_asked(). */
struct inquiry node_epoch_inquiry(const struct node *node, uint32_t max_ttl_ms, node_set known);

/* The answer to a probe, a blessing or an amendment. */
void node_epoch_probed(struct node *node, const struct probe *probe, const struct node_epoch_terms *terms,
                       instant_ns now_ns);

/* An operator's BLESS: no quarantine is needed, neither for leases longer than ours nor for another fleet's.
 * The BLESS counts until the node's next loss of data. */
void node_epoch_hurry(struct node *node, const struct node_epoch_terms *terms, instant_ns now_ns);

/* This agent grants leases of up to this ttl: the node gets no requests until its epoch allows this, too. */
void node_epoch_outgrow(struct node *node, uint32_t max_ttl_ms);

/* A request found that the node's epoch has changed. */
void node_epoch_doubt(struct node *node);

/* What the trust in the node needs now, and when that changes. */
enum node_epoch_wish node_epoch_wish(const struct node *node, const struct node_epoch_terms *terms,
                                     instant_ns now_ns);
instant_ns node_epoch_wish_due_ns(const struct node *node, const struct node_epoch_terms *terms);

/* The longest ttl that agents grant, by the node's present or last epoch, or its marks. */
static inline uint32_t node_epoch_known_ms(const struct node *node) {
    return node->known_ms > node->remembered_ms ? node->known_ms : node->remembered_ms;
}

/* True if a vote in a round that began then counts: its epoch was known. */
static inline bool node_epoch_was_known(const struct node *node, instant_ns since_ns) {
    return node->epoch_ns <= since_ns;
}
