#include "core/token.h"

#include "core/shard-state.h"

enum {
    BLOCKS_ROOM_DIVISOR = 4,
    FLOOR_PACE_DIVISOR = 4,
};

/* The clocks of the nodes that can be asked, in microseconds since 1970; 0: none is known. */
struct clocks {
    int64_t lowest_us, median_us;
};

static struct clocks nodes_clocks(const struct shard *shard, instant_ns now_ns) {
    int64_t times_us[NODES_MAX];
    unsigned count = 0;

    for (unsigned i = 0; i < shard->config.nodes; i++) {
        const struct node *node = &shard->nodes[i];
        if (!node_can_be_asked(node) || !node->offset.known)
            continue;
        int64_t time_us = clock_offset_time_us(&node->offset, now_ns);
        unsigned at = count++;
        for (; at > 0 && times_us[at - 1] > time_us; at--)
            times_us[at] = times_us[at - 1];
        times_us[at] = time_us;
    }
    if (count == 0)
        return (struct clocks){0, 0};
    return (struct clocks){.lowest_us = times_us[0], .median_us = times_us[count / 2]};
}

int64_t token_clock_ahead_us(const struct shard *shard, unsigned node, instant_ns now_ns) {
    const struct clock_offset *offset = &shard->nodes[node].offset;
    int64_t median_us = nodes_clocks(shard, now_ns).median_us;

    return offset->known && shard->nodes[node].ready && median_us > 0
               ? clock_offset_time_us(offset, now_ns) - median_us
               : 0;
}

static int64_t skew_us(const struct shard *shard) {
    return (int64_t) shard->config.fence_skew_ms * 1000;
}

/* True if most nodes would accept a larger token. A token of a node whose clock is far ahead may be too
 * large for that. */
static bool is_near(const struct shard *shard, const struct clocks *clocks, int64_t token) {
    return token < clocks->median_us + skew_us(shard);
}

/* The largest floor of the nodes' blessings beyond which most nodes accept tokens now; 0: none. */
static int64_t largest_floor_us(const struct shard *shard, const struct clocks *clocks) {
    int64_t largest_us = 0;

    for (unsigned i = 0; i < shard->config.nodes; i++) {
        const struct node *node = &shard->nodes[i];
        if (node_can_be_asked(node) && node->blessed_floor_us > largest_us &&
            node->blessed_floor_us < clocks->median_us + skew_us(shard))
            largest_us = node->blessed_floor_us;
    }
    return largest_us;
}

/* The least proposal: the nodes' time, and beyond their floors.
 *
 * A floor is fence_skew ahead of the clock that wrote it, so proposals are ahead of the clocks until time
 * has caught up. Beyond the floor they grow with time, but slowly. If they counted up by one instead, a
 * proposal would be too small, and cost another round trip, whenever another agent had acquired the name
 * meanwhile. Slow growth leaves room for raised tokens and for blocks. The lowest clock counts, so that a
 * node that accepts the floor + 1 accepts the proposals. */
static int64_t base_us(const struct shard *shard, const struct clocks *clocks) {
    int64_t floor_us = largest_floor_us(shard, clocks);
    if (floor_us == 0)
        return clocks->median_us;
    int64_t since_blessing_us = clocks->lowest_us + skew_us(shard) - floor_us;
    int64_t beyond_us = floor_us + 1 + (since_blessing_us > 0 ? since_blessing_us / FLOOR_PACE_DIVISOR : 0);

    return beyond_us > clocks->median_us ? beyond_us : clocks->median_us;
}

int64_t token_last(const struct lease *lease) {
    return lease->token + lease->token_more;
}

static void set_proposal(const struct shard *shard, struct lease *lease, int64_t token, int64_t base,
                         const struct clocks *clocks) {
    int64_t room_us = clocks->median_us + skew_us(shard) - base;

    lease->token = token;
    lease->token_more = lease->spare_tokens;
    if (token_last(lease) - base >= room_us / BLOCKS_ROOM_DIVISOR)
        lease->token_more = 0;
}

void token_propose(const struct shard *shard, struct lease *lease, instant_ns now_ns) {
    lease->token = 0;
    lease->token_more = 0;
    if (!lease->terms.fencing)
        return;
    struct clocks clocks = nodes_clocks(shard, now_ns);
    int64_t token = clocks.median_us, base = base_us(shard, &clocks);

    /* A known token saves a round trip, unless the clocks were set back: then no node accepts it. */
    if (lease->token_known >= token && is_near(shard, &clocks, lease->token_known))
        token = lease->token_known + 1;
    if (shard->token_high >= token && is_near(shard, &clocks, shard->token_high))
        token = shard->token_high + 1;
    set_proposal(shard, lease, token > base ? token : base, base, &clocks);
}

void token_raise(const struct shard *shard, struct lease *lease, instant_ns now_ns) {
    struct clocks clocks = nodes_clocks(shard, now_ns);
    int64_t largest = token_last(lease);

    if (lease->token_seen > largest)
        largest = lease->token_seen;
    if (shard->token_high > largest && is_near(shard, &clocks, shard->token_high))
        largest = shard->token_high;
    set_proposal(shard, lease, largest + 1, base_us(shard, &clocks), &clocks);
}

void token_vote(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
                instant_ns now_ns) {
    static const char behind[] = "has accepted a larger fencing token",
                      far[] = "its clock is too far from the others' for fencing tokens (see fence_skew)";

    switch (vote->token_verdict) {
    case TOKEN_ACCEPTED:
        lease->accepted |= node_set_of(node);
        return;
    case TOKEN_SMALL:
        node_note_trouble(&shard->nodes[node], behind, sizeof(behind) - 1);
        break;
    case TOKEN_FAR:
        node_note_trouble(&shard->nodes[node], far, sizeof(far) - 1);
        break;
    }
    struct clocks clocks = nodes_clocks(shard, now_ns);
    if (vote->token > lease->token_seen && is_near(shard, &clocks, vote->token))
        lease->token_seen = vote->token;
}
