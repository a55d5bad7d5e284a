#include "core/quarantine.h"

#include <assert.h>
#include <stdio.h>

#include "core/node-epoch.h"
#include "core/validity.h"

enum { EXPLAIN_MS = 3000 }; /* time for the other nodes' answers */

/* What was read on the other nodes since the node was marked. */
struct readings {
    unsigned epochs, marks;
    uint32_t longest_ms; /* ours included */
    bool elsewhere;      /* a note has the node at other addresses than ours */
    instant_ns since_ns; /* the latest: our mark was left, or another fleet's read, on this node or those */
};

static unsigned others_needed(const struct shard *shard) {
    unsigned nodes = shard->config.nodes, needed = nodes - quorum_of(nodes) + 1;

    return needed < nodes ? needed : nodes - 1; /* a single node has no others */
}

/* True if epochs alone prove the longest ttl, without marks. */
static bool epochs_suffice(const struct shard *shard, const struct readings *readings) {
    return shard->config.nodes > 1 && readings->epochs >= others_needed(shard);
}

static uint32_t longer_ms(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

static bool is_read_mark(const struct node *node) {
    return node->reading == NODE_READ_MARK && node->marked_ns != INSTANT_NEVER;
}

static struct readings read_others(const struct shard *shard, unsigned index) {
    const struct node *forgetful = &shard->nodes[index];
    struct readings readings = {.longest_ms = longer_ms(shard->max_ttl_ms, node_epoch_known_ms(forgetful)),
                                .elsewhere = forgetful->elsewhere & node_set_of(index),
                                .since_ns = instant_max(forgetful->marked_ns, forgetful->rival_ns)};

    for (unsigned i = 0; i < shard->config.nodes; i++) {
        const struct node *node = &shard->nodes[i];
        bool unmarked = node->reading == NODE_READ_MARK && !is_read_mark(node);
        if (i == index || node->reading == NODE_READ_NOTHING || node->read_ns < forgetful->marked_ns ||
            unmarked)
            continue;
        readings.epochs += node->reading == NODE_READ_EPOCH;
        if (node->reading == NODE_READ_MARK) {
            readings.marks++;
            readings.since_ns = instant_max(readings.since_ns, instant_max(node->marked_ns, node->rival_ns));
        }
        readings.longest_ms = longer_ms(readings.longest_ms, node_epoch_known_ms(node));
        readings.elsewhere |= node->elsewhere & node_set_of(index);
    }
    return readings;
}

/* Within this time each connected agent has noticed a loss, and left its mark. */
static int64_t notice_ns(void) {
    int64_t probe_ns = PROBE_TRUSTED_MS * NS_PER_MS;

    return probe_ns + probe_ns / DRIFT_DIVISOR + QUARANTINE_MARGIN_MS * NS_PER_MS;
}

static instant_ns until_ns(const struct shard *shard, const struct node *node,
                           const struct readings *readings, uint32_t *ret_covered_ms) {
    *ret_covered_ms = TTL_MS_MAX;
    if (node->hurry)
        return node->marked_ns;
    if (readings->elsewhere || node->foreign)
        return INSTANT_NEVER;
    if (!shard->config.quarantine)
        return node->marked_ns;
    if (readings->epochs + readings->marks < others_needed(shard))
        return node->marked_ns + validity_quarantine_ns(TTL_MS_MAX);
    *ret_covered_ms = readings->longest_ms;
    instant_ns ended_ns =
        instant_max(node->marked_ns, node->elsewhere_ns) + validity_quarantine_ns(readings->longest_ms);
    if (epochs_suffice(shard, readings))
        return ended_ns;
    return instant_max(ended_ns, readings->since_ns + notice_ns());
}

instant_ns quarantine_until_ns(const struct shard *shard, unsigned index) {
    const struct readings readings = read_others(shard, index);
    uint32_t covered_ms;

    if (!node_is_quarantined(&shard->nodes[index]))
        return INSTANT_NEVER;
    return until_ns(shard, &shard->nodes[index], &readings, &covered_ms);
}

/* True if the nodes that count by our marks were read since then. */
static bool is_confirmed(const struct shard *shard, unsigned index, const struct readings *readings,
                         instant_ns end_ns) {
    const struct node *node = &shard->nodes[index];
    unsigned confirmed = readings->epochs;

    if (node->hurry || !shard->config.quarantine || epochs_suffice(shard, readings) ||
        end_ns >= node->marked_ns + validity_quarantine_ns(TTL_MS_MAX))
        return true;
    for (unsigned i = 0; i < shard->config.nodes; i++)
        confirmed += i != index && is_read_mark(&shard->nodes[i]) && shard->nodes[i].read_ns >= end_ns;
    return node->read_ns >= end_ns && confirmed >= others_needed(shard);
}

instant_ns quarantine_bless_ns(const struct shard *shard, unsigned index, uint32_t *ret_covered_ms) {
    const struct node *node = &shard->nodes[index];
    const struct readings readings = read_others(shard, index);

    assert(node_is_quarantined(node));
    instant_ns end_ns = until_ns(shard, node, &readings, ret_covered_ms);
    if (is_confirmed(shard, index, &readings, end_ns))
        return end_ns;
    *ret_covered_ms = TTL_MS_MAX;
    return node->marked_ns + validity_quarantine_ns(TTL_MS_MAX);
}

int64_t quarantine_longest_ns(const struct shard *shard) {
    uint32_t longest_ms = shard->max_ttl_ms;

    if (!shard->config.quarantine)
        return 0;
    for (unsigned i = 0; i < shard->config.nodes; i++)
        longest_ms = longer_ms(longest_ms, node_epoch_known_ms(&shard->nodes[i]));
    return validity_quarantine_ns(longest_ms);
}

bool quarantine_wants(const struct shard *shard, unsigned index) {
    const struct node *asked = &shard->nodes[index];

    if (!shard->config.quarantine)
        return false;
    for (unsigned i = 0; i < shard->config.nodes; i++) {
        const struct node *node = &shard->nodes[i];
        if (i != index && node_is_quarantined(node) && asked->read_ns < node->marked_ns)
            return true;
    }
    return false;
}

bool quarantine_explain(const struct shard *shard, unsigned index, instant_ns now_ns,
                        char text[QUARANTINE_TEXT_BYTES]) {
    const struct node *node = &shard->nodes[index];

    if (!node_is_quarantined(node) || node->hurry || now_ns - node->marked_ns < EXPLAIN_MS * NS_PER_MS)
        return false;
    struct readings readings = read_others(shard, index);
    if (readings.elsewhere) {
        (void) snprintf(text, QUARANTINE_TEXT_BYTES,
                        "other agents reach a node of this name at another address: if both are one "
                        "server, run 'redlock nodes --bless %s'",
                        shard->config.node_names[index]);
        return true;
    }
    if (node->foreign) {
        (void) snprintf(
            text, QUARANTINE_TEXT_BYTES,
            "voted for another fleet, and has restarted or lost its data since: when the agents of that "
            "fleet have ended, run 'redlock nodes --bless %s'",
            shard->config.node_names[index]);
        return true;
    }
    uint32_t covered_ms;
    instant_ns end_ns = until_ns(shard, node, &readings, &covered_ms);
    bool enough = readings.epochs + readings.marks >= others_needed(shard),
         overdue =
             end_ns < now_ns - EXPLAIN_MS * NS_PER_MS && !is_confirmed(shard, index, &readings, end_ns);
    if (!shard->config.quarantine || (enough && !overdue))
        return false;
    (void) snprintf(
        text, QUARANTINE_TEXT_BYTES,
        "no epoch key (a new, restarted or flushed node): before it votes, %u other node%s must report the "
        "longest max_ttl of all agents, and fewer are within reach",
        others_needed(shard), others_needed(shard) == 1 ? "" : "s");
    return true;
}
