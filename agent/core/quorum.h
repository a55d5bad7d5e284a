/* One round of one request over the nodes: counts the answers of this round only. */
#pragma once

#include <assert.h>

#include "core/event.h"

enum verdict {
    VERDICT_OPEN,       /* more answers may decide it */
    VERDICT_REACHED,    /* a majority of the configured nodes said yes */
    VERDICT_IMPOSSIBLE, /* not enough nodes are left to say yes */
};

struct round {
    node_set asked; /* still to answer */
    node_set yes;
    node_set repaired; /* set again in this round: counts from the next one on */
    node_set foreign;  /* another's value */
    node_set free;     /* no key */
    node_set refused;  /* the node answered with an error, such as that it is read-only */
};

/* The majority of `nodes` configured nodes. */
static inline unsigned quorum_of(unsigned nodes) {
    return nodes / 2 + 1;
}

static inline unsigned node_set_count(node_set set) {
    return (unsigned) __builtin_popcount(set);
}

static inline node_set node_set_of(unsigned node) {
    return (node_set) (1u << node);
}

/* Starts anew: nothing that came before counts. */
static inline void round_begin(struct round *round, node_set asked) {
    *round = (struct round){.asked = asked};
}

/* Takes one node's answer. A second answer of a node that is not awaited changes nothing. */
static inline void round_answer(struct round *round, unsigned node, enum vote_kind vote) {
    assert(node < NODES_MAX);

    node_set bit = node_set_of(node);
    if (!(round->asked & bit))
        return;
    round->asked &= (node_set) ~bit;
    switch (vote) {
    case VOTE_YES:
        round->yes |= bit;
        break;
    case VOTE_REPAIRED:
        round->repaired |= bit;
        break;
    case VOTE_FOREIGN:
        round->foreign |= bit;
        break;
    case VOTE_BEHIND:
    case VOTE_FREE:
        round->free |= bit;
        break;
    case VOTE_REFUSED:
        round->refused |= bit;
        break;
    case VOTE_EPOCH:
    case VOTE_CUT:
        break;
    }
    assert(!(round->yes & round->foreign));
}

static inline enum verdict round_verdict(const struct round *round, unsigned nodes) {
    unsigned quorum = quorum_of(nodes);
    unsigned yes = node_set_count(round->yes);

    if (yes >= quorum)
        return VERDICT_REACHED;
    if (yes + node_set_count(round->asked) < quorum)
        return VERDICT_IMPOSSIBLE;
    return VERDICT_OPEN;
}
