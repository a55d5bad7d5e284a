#include "local/front-state.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"

void front_state_init(struct front_state *front, const struct policy *policy,
                      const struct front_state_identity *identity, const struct front_state_sink *sink,
                      char *reply, instant_ns now_ns) {
    assert(identity->n_keepers <= KEEPERS_MAX && identity->n_nodes <= NODES_MAX);

    front->policy = *policy;
    front->identity = *identity;
    front->registry.quota.owner = identity->uid;
    front->sink = *sink;
    front->reply = reply;
    list_init(&front->uncounted);
    work_share_init(&front->work, NS_PER_S); /* no limit before the configuration's */
    fair_queue_init(&front->listings, &front->work);
    query_share_init(&front->queries);
    for (unsigned i = 0; i < identity->n_keepers; i++) {
        front->keepers[i] = (struct front_state_keeper){.counters.extension_margin_permille = 1000};
        for (unsigned j = 0; j < identity->n_nodes; j++) {
            front->keepers[i].nodes[j] =
                (struct front_state_node){.since_ns = now_ns, .reason = "not connected yet"};
            front->keepers[i].times[j].until_ns = INSTANT_NEVER;
        }
    }
}

/* Notes the reason, as long as there is room. */
static bool was_seen(struct front_state_trouble *trouble) {
    static const uint64_t key[2] = {0, 0};
    uint64_t hash = hash_bytes(key, trouble->reason, strlen(trouble->reason));

    for (uint32_t i = 0; i < trouble->n_seen; i++)
        if (trouble->seen_hashes[i] == hash)
            return true;
    if (trouble->n_seen == TROUBLE_REASONS_MAX)
        return false;
    trouble->seen_hashes[trouble->n_seen++] = hash;
    return true;
}

static void note_trouble(struct front_state_trouble *trouble, const char reason[NODE_TROUBLE_BYTES],
                         instant_ns now_ns) {
    trouble->at_ns = now_ns;
    memcpy(trouble->reason, reason, NODE_TROUBLE_BYTES);
    trouble->is_one_of_many = !was_seen(trouble);
}

void front_state_node_report(struct front_state *front, unsigned keeper, const struct report *report,
                             instant_ns now_ns) {
    assert(keeper < front->identity.n_keepers && report->node < front->identity.n_nodes);

    struct front_state_node *view = &front->keepers[keeper].nodes[report->node];
    size_t length =
        report->text_length < sizeof(view->reason) ? report->text_length : sizeof(view->reason) - 1;
    if (view->node_state != report->node_state)
        view->since_ns = now_ns;
    view->node_state = report->node_state;
    if (length > 0)
        memcpy(view->reason, report->text, length);
    view->reason[length] = '\0';
    if (length > 0 && report->node_state != NODE_STATE_PROBING)
        note_trouble(&front->troubles[report->node], view->reason, now_ns);
}

static unsigned badness(enum node_state node_state) {
    static const unsigned order[] = {
        [NODE_STATE_VOTING] = 0,     [NODE_STATE_PROBING] = 1, [NODE_STATE_QUARANTINED] = 2,
        [NODE_STATE_CONNECTING] = 3, [NODE_STATE_FAILED] = 4,
    };
    return order[node_state];
}

struct front_state_node front_state_node(const struct front_state *front, unsigned node) {
    struct front_state_node worst = front->keepers[0].nodes[node];

    for (unsigned i = 1; i < front->identity.n_keepers; i++) {
        const struct front_state_node *view = &front->keepers[i].nodes[node];
        unsigned more = badness(view->node_state), most = badness(worst.node_state);
        if (more > most || (more == most && worst.reason[0] == '\0'))
            worst = *view;
    }
    return worst;
}

static uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

struct front_state_node_times front_state_times(const struct front_state *front, unsigned node) {
    struct front_state_node_times all = front->keepers[0].times[node];

    for (unsigned i = 1; i < front->identity.n_keepers; i++) {
        const struct front_state_node_times *one = &front->keepers[i].times[node];
        const struct front_state_node_times sum = all;
        if (!all.known)
            all = *one;
        all.rtt_us = larger(sum.rtt_us, one->rtt_us);
        all.rtt_p50_us = larger(sum.rtt_p50_us, one->rtt_p50_us);
        all.rtt_p99_us = larger(sum.rtt_p99_us, one->rtt_p99_us);
        all.until_ns = instant_min(sum.until_ns, one->until_ns);
        all.outstanding = sum.outstanding + one->outstanding;
        all.rtts = sum.rtts;
        histogram_add(&all.rtts, &one->rtts);
        if (all.differs[0] == '\0')
            memcpy(all.differs, one->differs, sizeof(all.differs));
        if (one->evicted_keys > sum.evicted_keys)
            all.evicted_keys = one->evicted_keys; /* the other keepers asked earlier */
        else
            all.evicted_keys = sum.evicted_keys;
    }
    return all;
}

static unsigned voting_for(const struct front_state_keeper *keeper, unsigned n_nodes) {
    unsigned voting = 0;

    for (unsigned i = 0; i < n_nodes; i++)
        voting += keeper->nodes[i].node_state == NODE_STATE_VOTING;
    return voting;
}

unsigned front_state_voting(const struct front_state *front) {
    unsigned n_nodes = front->identity.n_nodes, fewest = voting_for(&front->keepers[0], n_nodes);

    for (unsigned i = 1; i < front->identity.n_keepers; i++) {
        unsigned voting = voting_for(&front->keepers[i], n_nodes);
        fewest = voting < fewest ? voting : fewest;
    }
    return fewest;
}

const char *front_state_word(const struct front_state *front) {
    if (front->draining)
        return "draining";
    return front_state_voting(front) >= front->identity.n_nodes / 2 + 1 ? "ready" : "no-quorum";
}

const char *front_state_node_word(enum node_state state) {
    static const char *const words[] = {
        [NODE_STATE_CONNECTING] = "connecting",   [NODE_STATE_PROBING] = "probing",
        [NODE_STATE_QUARANTINED] = "quarantined", [NODE_STATE_VOTING] = "voting",
        [NODE_STATE_FAILED] = "failed",
    };
    return words[state];
}
