/* The front's view of the nodes: one node for all keepers, and one agent for all nodes. */

#include "local/front-state.h"
#include "tap.h"

enum { KEEPERS = 3, NODES = 4 };

static struct front_state front;
static instant_ns now_ns;

static void begin(void) {
    static const struct policy policy = {.max_ttl_ms = 60000};
    static const struct front_state_identity identity = {.n_keepers = KEEPERS, .n_nodes = NODES};
    static const struct front_state_sink sink = {.write = NULL};

    memset(&front, 0, sizeof(front));
    now_ns = 1000 * NS_PER_S;
    front_state_init(&front, &policy, &identity, &sink, NULL, now_ns);
}

static void report(unsigned keeper, unsigned node, enum node_state state, const char *text) {
    front_state_node_report(&front, keeper,
                            &(struct report){.kind = REPORT_NODE,
                                             .node = (uint8_t) node,
                                             .node_state = state,
                                             .text = text,
                                             .text_length = (uint16_t) strlen(text)},
                            now_ns);
}

static void report_to_all(unsigned node, enum node_state state) {
    for (unsigned i = 0; i < KEEPERS; i++)
        report(i, node, state, "");
}

static void test_start(void) {
    begin();
    for (unsigned i = 0; i < NODES; i++) {
        const struct front_state_node node = front_state_node(&front, i);
        ok(node.node_state == NODE_STATE_CONNECTING && strcmp(node.reason, "not connected yet") == 0 &&
               node.since_ns == now_ns && front_state_times(&front, i).until_ns == INSTANT_NEVER,
           "node %u is not connected at first, since the start", i);
    }
    ok(front.keepers[KEEPERS].nodes[0].since_ns == 0 && front.keepers[0].nodes[NODES].since_ns == 0,
       "there are no other keepers and nodes");
    is_int(front.keepers[KEEPERS - 1].counters.extension_margin_permille, 1000, "no extension was late");
}

static void test_reports(void) {
    char text[NODE_TROUBLE_BYTES + 2];

    begin();
    now_ns += NS_PER_S;
    report(0, 0, NODE_STATE_FAILED, "refused");
    is_int(front.keepers[0].nodes[0].since_ns, now_ns, "another state begins now");
    is_string(front.keepers[0].nodes[0].reason, "refused", "the state has its reason");
    is_string(front.troubles[0].reason, "refused", "the reason is the node's last trouble");
    is_int(front.troubles[0].at_ns, now_ns, "the trouble has its time");
    now_ns += NS_PER_S;
    report(0, 0, NODE_STATE_FAILED, "refused again");
    is_int(front.keepers[0].nodes[0].since_ns, now_ns - NS_PER_S, "the same state keeps its time");
    is_int(front.troubles[0].at_ns, now_ns, "the trouble is a new one");
    now_ns += NS_PER_S;
    report(0, 0, NODE_STATE_PROBING, "connected");
    is_string(front.troubles[0].reason, "refused again", "probing is no trouble");
    report(0, 0, NODE_STATE_VOTING, "");
    is_string(front.keepers[0].nodes[0].reason, "", "a node that votes has no reason not to");
    is_int(front.troubles[0].at_ns, now_ns - NS_PER_S, "and its last trouble stays known");
    memset(text, 'x', sizeof(text));
    for (size_t length = NODE_TROUBLE_BYTES - 1; length <= NODE_TROUBLE_BYTES + 1; length++) {
        text[length] = '\0';
        report(0, 1, NODE_STATE_FAILED, text);
        is_int((long long) strlen(front.keepers[0].nodes[1].reason), NODE_TROUBLE_BYTES - 1,
               "a reason has room for so much");
        text[length] = 'x';
    }
}

static void test_worst(void) {
    static const enum node_state order[] = {NODE_STATE_VOTING, NODE_STATE_PROBING, NODE_STATE_QUARANTINED,
                                            NODE_STATE_CONNECTING, NODE_STATE_FAILED};

    begin();
    report_to_all(0, NODE_STATE_VOTING);
    for (unsigned i = 1; i < sizeof(order) / sizeof(order[0]); i++) {
        report_to_all(0, order[i - 1]);
        report(1, 0, order[i], "it");
        is_int(front_state_node(&front, 0).node_state, order[i], "the worse of two states counts");
        report(2, 0, order[i], "and another");
        is_string(front_state_node(&front, 0).reason, "it", "with the reason that was first");
        report(1, 0, order[i], "");
        is_string(front_state_node(&front, 0).reason, "and another", "or with any");
        report(2, 0, order[i - 1], "better");
        is_string(front_state_node(&front, 0).reason, "", "but not with a better state's");
    }
}

static void test_times(void) {
    begin();
    for (unsigned i = 0; i < KEEPERS; i++) {
        struct front_state_node_times *times = &front.keepers[i].times[0];
        unsigned other = (i + 1) % KEEPERS; /* the largest is not the last */
        *times = (struct front_state_node_times){.rtt_us = 10 + other,
                                                 .rtt_p50_us = 20 + i,
                                                 .rtt_p99_us = 30 + other,
                                                 .outstanding = 1 + i,
                                                 .until_ns = now_ns + other * NS_PER_S,
                                                 .evicted_keys = 40 + other,
                                                 .known = i > 0};
        times->rtts.counts[2] = 1 + i;
        (void) snprintf(times->version, sizeof(times->version), "7.%u", i);
        (void) snprintf(times->differs, sizeof(times->differs), "%s", i == 0 ? "" : i == 1 ? "one" : "two");
    }
    const struct front_state_node_times all = front_state_times(&front, 0);
    is_int(all.rtt_us, 12, "the longest round trip");
    is_int(all.rtt_p50_us, 22, "the longest median");
    is_int(all.rtt_p99_us, 32, "the longest percentile");
    is_int(all.outstanding, 6, "all requests without an answer");
    is_int(all.until_ns, now_ns, "the earliest end of a quarantine");
    is_int((long long) all.rtts.counts[2], 6, "the sum of the histograms");
    is_int((long long) all.evicted_keys, 42, "the latest count of evictions");
    is_string(all.version, "7.1", "the version, as the first keeper knows it that does");
    is_string(all.differs, "one", "a difference that any keeper knows");
}

static void test_agent(void) {
    begin();
    is_string(front_state_word(&front), "no-quorum", "no node votes");
    report_to_all(0, NODE_STATE_VOTING);
    report_to_all(3, NODE_STATE_VOTING);
    is_int(front_state_voting(&front), 2, "two nodes vote");
    is_string(front_state_word(&front), "no-quorum", "half of the nodes is no quorum");
    report_to_all(1, NODE_STATE_VOTING);
    is_string(front_state_word(&front), "ready", "a majority is");
    report(2, 1, NODE_STATE_PROBING, "");
    is_string(front_state_word(&front), "no-quorum", "which votes for each keeper");
    begin();
    for (unsigned i = 0; i < KEEPERS; i++)
        for (unsigned j = 0; j < NODES; j++)
            report(i, j, j == i ? NODE_STATE_FAILED : NODE_STATE_VOTING, "");
    is_int(front_state_voting(&front), NODES - 1, "each keeper lacks another node: three vote for each");
    is_string(front_state_word(&front), "ready", "so each has a quorum");
    report(1, 0, NODE_STATE_FAILED, "");
    is_int(front_state_voting(&front), 2, "the keeper with the fewest counts");
    is_string(front_state_word(&front), "no-quorum", "one without a quorum is enough");
    front.draining = true;
    is_string(front_state_word(&front), "draining", "an agent that ends");
    is_string(front_state_node_word(NODE_STATE_CONNECTING), "connecting", "a node's words");
    is_string(front_state_node_word(NODE_STATE_FAILED), "failed", "the last one");
}

int main(void) {
    test_start();
    test_reports();
    test_worst();
    test_times();
    test_agent();
    return done_testing();
}
