#include "core/patience.h"

#include "core/send.h"

enum {
    ROUND_DIVISOR = 4,  /* late answers to a round are awaited for ttl / ROUND_DIVISOR, */
    STEP_DIVISOR = 20,  /* and checked every ttl / STEP_DIVISOR, */
    STEP_MS_MAX = 1000, /* or every STEP_MS_MAX, if that is shorter */
};

bool patience_lasts(const struct shard *shard, const struct lease *lease, instant_ns now_ns) {
    const struct quorum_round *round = &lease->round;
    node_set asked = round->asked | round->yes | round->foreign | round->free | round->refused;

    return lease->undecided && now_ns - lease->started_ns < lease_state_ttl_ns(lease) / ROUND_DIVISOR &&
           (shard_askable(shard) & (node_set) ~asked) == 0;
}

instant_ns patience_go_on(struct shard *shard, struct lease *lease, enum operation operation,
                          instant_ns now_ns) {
    node_set nodes = lease->round.refused & shard_askable(shard);

    if (nodes != 0) {
        lease->round.refused &= (node_set) ~nodes;
        lease->maybe |= nodes;
        send_more(shard, lease, operation, nodes, now_ns);
    }
    return now_ns + instant_min(lease_state_ttl_ns(lease) / STEP_DIVISOR, STEP_MS_MAX * NS_PER_MS);
}
