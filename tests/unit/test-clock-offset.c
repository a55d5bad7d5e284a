/* Rule 11: nodes whose clocks are set. The node's TIME is given here as our instant and a difference. */

#include "core/clock-offset.h"
#include "tap.h"
#include "shard-harness.h"

static const int64_t epoch_us = INT64_C(1700000000) * 1000000; /* the nodes' clocks when ours says 0 */

/* --- the interval --- */

static int64_t told(struct clock_offset *offset, int64_t clock_ms, int64_t sent_ms, int64_t received_ms) {
    return clock_offset_update(offset, epoch_us + clock_ms * 1000, sent_ms * NS_PER_MS,
                               received_ms * NS_PER_MS) /
           NS_PER_MS;
}

static void test_offset(void) {
    struct clock_offset offset = {0};

    is_int(told(&offset, 105, 100, 110), 0, "the first answer tells no step");
    is_int(clock_offset_time_us(&offset, 200 * NS_PER_MS) / 1000, epoch_us / 1000 + 200,
           "the clock by the middle");
    is_int(told(&offset, 1001, 1000, 1002), 0, "nor does one that agrees");
    ok(offset.high_ns - offset.low_ns < 4 * NS_PER_MS, "it narrows the interval");
    is_int(told(&offset, 11095, 11000, 11002), 0, "a clock may run 1 % fast");
    is_int(told(&offset, 21000 - 5, 21000, 21002), 0, "or slow");

    offset = (struct clock_offset){0};
    (void) told(&offset, 1000, 1000, 1000);
    int64_t step_ms = told(&offset, 1100 + 3600000, 1100, 1101);
    ok(step_ms > 3599000 && step_ms <= 3600000, "rule 11: a clock set forward");
    is_int(told(&offset, 1200 + 3600000, 1200, 1201), 0, "once: what was known before no longer counts");
    step_ms = told(&offset, 1300 + 3599900, 1300, 1301);
    ok(step_ms < -90 && step_ms >= -100, "rule 11: a clock set back");
    is_int(told(&offset, 1400 + 3599900, 1400, 1401), 0, "once");
    is_int(told(&offset, 1600 + 3600902, 1510, 2600), 0,
           "a slow answer does not tell what may be its delay");
    (void) told(&offset, 3000 + 3599902, 3000, 3001);
    ok(told(&offset, 3100 + 3604902, 3000, 3101) > 4000, "but what is more than that");
}

/* A clock that is set forward by 1 ms with each answer, one a millisecond. How many were let pass. */
static unsigned count_small_steps(void) {
    struct clock_offset offset = {0};
    unsigned count = 0;

    (void) told(&offset, 1000, 1000, 1000);
    for (int64_t ms = 1001; ms < 1100; ms++, count++)
        if (clock_offset_update(&offset, epoch_us + (ms + ms - 1000) * 1000, ms * NS_PER_MS,
                                ms * NS_PER_MS) != 0)
            break;
    return count;
}

static void test_small_steps(void) {
    is_int(count_small_steps(), 2, "rule 11: 2 ms are within every lease's allowance, once");
}

/* --- the shard --- */

/* An answer of this node, on its way for 1 ms, by a clock that is `set_ms` ahead. */
static void tell_clock(unsigned node, int64_t set_ms) {
    node_trust_time(&harness.shard, node, epoch_us + harness.now_ns / NS_PER_US + set_ms * 1000,
                    harness.now_ns - NS_PER_MS, harness.now_ns);
}

static void tell_clocks(void) {
    for (unsigned i = 0; i < harness.shard.config.nodes; i++)
        tell_clock(i, 0);
}

/* It answers a probe: blessed, with this floor. */
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
    tell_clocks();
    pass_ms(100);
}

static void test_step_of_a_node(void) {
    begin_with_clocks(5);
    hold(1);
    unsigned extensions = count_sent(OPERATION_EXTEND);
    tell_clock(2, 3600000);
    ok(!is_asked(2), "rule 11: a node whose clock was set does not vote");
    ok(strstr(harness.shard.nodes[2].trouble, "set forward by 3599.") != NULL, "it is told why");
    pass_ms(6);
    is_int(count_sent(OPERATION_EXTEND) - extensions, 1, "rule 11: extensions are brought forward");
    is_int(last_sent(OPERATION_EXTEND)->nodes, 0x1b, "at the others");
    is_int(harness.probes[2], 1, "whose doing it was is not known before the others have told their clocks");
    for (unsigned i = 0; i < 5; i++)
        if (i != 2)
            tell_clock(i, 0);
    probed_with(2, 77);
    ok(!is_asked(2), "the blessing that it had does not count");
    pass_ms(1);
    is_int(harness.withdrawn_us[2], 77, "rule 11: and is withdrawn");
    node_trust_probed(&harness.shard, 2, &marked_node, harness.now_ns);
    probed_with(2, 78);
    ok(!last_report(REPORT_LOST), "the lease goes on");
}

static void test_step_counts_no_vote(void) {
    begin_with_clocks(3);
    contend(1, false);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    pass_ms(1);
    tell_clock(0, 0);
    vote(0, &sent, VOTE_YES);
    tell_clock(1, 5000);
    vote(1, &sent, VOTE_YES);
    ok(!last_report(REPORT_GRANTED), "rule 11: the vote in the answer that shows the step does not count");
    tell_clock(2, 0);
    vote(2, &sent, VOTE_YES);
    ok(last_report(REPORT_GRANTED), "a majority of the others does");
    command(COMMAND_RELEASE, 1);
    is_int(last_sent(OPERATION_RELEASE)->nodes, 5, "and it is owed its release");
}

static void test_votes_before_a_step(void) {
    begin_with_clocks(3);
    contend(1, false);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    pass_ms(1);
    tell_clock(0, 0);
    vote(0, &sent, VOTE_YES);
    pass_ms(1);
    tell_clock(0, 3600000); /* as an answer for another lease shows */
    tell_clock(1, 0);
    vote(1, &sent, VOTE_YES);
    ok(!last_report(REPORT_GRANTED), "rule 11: a vote from before a step of its node no longer counts");
    tell_clock(2, 0);
    vote(2, &sent, VOTE_YES);
    ok(last_report(REPORT_GRANTED) != NULL, "a majority of others does");

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
    tell_clock(0, 0);
    vote(0, &adopt, VOTE_YES);
    tell_clock(0, 3600000);
    tell_clock(1, 0);
    vote(1, &adopt, VOTE_YES);
    ok(!last_report(REPORT_GRANTED), "nor when a lease is resumed");
}

/* Ours stood still; what others answer now was executed before. */
static void test_answers_from_before(void) {
    begin_with_clocks(3);
    hold(1);
    tell_clock(2, 30000);
    tell_clock(0, 0);
    tell_clock(1, 0);
    ok(!harness.shard.nodes[2].judged, "answers to what was asked before a step don't tell whose it was");
    ok(harness.shard.nodes[0].probing && harness.shard.nodes[1].probing, "they are asked again");
    tell_clock(0, 30000);
    tell_clock(1, 30000);
    const struct report *lost = last_report(REPORT_LOST);
    ok(lost && lost->reason == REASON_PAUSED, "rule 11: it was ours");
}

static void test_step_that_matters_no_more(void) {
    begin_with_clocks(3);
    hold(1);
    tell_clock(2, 30000);
    pass_ms(6);
    unsigned extensions = count_sent(OPERATION_EXTEND);
    const struct sent sent = *last_sent(OPERATION_EXTEND);
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    for (int64_t set_ms = 31000; set_ms < 60000; set_ms += 1000) {
        tell_clock(2, set_ms);
        pass_ms(6);
    }
    is_int(count_sent(OPERATION_EXTEND), extensions,
           "a clock that goes on being set disturbs nobody: its node does not vote already");
}

static void test_step_of_ours(void) {
    begin_with_clocks(3);
    hold(1);
    tell_clock(0, 8000);
    ok(!last_report(REPORT_LOST), "one clock that was set is no reason to give up");
    tell_clock(1, 8000);
    tell_clock(2, 8000);
    const struct report *lost = last_report(REPORT_LOST);
    ok(lost && lost->reason == REASON_PAUSED, "rule 11: when most were, it was ours that stood still");
    for (unsigned i = 0; i < 3; i++)
        probed_with(i, 77);
    pass_ms(1100);
    ok(harness.withdrawn_us[0] == 0 && harness.withdrawn_us[1] == 0, "their blessings stay");
    ok(!is_asked(0) && !is_asked(1) && !is_asked(2), "but do not count for us");
    for (unsigned i = 0; i < 70; i++) {
        pass_ms(1000);
        for (unsigned node = 0; node < 3; node++)
            if (harness.shard.nodes[node].probing)
                probed_with(node, 77);
    }
    ok(is_asked(0) && is_asked(1) && is_asked(2), "before all that they may have forgotten has ended");
}

/* While we were away others may have blessed it and been granted leases, which ended with the step. */
static void test_step_in_quarantine(void) {
    begin_with_clocks(3);
    node_trust_gone(&harness.shard, 0, NODE_STATE_CONNECTING, "cut", harness.now_ns);
    node_trust_ready(&harness.shard, 0, harness.now_ns);
    node_trust_probed(&harness.shard, 0, &marked_node, harness.now_ns);
    uint32_t mark = harness.marks[0];
    node_trust_gone(&harness.shard, 0, NODE_STATE_CONNECTING, "cut", harness.now_ns);
    pass_ms(100000);
    node_trust_ready(&harness.shard, 0, harness.now_ns);
    tell_clock(0, 5000);
    node_trust_probed(&harness.shard, 0, &marked_node, harness.now_ns);
    pass_ms(1000);
    ok(harness.blessings[0] == 0 && harness.leaves[0] && harness.marks[0] != mark,
       "rule 11: a mark from before the step proves nothing: the time begins anew");
}

/* A connection to another process, which answers that it may inherit. */
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
    is_int(harness.blessings[1], 1, "rule 10: one with all data of a blessed process is blessed at once");
    ok(!is_asked(1), "but not before");
    node_trust_probed(&harness.shard, 1, &blessed_node, harness.now_ns);
    ok(is_asked(1), "then it votes");

    comes_back_as_heir(2, 9000);
    is_int(harness.blessings[2], 0, "rule 11: not when its clock was set meanwhile");
    pass_ms(1000);
    ok(harness.disowned[2] && harness.leaves[2], "then it is disowned, and rests");
    node_trust_probed(&harness.shard, 2, &new_node, harness.now_ns);
    pass_ms(1000);
    ok(!harness.disowned[2], "once");
    is_int(harness.blessings[2], 0, "for the whole of the quarantine");
}

static void from_new_connection(unsigned node, const struct probe *probe) {
    node_trust_gone(&harness.shard, node, NODE_STATE_FAILED, "gone", harness.now_ns);
    node_trust_ready(&harness.shard, node, harness.now_ns);
    node_trust_probed(&harness.shard, node, probe, harness.now_ns);
}

static void test_heir_of_others(void) {
    begin_with_clocks(3);
    comes_back_as_heir(2, 9000);
    pass_ms(2);
    tell_clock(0, 0);
    tell_clock(1, 0);
    pass_ms(1000);
    node_trust_probed(&harness.shard, 2, &blessed_node, harness.now_ns); /* another agent let it inherit */
    ok(!is_asked(2), "rule 11: what another agent lets a node inherit whose clock was set does not count");
}

/* How much of a blessing is taken back after a step, if the node goes on answering with it. */
static int64_t withdrawn_in_the_end(unsigned node, const struct probe *probe) {
    pass_ms(2);
    for (unsigned i = 0; i < 3; i++)
        if (i != node)
            tell_clock(i, 0);
    for (unsigned i = 0; i < 200 && harness.withdrawn_us[node] == 0; i++) {
        pass_ms(100);
        if (harness.shard.nodes[node].probing)
            node_trust_probed(&harness.shard, node, probe, harness.now_ns);
    }
    return harness.withdrawn_us[node];
}

static void test_step_that_matters_to_others(void) {
    struct probe late = blessed_node;

    begin_with_clocks(3);
    from_new_connection(1, &shortly_blessed_node);
    pass_ms(100);
    tell_clock(1, 3600000);
    is_int(withdrawn_in_the_end(1, &shortly_blessed_node), shortly_blessed_node.floor_us,
           "rule 11: a blessing for shorter leases than ours is taken back too");

    begin_with_clocks(3);
    comes_back_as_heir(2, 0);
    pass_ms(2);
    late.sent_ns = harness.now_ns - NS_PER_MS;
    late.time_us = epoch_us + harness.now_ns / NS_PER_US + 9000 * 1000;
    node_trust_probed(&harness.shard, 2, &late, harness.now_ns);
    is_int(withdrawn_in_the_end(2, &blessed_node), blessed_node.floor_us,
           "and an inheritance that was written after the step");
}

/* A probe of another node was under way when a step is seen: its answer may be from before. */
static void test_asked_again_at_once(void) {
    struct probe late = blessed_node;

    begin_with_clocks(3);
    for (unsigned i = 0; i < 3; i++)
        harness.shard.nodes[i].probe_ns = INSTANT_NEVER;
    harness.shard.nodes[1].probe_ns = harness.now_ns;
    shard_tick(&harness.shard, harness.now_ns);
    late.sent_ns = harness.now_ns;
    late.time_us = epoch_us + harness.now_ns / NS_PER_US;
    harness.now_ns += NS_PER_MS;
    tell_clock(2, 3600000);
    harness.now_ns += 2 * NS_PER_MS;
    tell_clock(0, 0);
    node_trust_probed(&harness.shard, 1, &late, harness.now_ns);
    ok(harness.shard.nodes[1].probing, "who may tell whose step it was is asked again at once");
}

/* Without quarantine a node whose clock was set votes on: that is told too. */
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
    ok(is_asked(1) && harness.node_states[1] == NODE_STATE_VOTING, "a node that is asked is told to vote");
}

/* Ours stood still; one node was not there before, so its clock tells nothing. */
static void test_new_node_is_no_witness(void) {
    shard_harness_begin(3);
    pass_ms(1);
    tell_clock(0, 0);
    tell_clock(2, 0);
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
    tell_clock(0, 30000);
    harness.now_ns += 2 * NS_PER_MS;
    tell_clock(1, 30000);
    ok(last_report(REPORT_LOST) != NULL,
       "rule 11: when all clocks that were known before have stepped, it was ours");
}

static void test_trusted_nodes_are_looked_at(void) {
    begin_with_clocks(3);
    instant_ns due_ns = shard_due_ns(&harness.shard);
    ok(due_ns <= harness.now_ns + 10 * NS_PER_S, "a trusted node is looked at every 10 s");
    pass_ms(9000);
    tell_clocks();
    ok(shard_due_ns(&harness.shard) >= harness.now_ns + 9 * NS_PER_S,
       "unless it has told its clock meanwhile");
}

int main(void) {
    test_offset();
    test_small_steps();
    test_step_of_a_node();
    test_step_counts_no_vote();
    test_votes_before_a_step();
    test_answers_from_before();
    test_step_that_matters_no_more();
    test_step_of_ours();
    test_step_in_quarantine();
    test_heir();
    test_heir_of_others();
    test_step_that_matters_to_others();
    test_asked_again_at_once();
    test_step_without_quarantine();
    test_new_node_is_no_witness();
    test_trusted_nodes_are_looked_at();
    return done_testing();
}
