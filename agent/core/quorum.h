/* One round of one request over the nodes: counts the answers of this round only. */
#pragma once

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
void round_begin(struct round *round, node_set asked);

/* Takes one node's answer. A second answer of a node that is not awaited changes nothing. */
void round_answer(struct round *round, unsigned node, enum vote_kind vote);

enum verdict round_verdict(const struct round *round, unsigned nodes);
