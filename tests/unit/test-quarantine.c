/* Rule 10: how long a node that lost its data is quarantined when agents have different max_ttl. */

#include <string.h>

#include "epoch-harness.h"
#include "tap.h"

static void test_longest_of_other_fleet(void) {
    shard_harness_begin(5);
    lose_data(0);
    is_int(quarantine_ms(0), quarantine_for(DAY_MS),
           "no other node was read yet: the quarantine covers the longest possible lease");
    is_int(node_trust_until_ns(&harness.shard, 0), INSTANT_NEVER,
           "the time shown to operators is unknown until then");
    ok(harness.shard.nodes[1].probing && harness.shard.nodes[4].probing,
       "the other nodes are probed at once");
    probed(1, epoch_of(MINUTE_MS, 0));
    probed(2, epoch_of(DAY_MS / 2, 0));
    is_int(quarantine_ms(0), quarantine_for(DAY_MS),
           "two other nodes of five need not include one that granted the lease");
    probed(3, epoch_of(MINUTE_MS, 0));
    is_int(quarantine_ms(0), quarantine_for(DAY_MS / 2),
           "rule 10: three other nodes do: the longest max_ttl among them counts");
    is_int(harness.shard.max_ttl_ms, MINUTE_MS, "for this quarantine only: the agent's own max_ttl stays");
}

static void test_read_before(void) {
    shard_harness_begin(3);
    pass_ms(10000);
    ok(harness.shard.nodes[1].probing || harness.shard.nodes[1].read_ns > 0,
       "the other nodes are read before the loss");
    trusted_nodes_answer();
    harness.now_ns += NS_PER_MS;
    harness.shard.nodes[1].probe_ns = harness.shard.nodes[2].probe_ns = harness.now_ns;
    shard_tick(&harness.shard, harness.now_ns);
    harness.now_ns += NS_PER_MS;
    lose_data(0);
    trusted_nodes_answer();
    is_int(quarantine_ms(0), quarantine_for(DAY_MS),
           "rule 10: a probe sent before the mark was left may be too old");
    ok(harness.shard.nodes[1].probing && harness.shard.nodes[2].probing, "then the nodes are probed again");
    trusted_nodes_answer();
    is_int(quarantine_ms(0), quarantine_for(MINUTE_MS), "answers to probes sent after the mark count");
}

static void test_unreachable(void) {
    shard_harness_begin(3);
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "down", harness.now_ns);
    lose_data(0);
    for (unsigned second = 0; second < 70; second++) {
        pass_ms(SECOND_MS);
        if (harness.shard.nodes[0].probing)
            probed(0, marked_node);
    }
    is_int(harness.blessings[0], 0,
           "rule 10: an unreachable node may have a longer max_ttl, so there is no blessing");
    ok(strstr(harness.reasons[0], "2 other nodes must report the longest max_ttl") != NULL,
       "NODES names the reason");
    node_trust_bless(&harness.shard, 0, harness.now_ns);
    is_int(harness.blessings[0], 1, "an operator can bless the node");
    ok(harness.blessed[0].rested, "an operator's blessing counts for all agents");

    shard_harness_begin(3);
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "down", harness.now_ns);
    lose_data(0);
    pass_ms(5000);
    node_joins(2);
    is_int(quarantine_ms(0), quarantine_for(MINUTE_MS),
           "when the node is back, the time since the mark counts");
}

static void pass_with_marks(unsigned seconds) {
    for (unsigned i = 0; i < seconds; i++) {
        pass_ms(SECOND_MS + 1);
        for (unsigned node = 0; node < 3; node++)
            if (harness.shard.nodes[node].probing && harness.blessings[node] == 0)
                probed(node, mark_of(SECOND_MS));
    }
}

/* All nodes lose their data at once: only the marks show which other agents there are. */
static void test_all_lose_data(void) {
    begin_without_epochs(3);
    pass_ms(SECOND_MS);
    probed(1, mark_of(SECOND_MS));
    probed(2, mark_of(SECOND_MS));
    is_int(quarantine_ms(0), 11100, "the quarantine gives all connected agents time to notice the loss");
    pass_ms(SECOND_MS);
    probed(1, mark_of(MINUTE_MS));
    is_int(quarantine_ms(0), quarantine_for(MINUTE_MS),
           "rule 10: the longest max_ttl of the agents with a mark counts");
    probed(0, mark_of(DAY_MS));
    is_int(quarantine_ms(2), quarantine_for(DAY_MS), "marks on the node itself count, too");
}

/* The node's clock, which the agent knows, is set during the quarantine. */
static void test_mark_from_before_a_step(void) {
    static const int64_t before_us = INT64_C(1700000000) * 1000000;
    struct probe stepped = mark_of(SECOND_MS);

    begin_without_epochs(3);
    node_trust_time(&harness.shard, 2, before_us, harness.now_ns, harness.now_ns);
    pass_ms(SECOND_MS);
    probed(1, mark_of(SECOND_MS));
    probed(2, mark_of(SECOND_MS));
    is_int(quarantine_ms(0), 11100, "with two marks on other nodes, the quarantine's end is known");
    pass_ms(SECOND_MS);
    stepped.time_us = before_us + INT64_C(3600) * 1000000;
    stepped.sent_ns = harness.now_ns;
    probed(2, stepped);
    is_int(quarantine_ms(0), quarantine_for(DAY_MS),
           "rule 11: a mark from before the clock of its node was set does not count for another node");
    pass_ms(1100);
    ok(harness.leaves[2], "that node gets a new mark");
    probed(2, mark_of(SECOND_MS));
    is_int(quarantine_ms(0), 3100 + 11100, "which counts from then on");
}

/* An agent of another fleet leaves its mark, or renews its fleet's epoch, after the last probe of the agent
 * under test. */
static void test_rival_at_the_last_moment(void) {
    struct probe rival = marked_node;

    rival.rival = true;
    rival.others = "others";
    for (unsigned with_rival = 0; with_rival < 2; with_rival++) {
        begin_without_epochs(3);
        pass_ms(SECOND_MS);
        for (unsigned i = 0; i < 3; i++)
            probed(i, marked_node);
        harness.shard.nodes[0].probe_ns = harness.shard.nodes[1].probe_ns = harness.shard.nodes[2].probe_ns =
            harness.now_ns + 12 * NS_PER_S;
        pass_ms(11 * SECOND_MS);
        ok(harness.blessings[0] + harness.blessings[1] + harness.blessings[2] == 0,
           "rule 10: a node read before other agents had time to notice the loss does not count");
        pass_ms(SECOND_MS);
        probed(0, with_rival ? rival : marked_node);
        is_int(harness.blessings[1] + harness.blessings[2], 0, "one node read again is not enough");
        probed(1, marked_node);
        is_int(harness.blessings[2], 0, "two nodes read again, without the node itself, are not enough");
        probed(2, marked_node);
        pass_ms(1);
        is_int(harness.blessings[2], with_rival ? 0 : 1,
               with_rival ? "another fleet's mark prevents the blessing"
                          : "all three read again: the nodes are blessed");
    }
}

/* An agent with quarantine = no has written the epoch meanwhile. */
static void test_inherits_unrested(void) {
    struct probe unrested = blessed_node;

    unrested.rested = false;
    unrested.brief = true;
    shard_harness_begin(3);
    node_trust_gone(&harness.shard, 0, NODE_STATE_CONNECTING, "gone", harness.now_ns);
    node_trust_ready(&harness.shard, 0, harness.now_ns);
    probed(0, unrested);
    ok(!votes(0), "rule 10: an epoch without a quarantine does not count, whichever answer contains it");
    unrested.rested = true;
    pass_ms(2 * SECOND_MS);
    probed(0, unrested);
    ok(votes(0), "an epoch with a quarantine counts");
}

/* A node that has lost its data no longer has the epoch that the agent has read there. */
static void test_remembers_epochs(void) {
    shard_harness_begin(3);
    harness.shard.max_ttl_ms = SECOND_MS;
    lose_data(0);
    probed(1, epoch_of(DAY_MS / 2, 1));
    probed(2, epoch_of(SECOND_MS, 1));
    is_int(quarantine_ms(0), quarantine_for(DAY_MS / 2), "another node has an epoch for longer leases");
    node_trust_gone(&harness.shard, 1, NODE_STATE_CONNECTING, "gone", harness.now_ns);
    node_trust_ready(&harness.shard, 1, harness.now_ns);
    probed(1, mark_of(SECOND_MS));
    pass_ms(SECOND_MS);
    probed(1, mark_of(SECOND_MS));
    is_int(quarantine_ms(0), quarantine_for(DAY_MS / 2),
           "rule 10: that epoch counts even after its node loses its data");
    is_int(harness.mark_max_ttl_ms[1], DAY_MS / 2,
           "the agent's mark shows that max_ttl to the other agents");
    pass_ms(SECOND_MS);
    probed(1, epoch_of(SECOND_MS, 1));
    is_int(quarantine_ms(0), quarantine_for(MINUTE_MS), "until the node is blessed for shorter leases");
}

/* A mark does not show agents that noticed the loss after it was read. */
static void test_marks_read_late(void) {
    begin_without_epochs(3);
    pass_with_marks(1);
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "gone", harness.now_ns);
    pass_with_marks(14);
    is_int(harness.blessings[0], 0,
           "rule 10: a mark read before all agents had time to notice the loss is not enough");
    ok(strstr(harness.reasons[0], "2 other nodes must report") != NULL, "NODES names the reason");
    node_trust_ready(&harness.shard, 2, harness.now_ns);
    probed(2, mark_of(SECOND_MS));
    pass_with_marks(2);
    is_int(harness.blessings[0], 1, "once the mark is read again, the node is blessed");
}

/* Other agents notice an agent by its mark, so the agent leaves the mark as soon as an epoch is missing. */
static void test_marks_at_once(void) {
    shard_harness_begin(3);
    harness.now_ns += 11 * NS_PER_S;
    shard_tick(&harness.shard, harness.now_ns);
    ok(harness.shard.nodes[0].probing, "a trusted node is probed after 10 s");
    ok(harness.leaves[0], "rule 10: a probe that finds no epoch leaves the mark");
    harness.now_ns += NS_PER_MS;
    probed(0, marked_node);
    is_int(harness.shard.nodes[0].marked_ns, harness.now_ns, "the quarantine begins then");
}

static void test_single_node(void) {
    begin_without_epochs(1);
    is_int(quarantine_ms(0), 11100,
           "a single node: no other nodes to read; the connected agents get time to notice");
    harness.shard.config.quarantine = false;
    is_int(quarantine_ms(0), 0, "quarantine = no: no quarantine");
}

/* Node 0 loses its data. The agent has sent the blessing. */
static void begin_with_blessing(void) {
    shard_harness_begin(3);
    lose_data(0);
    trusted_nodes_answer();
    for (unsigned second = 0; second < 62; second++) {
        pass_ms(SECOND_MS);
        if (harness.blessings[0] == 0 && harness.shard.nodes[0].probing)
            probed(0, marked_node);
    }
}

/* Another agent left its mark since the last probe. */
static void test_longer_mark_at_blessing(void) {
    struct probe longer = mark_of(DAY_MS);

    longer.brief = true;
    begin_with_blessing();
    is_int(harness.blessings[0], 1, "the node is blessed after its quarantine");
    is_int(harness.blessed[0].covered_ms, MINUTE_MS, "the blessing covers leases of a minute");
    probed(0, longer);
    is_int(quarantine_ms(0), quarantine_for(DAY_MS), "but the answer has a mark for longer leases");
    pass_ms(5000);
    is_int(harness.blessings[0], 1, "the quarantine continues for longer leases");
    probed(0, new_node);
    ok(harness.shard.nodes[0].marked_ns == INSTANT_NEVER,
       "the quarantine begins anew when the node loses the mark");
}

/* The answer to the blessing names no reason: the marks are for leases as long as the blessing covers. */
static void test_refused_blessing(void) {
    struct probe refusal = mark_of(MINUTE_MS);

    refusal.brief = true;
    begin_with_blessing();
    is_int(harness.blessed[0].covered_ms, MINUTE_MS, "the blessing covers the marks' leases");
    probed(0, refusal);
    pass_ms(1100);
    ok(harness.leaves[0] && harness.blessings[0] == 1,
       "rule 10: a node that refuses its blessing without longer leases gets a new mark, and no other "
       "blessing");
    probed(0, marked_node);
    pass_ms(5000);
    is_int(harness.blessings[0], 1, "the quarantine begins anew");
}

static void test_unrested(void) {
    struct probe careless = marked_node;

    shard_harness_begin(3);
    careless.unrested = true;
    careless.max_ttl_ms = DAY_MS;
    lose_data(0);
    trusted_nodes_answer();
    pass_ms(1100);
    probed(0, careless);
    ok(!votes(0) && quarantine_ms(0) == quarantine_for(DAY_MS),
       "rule 10: a blessing by an agent with quarantine = no changes nothing for other agents");
    harness.shard.config.quarantine = false;
    pass_ms(1100);
    is_int(harness.blessings[0], 1, "an agent with quarantine = no blesses the node at once");
    ok(!harness.blessed[0].rested, "and marks the epoch as valid for such agents alone");
}

int main(void) {
    test_longest_of_other_fleet();
    test_read_before();
    test_unreachable();
    test_all_lose_data();
    test_mark_from_before_a_step();
    test_rival_at_the_last_moment();
    test_inherits_unrested();
    test_remembers_epochs();
    test_marks_read_late();
    test_marks_at_once();
    test_single_node();
    test_longer_mark_at_blessing();
    test_refused_blessing();
    test_unrested();
    return done_testing();
}
