#include "core/quorum.h"

#include <assert.h>

void round_begin(struct round *round, node_set asked) {
    *round = (struct round){.asked = asked};
}

void round_answer(struct round *round, unsigned node, enum vote_kind vote) {
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
    case VOTE_EPOCH:
    case VOTE_CUT:
        break;
    }
    assert(!(round->yes & round->foreign));
}

enum verdict round_verdict(const struct round *round, unsigned nodes) {
    unsigned quorum = quorum_of(nodes);
    unsigned yes = node_set_count(round->yes);

    if (yes >= quorum)
        return VERDICT_REACHED;
    if (yes + node_set_count(round->asked) < quorum)
        return VERDICT_IMPOSSIBLE;
    return VERDICT_OPEN;
}
