#include "epoch-harness.h"

#include "core/quarantine.h"

struct probe epoch_of(uint32_t max_ttl_ms, uint32_t generation) {
    struct probe probe = blessed_node;

    probe.max_ttl_ms = max_ttl_ms;
    probe.generation = generation;
    return probe;
}

struct probe mark_of(uint32_t longest_ms) {
    struct probe probe = marked_node;

    probe.max_ttl_ms = longest_ms;
    return probe;
}

void probed(unsigned node, struct probe probe) {
    node_trust_probed(&harness.shard, node, &probe, harness.now_ns);
}

void lose_data(unsigned node) {
    harness.now_ns += NS_PER_MS;
    contend(9 + node, false);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    vote(node, &sent, VOTE_EPOCH);
    probed(node, marked_node);
    command(COMMAND_RELEASE, 9 + node);
}

bool votes(unsigned node) {
    return shard_askable(&harness.shard) & node_set_of(node);
}

int64_t quarantine_ms(unsigned node) {
    instant_ns until_ns = quarantine_until_ns(&harness.shard, node);

    return until_ns == INSTANT_NEVER ? -1 : (until_ns - harness.shard.nodes[node].marked_ns) / NS_PER_MS;
}

int64_t quarantine_for(int64_t max_ttl_ms) {
    return max_ttl_ms + max_ttl_ms / 100 + 2 + 1000;
}

void begin_without_epochs(unsigned nodes) {
    shard_harness_begin(nodes);
    harness.shard.max_ttl_ms = SECOND_MS;
    for (unsigned i = 0; i < nodes; i++) {
        node_init(&harness.shard.nodes[i]);
        node_trust_ready(&harness.shard, i, harness.now_ns);
        probed(i, mark_of(SECOND_MS));
    }
}

void epoch_changes(unsigned node, struct probe to) {
    harness.shard.nodes[node].probe_ns = harness.now_ns;
    shard_tick(&harness.shard, harness.now_ns);
    probed(node, to);
}
