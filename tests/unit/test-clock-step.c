/* Rule 11: nodes whose clocks are set. A node's TIME is written as the agent's instant plus a difference. */

#include "tap.h"
#include "shard-harness.h"

static const int64_t epoch_us =
    INT64_C(1700000000) * 1000000; /* the nodes' clocks at the agent's instant 0 */

/* An answer of the node after 1 ms, from a clock that was set forward by `set_ms`. */
static void answer_clock(unsigned node, int64_t set_ms) {
    node_trust_time(&harness.shard, node, epoch_us + harness.now_ns / NS_PER_US + set_ms * 1000,
                    harness.now_ns - NS_PER_MS, harness.now_ns);
}

static void answer_clocks(void) {
    for (unsigned i = 0; i < harness.shard.config.nodes; i++)
        answer_clock(i, 0);
}

/* The node answers a probe: blessed, with this floor. */
static void probed_with(unsigned node, int64_t floor_us) {
    struct probe probe = blessed_node;

    probe.floor_us = floor_us;
    node_trust_probed(&harness.shard, node, &probe, harness.now_ns);
}

static bool is_asked(unsigned node) {
    return shard_askable(&harness.shard) & node_set_of(node);
}

static void begin_with_clocks(unsigned nodes) {
    shard_harness_begin(nodes);
    pass_ms(1);
    answer_clocks();
    pass_ms(100);
}

static void test_step_of_a_node(void) {
    begin_with_clocks(5);
    hold(1);
    unsigned extensions = count_sent(OPERATION_EXTEND);
    answer_clock(2, 3600000);
    ok(!is_asked(2), "rule 11: a node whose clock was set does not vote");
    ok(strstr(harness.shard.nodes[2].trouble, "set forward by 3599.") != NULL, "NODES shows the reason");
    pass_ms(6);
    is_int(count_sent(OPERATION_EXTEND) - extensions, 1, "rule 11: extensions are brought forward");
    is_int(last_sent(OPERATION_EXTEND)->nodes, 0x1b, "at the other nodes");
    is_int(harness.probes[2], 1, "the agent's own clock may be the cause until the other nodes answer");
    for (unsigned i = 0; i < 5; i++)
        if (i != 2)
            answer_clock(i, 0);
    probed_with(2, 77);
    ok(!is_asked(2), "the blessing from before the step does not count");
    pass_ms(1);
    is_int(harness.withdrawn_us[2], 77, "rule 11: and the agent withdraws it");
    node_trust_probed(&harness.shard, 2, &marked_node, harness.now_ns);
    probed_with(2, 78);
    ok(!last_report(REPORT_LOST), "the lease stays valid");
}

/* The keys of these leases are left to their deadline; rules 8 and 9 count for an early extension, too. */
static void test_step_beside_a_bound(void) {
    static const struct {
        const char *what;
        uint32_t heartbeat_ms, max_hold_ms;
        bool abandoned;
        int64_t later_ms;
        unsigned at_risk;
    } cases[] = {
        {"a step: a lease that is extended anyway is extended early", 0, 0, false, 0, 0},
        {"not one whose client is out of reach", 0, 0, true, 0, 0},
        {"nor one that ends by its max_hold", 0, 5000, false, 0, 0},
        {"nor one whose client missed a heartbeat", 1000, 0, false, 4000, 1},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin_with_clocks(5);
        contend_with(1, true, cases[i].heartbeat_ms, cases[i].max_hold_ms);
        const struct sent sent = *last_sent(OPERATION_ACQUIRE);
        for (unsigned node = 0; node < 5; node++)
            vote(node, &sent, VOTE_YES);
        if (cases[i].abandoned)
            command(COMMAND_ABANDON, 1);
        pass_ms(cases[i].later_ms);
        answer_clock(2, 3600000);
        pass_ms(6);
        is_int(count_sent(OPERATION_EXTEND), i == 0, cases[i].what);
        is_int(count_reports(REPORT_AT_RISK), cases[i].at_risk, "none is at risk for the step");
    }
}

static void test_step_counts_no_vote(void) {
    begin_with_clocks(3);
    contend(1, false);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    pass_ms(1);
    answer_clock(0, 0);
    vote(0, &sent, VOTE_YES);
    answer_clock(1, 5000);
    vote(1, &sent, VOTE_YES);
    ok(!last_report(REPORT_GRANTED), "rule 11: the vote in the answer that shows a step does not count");
    answer_clock(2, 0);
    vote(2, &sent, VOTE_YES);
    ok(last_report(REPORT_GRANTED), "a majority of the other nodes is enough");
    command(COMMAND_RELEASE, 1);
    is_int(last_sent(OPERATION_RELEASE)->nodes, 5, "the release goes to that node, too");
}

static void test_votes_before_a_step(void) {
    begin_with_clocks(3);
    contend(1, false);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    pass_ms(1);
    answer_clock(0, 0);
    vote(0, &sent, VOTE_YES);
    pass_ms(1);
    answer_clock(0, 3600000); /* in an answer for another lease */
    answer_clock(1, 0);
    vote(1, &sent, VOTE_YES);
    ok(!last_report(REPORT_GRANTED), "rule 11: a vote from before a step of its node no longer counts");
    answer_clock(2, 0);
    vote(2, &sent, VOTE_YES);
    ok(last_report(REPORT_GRANTED) != NULL, "a majority of other nodes is enough");

    begin_with_clocks(3);
    const struct command resume = {.kind = COMMAND_RESUME,
                                   .request = 1,
                                   .terms.ttl_ms = 10000,
                                   .terms.node_timeout_ms = 100,
                                   .hold_until_ns = INSTANT_NEVER,
                                   .text = "x42:",
                                   .head_length = 1,
                                   .tail_length = 3};
    shard_command(&harness.shard, &resume, harness.now_ns);
    const struct sent adopt = *last_sent(OPERATION_ADOPT);
    pass_ms(1);
    answer_clock(0, 0);
    vote(0, &adopt, VOTE_YES);
    answer_clock(0, 3600000);
    answer_clock(1, 0);
    vote(1, &adopt, VOTE_YES);
    ok(!last_report(REPORT_GRANTED), "the same when a lease is resumed");
}

/* The agent's clock had stopped. The answers that arrive first were executed before. */
static void test_answers_from_before_the_step(void) {
    begin_with_clocks(3);
    hold(1);
    answer_clock(2, 30000);
    answer_clock(0, 0);
    answer_clock(1, 0);
    ok(!harness.shard.nodes[2].judged,
       "answers to requests from before the step don't show which clock stepped");
    ok(harness.shard.nodes[0].probing && harness.shard.nodes[1].probing, "these nodes are probed again");
    answer_clock(0, 30000);
    answer_clock(1, 30000);
    const struct report *lost = last_report(REPORT_LOST);
    ok(lost && lost->reason == REASON_PAUSED, "rule 11: the agent's clock stepped: the lease is lost");
}

static void test_step_of_a_failed_node(void) {
    begin_with_clocks(3);
    hold(1);
    answer_clock(2, 30000);
    pass_ms(6);
    unsigned extensions = count_sent(OPERATION_EXTEND);
    const struct sent sent = *last_sent(OPERATION_EXTEND);
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    for (int64_t set_ms = 31000; set_ms < 60000; set_ms += 1000) {
        answer_clock(2, set_ms);
        pass_ms(6);
    }
    is_int(count_sent(OPERATION_EXTEND), extensions,
           "further steps of a node that doesn't vote cause no extensions");
}

static void test_step_of_the_agent(void) {
    begin_with_clocks(3);
    hold(1);
    answer_clock(0, 8000);
    ok(!last_report(REPORT_LOST), "one node's clock was set: the lease is not lost");
    answer_clock(1, 8000);
    answer_clock(2, 8000);
    const struct report *lost = last_report(REPORT_LOST);
    ok(lost && lost->reason == REASON_PAUSED,
       "rule 11: most clocks stepped, so the agent's had stopped: the lease is lost");
    for (unsigned i = 0; i < 3; i++)
        probed_with(i, 77);
    pass_ms(1100);
    ok(harness.withdrawn_us[0] == 0 && harness.withdrawn_us[1] == 0, "the blessings are not withdrawn");
    ok(!is_asked(0) && !is_asked(1) && !is_asked(2), "but do not count for this agent");
    for (unsigned i = 0; i < 70; i++) {
        pass_ms(1000);
        for (unsigned node = 0; node < 3; node++)
            if (harness.shard.nodes[node].probing)
                probed_with(node, 77);
    }
    ok(is_asked(0) && is_asked(1) && is_asked(2), "until all leases that may have been lost have ended");
}

/* The same beside agents with a longer max_ttl, by the nodes' epochs. */
static void test_step_of_the_agent_beside_others(void) {
    struct probe longer = blessed_node;

    longer.max_ttl_ms = 120000;
    begin_with_clocks(3);
    for (unsigned i = 0; i < 3; i++) {
        harness.shard.nodes[i].probe_ns = harness.now_ns;
        shard_tick(&harness.shard, harness.now_ns);
        node_trust_probed(&harness.shard, i, &longer, harness.now_ns);
    }
    for (unsigned i = 0; i < 3; i++)
        answer_clock(i, 8000);
    for (unsigned second = 0; second < 123; second++) {
        pass_ms(1000);
        for (unsigned node = 0; node < 3; node++)
            if (harness.shard.nodes[node].probing)
                node_trust_probed(&harness.shard, node, &longer, harness.now_ns);
        if (second == 118)
            ok(!is_asked(0), "rule 11: other agents' leases that may have been lost are longer");
    }
    ok(is_asked(0) && is_asked(1) && is_asked(2), "and end as well");
}

/* While the agent was disconnected, other agents may have blessed the node and granted leases, whose keys
 * expired by the step. */
static void test_step_in_quarantine(void) {
    begin_with_clocks(3);
    node_trust_gone(&harness.shard, 0, NODE_STATE_CONNECTING, "cut", harness.now_ns);
    node_trust_ready(&harness.shard, 0, harness.now_ns);
    node_trust_probed(&harness.shard, 0, &marked_node, harness.now_ns);
    uint32_t mark = harness.marks[0];
    node_trust_gone(&harness.shard, 0, NODE_STATE_CONNECTING, "cut", harness.now_ns);
    pass_ms(100000);
    node_trust_ready(&harness.shard, 0, harness.now_ns);
    answer_clock(0, 5000);
    node_trust_probed(&harness.shard, 0, &marked_node, harness.now_ns);
    pass_ms(1000);
    ok(harness.blessings[0] == 0 && harness.leaves[0] && harness.marks[0] != mark,
       "rule 11: a mark from before the step does not count: the quarantine begins anew");
}

/* The node restarted with all of its data: its new process may inherit the blessing. */
static void comes_back_as_heir(unsigned node, int64_t set_ms) {
    const struct probe probe = {.heir = true,
                                .time_us = epoch_us + harness.now_ns / NS_PER_US + set_ms * 1000,
                                .sent_ns = harness.now_ns - NS_PER_MS};

    node_trust_gone(&harness.shard, node, NODE_STATE_FAILED, "gone", harness.now_ns);
    pass_ms(500);
    node_trust_ready(&harness.shard, node, harness.now_ns);
    node_trust_probed(&harness.shard, node, &probe, harness.now_ns);
}

static void test_heir(void) {
    begin_with_clocks(3);
    comes_back_as_heir(1, 0);
    is_int(harness.blessings[1], 1, "rule 10: a node with all data of a blessed process is blessed at once");
    ok(!is_asked(1), "it does not vote before that");
    node_trust_probed(&harness.shard, 1, &blessed_node, harness.now_ns);
    ok(is_asked(1), "then it votes");

    comes_back_as_heir(2, 9000);
    is_int(harness.blessings[2], 0, "rule 11: no blessing if the clock was set meanwhile");
    pass_ms(1000);
    ok(harness.disowned[2] && harness.leaves[2],
       "the agent removes the inheritance, and the quarantine begins");
    node_trust_probed(&harness.shard, 2, &new_node, harness.now_ns);
    pass_ms(1000);
    ok(!harness.disowned[2], "only once");
    is_int(harness.blessings[2], 0, "no blessing before the quarantine ends");
}

static void from_new_connection(unsigned node, const struct probe *probe) {
    node_trust_gone(&harness.shard, node, NODE_STATE_FAILED, "gone", harness.now_ns);
    node_trust_ready(&harness.shard, node, harness.now_ns);
    node_trust_probed(&harness.shard, node, probe, harness.now_ns);
}

static void test_blessing_renewed_by_another_agent(void) {
    begin_with_clocks(3);
    comes_back_as_heir(2, 9000);
    pass_ms(2);
    answer_clock(0, 0);
    answer_clock(1, 0);
    pass_ms(1000);
    node_trust_probed(&harness.shard, 2, &blessed_node,
                      harness.now_ns); /* another agent renewed the blessing */
    ok(!is_asked(2), "rule 11: the clock was set: a blessing that another agent renewed does not count");
}

/* The floor of the blessing that the agent withdraws after a step, while the node answers with `probe`. */
static int64_t withdrawn_in_the_end(unsigned node, const struct probe *probe) {
    pass_ms(2);
    for (unsigned i = 0; i < 3; i++)
        if (i != node)
            answer_clock(i, 0);
    for (unsigned i = 0; i < 200 && harness.withdrawn_us[node] == 0; i++) {
        pass_ms(100);
        if (harness.shard.nodes[node].probing)
            node_trust_probed(&harness.shard, node, probe, harness.now_ns);
    }
    return harness.withdrawn_us[node];
}

static void test_withdrawals(void) {
    struct probe late = blessed_node;

    begin_with_clocks(3);
    from_new_connection(1, &shortly_blessed_node);
    pass_ms(100);
    answer_clock(1, 3600000);
    is_int(withdrawn_in_the_end(1, &shortly_blessed_node), shortly_blessed_node.floor_us,
           "rule 11: a blessing for shorter leases than the agent's is withdrawn, too");

    begin_with_clocks(3);
    comes_back_as_heir(2, 0);
    pass_ms(2);
    late.sent_ns = harness.now_ns - NS_PER_MS;
    late.time_us = epoch_us + harness.now_ns / NS_PER_US + 9000 * 1000;
    node_trust_probed(&harness.shard, 2, &late, harness.now_ns);
    is_int(withdrawn_in_the_end(2, &blessed_node), blessed_node.floor_us,
           "and a blessing that was renewed after the step");
}

/* The node is blessed after its quarantine, and its answer shows that its clock was set meanwhile. */
static void test_step_before_the_blessing(void) {
    struct probe late = blessed_node;

    begin_with_clocks(3);
    from_new_connection(0, &marked_node);
    for (unsigned second = 0; second < 62; second++) {
        pass_ms(1000);
        if (harness.blessings[0] == 0 && harness.shard.nodes[0].probing)
            node_trust_probed(&harness.shard, 0, &marked_node, harness.now_ns);
    }
    is_int(harness.blessings[0], 1, "the node is blessed after its quarantine");
    late.sent_ns = harness.now_ns - NS_PER_MS;
    late.time_us = epoch_us + harness.now_ns / NS_PER_US + 3600000 * 1000LL;
    node_trust_probed(&harness.shard, 0, &late, harness.now_ns);
    ok(!is_asked(0), "rule 11: a blessing whose answer shows a step does not count for this agent");
    is_int(withdrawn_in_the_end(0, &blessed_node), 0,
           "and is not withdrawn: no vote before the step counted under it");
}

/* A probe of another node is under way when the step is noticed: its answer may be from before the step. */
static void test_probed_again_at_once(void) {
    struct probe late = blessed_node;

    begin_with_clocks(3);
    for (unsigned i = 0; i < 3; i++)
        harness.shard.nodes[i].probe_ns = INSTANT_NEVER;
    harness.shard.nodes[1].probe_ns = harness.now_ns;
    shard_tick(&harness.shard, harness.now_ns);
    late.sent_ns = harness.now_ns;
    late.time_us = epoch_us + harness.now_ns / NS_PER_US;
    harness.now_ns += NS_PER_MS;
    answer_clock(2, 3600000);
    harness.now_ns += 2 * NS_PER_MS;
    answer_clock(0, 0);
    node_trust_probed(&harness.shard, 1, &late, harness.now_ns);
    ok(harness.shard.nodes[1].probing,
       "the other node is probed again at once, to show which clock stepped");
}

/* With quarantine = no, a node whose clock was set still votes. */
static void test_step_without_quarantine(void) {
    struct probe late = blessed_node;

    begin_with_clocks(3);
    harness.shard.config.quarantine = false;
    harness.shard.nodes[1].probe_ns = harness.now_ns;
    shard_tick(&harness.shard, harness.now_ns);
    late.sent_ns = harness.now_ns;
    harness.now_ns += NS_PER_MS;
    late.time_us = epoch_us + harness.now_ns / NS_PER_US + 3600000 * 1000LL;
    node_trust_probed(&harness.shard, 1, &late, harness.now_ns);
    pass_ms(100);
    ok(is_asked(1) && harness.node_states[1] == NODE_STATE_VOTING, "a node that is asked shows as voting");
}

/* The agent's clock had stopped. One node was unreachable before, so its clock shows nothing. */
static void test_new_node_is_no_witness(void) {
    shard_harness_begin(3);
    pass_ms(1);
    answer_clock(0, 0);
    answer_clock(2, 0);
    node_trust_gone(&harness.shard, 1, NODE_STATE_CONNECTING, "down", harness.now_ns);
    pass_ms(50);
    contend(1, true);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    vote(0, &sent, VOTE_YES);
    vote(2, &sent, VOTE_YES);
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "down", harness.now_ns);
    pass_ms(2);
    struct probe first = blessed_node;
    first.time_us = epoch_us + harness.now_ns / NS_PER_US + 30000 * 1000;
    first.sent_ns = harness.now_ns;
    from_new_connection(1, &first);
    pass_ms(2);
    answer_clock(0, 30000);
    harness.now_ns += 2 * NS_PER_MS;
    answer_clock(1, 30000);
    ok(last_report(REPORT_LOST) != NULL,
       "rule 11: all clocks that were known before have stepped, so the agent's did");
}

static void test_trusted_nodes_are_probed(void) {
    begin_with_clocks(3);
    instant_ns due_ns = shard_due_ns(&harness.shard);
    ok(due_ns <= harness.now_ns + 10 * NS_PER_S, "a trusted node is probed every 10 s");
    pass_ms(9000);
    answer_clocks();
    ok(shard_due_ns(&harness.shard) >= harness.now_ns + 9 * NS_PER_S,
       "unless an answer has shown its clock meanwhile");
}

/* A silent node does not delay what the other clocks show. */
static void test_step_of_the_agent_beside_a_silent_node(void) {
    begin_with_clocks(3);
    hold(1);
    answer_clock(0, 8000);
    answer_clock(1, 8000);
    const struct report *lost = last_report(REPORT_LOST);
    ok(lost && lost->reason == REASON_PAUSED,
       "rule 11: two of three clocks stepped: the lease is lost without the third one's answer");

    begin_with_clocks(3);
    hold(1);
    node_trust_gone(&harness.shard, 1, NODE_STATE_CONNECTING, "closed", harness.now_ns);
    answer_clock(0, 8000);
    ok(!last_report(REPORT_LOST), "one clock stepped, and another one may agree with the agent's");
    instant_ns from_ns = harness.now_ns;
    while (harness.node_states[2] != NODE_STATE_FAILED) {
        harness.now_ns = shard_due_ns(&harness.shard);
        shard_tick(&harness.shard, harness.now_ns);
    }
    lost = last_report(REPORT_LOST);
    ok(lost && lost->reason == REASON_PAUSED && harness.now_ns - from_ns < 2 * NS_PER_S,
       "rule 11: when that node does not answer, the lease is lost at once");
}

int main(void) {
    test_step_of_a_node();
    test_step_beside_a_bound();
    test_step_counts_no_vote();
    test_votes_before_a_step();
    test_answers_from_before_the_step();
    test_step_of_a_failed_node();
    test_step_of_the_agent();
    test_step_of_the_agent_beside_a_silent_node();
    test_step_of_the_agent_beside_others();
    test_step_in_quarantine();
    test_heir();
    test_blessing_renewed_by_another_agent();
    test_withdrawals();
    test_step_before_the_blessing();
    test_probed_again_at_once();
    test_step_without_quarantine();
    test_new_node_is_no_witness();
    test_trusted_nodes_are_probed();
    return done_testing();
}
