/* A round: one request to a set of nodes. Counts the answers of this round only. */
#pragma once

#include <assert.h>

#include "core/event.h"

enum quorum_verdict {
    VERDICT_OPEN,       /* more answers may decide */
    VERDICT_REACHED,    /* a majority of the configured nodes said yes */
    VERDICT_IMPOSSIBLE, /* too few nodes are left for a majority */
};

struct quorum_round {
    node_set asked; /* answers are outstanding */
    node_set yes;
    node_set repaired; /* the missing key was set again: counts from the next round on */
    node_set foreign;  /* the key has another's value */
    node_set free;     /* no key */
    node_set refused;  /* the node answered with an error, such as READONLY */
};

/* The majority of `nodes` configured nodes. */
static inline unsigned quorum_of(unsigned nodes) {
    return nodes / 2 + 1;
}

/* Begins a round: earlier answers no longer count. */
static inline void quorum_begin(struct quorum_round *round, node_set asked) {
    *round = (struct quorum_round){.asked = asked};
}

/* Counts a node's answer. An answer that is not outstanding changes nothing. */
static inline void quorum_answer(struct quorum_round *round, unsigned node, enum vote_kind vote) {
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

static inline enum quorum_verdict quorum_verdict(const struct quorum_round *round, unsigned nodes) {
    unsigned quorum = quorum_of(nodes);
    unsigned yes = node_set_count(round->yes);

    if (yes >= quorum)
        return VERDICT_REACHED;
    if (yes + node_set_count(round->asked) < quorum)
        return VERDICT_IMPOSSIBLE;
    return VERDICT_OPEN;
}
