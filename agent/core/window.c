#include "core/window.h"

#include <assert.h>

#include "core/shard-state.h"

enum {
    WINDOW_STEP_NS = 2000,         /* between two places: about what a release takes a node */
    WINDOW_FIRST_NS = 1000 * 1000, /* to the first place: a fraction of what a full window takes */
};

/* The share of a window that a kind of request may fill. */
struct share {
    uint32_t names_max;
    bool aged; /* also if the node's answers take long */
    bool slow; /* also if the node is slow */
};

static bool has_room(const struct node *node, const struct share *share, instant_ns now_ns) {
    if (node->slow && !share->slow)
        return false;
    if (node->outstanding >= share->names_max)
        return false;
    return share->aged || node->outstanding < NODE_FEW_NAMES || node->gauge == 0 ||
           now_ns - node->gauge_ns < NODE_QUEUE_MS * NS_PER_MS;
}

static node_set with_room(const struct shard *shard, node_set nodes, const struct share *share,
                          instant_ns now_ns) {
    node_set set = 0;

    for (unsigned i = 0; i < shard->config.nodes; i++)
        if ((nodes & node_set_of(i)) && has_room(&shard->nodes[i], share, now_ns))
            set |= node_set_of(i);
    return set;
}

static node_set prompt_ones(const struct shard *shard, node_set nodes) {
    for (unsigned i = 0; i < shard->config.nodes; i++)
        if (shard->nodes[i].slow)
            nodes &= (node_set) ~node_set_of(i);
    return nodes;
}

/* Attempts ask slow nodes, too, so their keys must be released there. */
static bool needs_slow_nodes(const struct shard *shard) {
    return !shard_is_majority(shard, prompt_ones(shard, shard_askable(shard)));
}

node_set window_for_attempt(const struct shard *shard, instant_ns now_ns) {
    node_set askable = shard_askable(shard);

    assert(shard_is_majority(shard, askable));
    struct share share = {.names_max = shard->attempts_max};
    node_set nodes = with_room(shard, askable, &share, now_ns);
    if (!shard_is_majority(shard, nodes)) {
        share.slow = true;
        nodes = with_room(shard, askable, &share, now_ns);
    }
    return shard_is_majority(shard, nodes) ? nodes : 0;
}

node_set window_for_query(const struct shard *shard, instant_ns now_ns) {
    const struct share share = {.names_max = shard->attempts_max, .aged = true, .slow = true};
    node_set askable = shard_askable(shard);

    assert(shard_is_majority(shard, askable));
    node_set nodes = with_room(shard, askable, &share, now_ns);
    return shard_is_majority(shard, nodes) ? nodes : 0;
}

node_set window_for_extension(const struct shard *shard, const struct lease *lease, instant_ns now_ns) {
    node_set askable = shard_askable(shard);
    bool urgent = lease->deadline_ns - now_ns <= WINDOW_URGENT_MS * NS_PER_MS;
    const struct share share = {
        .names_max = shard->releases_max * (urgent ? 2 : 1), .aged = urgent, .slow = true};

    assert(askable != 0);
    node_set nodes = with_room(shard, askable, &share, now_ns);
    return shard_is_majority(shard, nodes) || !shard_is_majority(shard, askable) ? nodes : 0;
}

node_set window_for_release(const struct shard *shard, node_set nodes, instant_ns now_ns) {
    const struct share share = {.names_max = shard->releases_max, .slow = needs_slow_nodes(shard)};
    return with_room(shard, nodes, &share, now_ns);
}

node_set window_for_backlog(const struct shard *shard, node_set nodes, instant_ns now_ns) {
    const struct share share = {.names_max = (shard->attempts_max + 1) / 2, .slow = needs_slow_nodes(shard)};
    return with_room(shard, nodes, &share, now_ns);
}

node_set window_prompt(const struct shard *shard, node_set nodes) {
    return needs_slow_nodes(shard) ? nodes : prompt_ones(shard, nodes);
}

node_set window_is_full(const struct shard *shard, node_set nodes, instant_ns now_ns) {
    return window_prompt(shard, nodes) & (node_set) ~window_for_release(shard, nodes, now_ns);
}

instant_ns window_place_ns(struct shard *shard, instant_ns now_ns) {
    shard->place_ns = instant_max(shard->place_ns, now_ns + WINDOW_FIRST_NS) + WINDOW_STEP_NS;
    return shard->place_ns;
}
