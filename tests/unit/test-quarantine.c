/* Rule 10: how long a node that lost its data is quarantined when agents have different max_ttl, and which
 * fleet a node votes for. The agent under test has a max_ttl of a minute. */

#include <string.h>

#include "core/quarantine.h"
#include "tap.h"
#include "shard-harness.h"

enum { MINUTE_MS = 60000, SECOND_MS = 1000, DAY_MS = 86400000 };

static struct probe epoch_of(uint32_t max_ttl_ms, uint32_t generation) {
    struct probe probe = blessed_node;

    probe.max_ttl_ms = max_ttl_ms;
    probe.generation = generation;
    return probe;
}

static struct probe mark_of(uint32_t longest_ms) {
    struct probe probe = marked_node;

    probe.max_ttl_ms = longest_ms;
    return probe;
}

static void probed(unsigned node, struct probe probe) {
    node_trust_probed(&harness.shard, node, &probe, harness.now_ns);
}

/* A request finds that the node has no epoch. The agent leaves its mark there. */
static void lose_data(unsigned node) {
    harness.now_ns += NS_PER_MS;
    contend(9 + node, false);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    vote(node, &sent, VOTE_EPOCH);
    probed(node, marked_node);
    command(COMMAND_RELEASE, 9 + node);
}

static bool votes(unsigned node) {
    return shard_askable(&harness.shard) & node_set_of(node);
}

static int64_t quarantine_ms(unsigned node) {
    instant_ns until_ns = quarantine_until_ns(&harness.shard, node);

    return until_ns == INSTANT_NEVER ? -1 : (until_ns - harness.shard.nodes[node].marked_ns) / NS_PER_MS;
}

/* The quarantine for leases of at most `max_ttl_ms`. */
static int64_t quarantine_for(int64_t max_ttl_ms) {
    return max_ttl_ms + max_ttl_ms / 100 + 2 + 1000;
}

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
       "the other nodes were read before");
    trusted_nodes_answer();
    harness.now_ns += NS_PER_MS;
    harness.shard.nodes[1].probe_ns = harness.shard.nodes[2].probe_ns = harness.now_ns;
    shard_tick(&harness.shard, harness.now_ns);
    harness.now_ns += NS_PER_MS;
    lose_data(0);
    trusted_nodes_answer();
    is_int(quarantine_ms(0), quarantine_for(DAY_MS),
           "rule 10: a probe sent before the mark was left may be too old");
    ok(harness.shard.nodes[1].probing && harness.shard.nodes[2].probing, "so the nodes are probed again");
    trusted_nodes_answer();
    is_int(quarantine_ms(0), quarantine_for(MINUTE_MS), "and these answers count");
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
    ok(harness.blessed[0].rested, "and the blessing counts for all agents");

    shard_harness_begin(3);
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "down", harness.now_ns);
    lose_data(0);
    pass_ms(5000);
    node_joins(2);
    is_int(quarantine_ms(0), quarantine_for(MINUTE_MS),
           "when the node is back, the time since the mark counts");
}

/* The agent starts with a max_ttl of a second and finds no epoch on any node. */
static void begin_without_epochs(unsigned nodes) {
    shard_harness_begin(nodes);
    harness.shard.max_ttl_ms = SECOND_MS;
    for (unsigned i = 0; i < nodes; i++) {
        node_init(&harness.shard.nodes[i]);
        node_trust_ready(&harness.shard, i, harness.now_ns);
        probed(i, mark_of(SECOND_MS));
    }
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
    is_int(quarantine_ms(2), quarantine_for(DAY_MS), "on whichever node the mark is");
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
        is_int(harness.blessings[2], 0, "nor two, without the node itself");
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
    ok(votes(0), "an epoch with a quarantine does");
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
           "and the agent's mark there shows it to the other agents");
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
    ok(harness.shard.nodes[0].probing, "a trusted node is probed");
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

/* Another agent left its mark since the last probe. */
static void test_longer_mark_at_blessing(void) {
    struct probe longer = mark_of(DAY_MS);

    longer.brief = true;
    shard_harness_begin(3);
    lose_data(0);
    trusted_nodes_answer();
    for (unsigned second = 0; second < 62; second++) {
        pass_ms(SECOND_MS);
        if (harness.blessings[0] == 0 && harness.shard.nodes[0].probing)
            probed(0, marked_node);
    }
    is_int(harness.blessings[0], 1, "the blessing is sent");
    is_int(harness.blessed[0].covered_ms, MINUTE_MS, "for leases of a minute");
    probed(0, longer);
    is_int(quarantine_ms(0), quarantine_for(DAY_MS), "but the answer has a mark for longer leases");
    pass_ms(5000);
    is_int(harness.blessings[0], 1, "so the quarantine continues");
    probed(0, new_node);
    ok(harness.shard.nodes[0].marked_ns == INSTANT_NEVER, "and begins anew when the node loses the mark");
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

/* --- epochs --- */

static void epoch_changes(unsigned node, struct probe to) {
    harness.shard.nodes[node].probe_ns = harness.now_ns;
    shard_tick(&harness.shard, harness.now_ns);
    probed(node, to);
}

static void test_raised(void) {
    shard_harness_begin(3);
    epoch_changes(0, epoch_of(SECOND_MS, 1));
    ok(!votes(0), "an epoch for shorter leases than the agent's does not count");
    is_int(harness.amendments[0], 1,
           "the agent raises its max_ttl at once, since the node has lost nothing");
    is_int(harness.amended[0].max_ttl_ms, MINUTE_MS, "to the agent's max_ttl");
    probed(0, epoch_of(MINUTE_MS, 2));
    ok(votes(0), "then the node votes");
    epoch_changes(0, epoch_of(DAY_MS, 3));
    ok(votes(0), "an epoch for longer leases counts");
    is_int(harness.amendments[0], 1, "and is not changed");
}

/* For example when agent and script read an epoch differently. */
static void test_raised_in_vain(void) {
    shard_harness_begin(3);
    harness.shard.nodes[0].probe_ns = harness.now_ns;
    shard_tick(&harness.shard, harness.now_ns);
    unsigned asked = 0;
    for (unsigned i = 0; i < 1000; i++) {
        if (harness.shard.nodes[0].probing) {
            probed(0, shortly_blessed_node);
            asked++;
        }
        pass_ms(10);
    }
    ok(asked >= 8 && asked <= 25,
       "a failing amendment is not repeated as fast as answers arrive (%u in 10 s)", asked);
}

/* Answers the probes of node 0 with `epoch`, until the agent amends or the time is over. */
static void pass_with_epoch(struct probe epoch, int64_t seconds) {
    unsigned before = harness.amendments[0];

    for (int64_t i = 0; i < seconds && harness.amendments[0] == before; i++) {
        harness.now_ns += NS_PER_S;
        shard_tick(&harness.shard, harness.now_ns);
        for (unsigned node = 0; node < 3 && harness.amendments[0] == before; node++)
            if (harness.shard.nodes[node].probing)
                probed(node, node == 0 ? epoch : blessed_node);
    }
}

static void test_shortened(void) {
    struct probe proposed = epoch_of(2 * MINUTE_MS, 2);

    shard_harness_begin(3);
    epoch_changes(0, epoch_of(2 * MINUTE_MS, 1));
    pass_with_epoch(epoch_of(2 * MINUTE_MS, 1), 120);
    is_int(harness.amendments[0], 0,
           "an epoch for longer leases than the agent's is not changed for a while");
    pass_with_epoch(epoch_of(2 * MINUTE_MS, 1), 10);
    is_int(harness.amendments[0], 1, "then the agent proposes a shorter max_ttl");
    is_int(harness.amended[0].max_ttl_ms, 2 * MINUTE_MS, "the max_ttl in force stays");
    is_int(harness.amended[0].proposed_ms, MINUTE_MS, "agents with longer leases can object");
    proposed.proposed_ms = MINUTE_MS;
    probed(0, proposed);
    ok(votes(0), "meanwhile the node votes");
    pass_with_epoch(proposed, 120);
    is_int(harness.amendments[0], 1, "rule 10: the proposal waits until all longer leases have ended");
    pass_with_epoch(proposed, 10);
    is_int(harness.amendments[0], 2, "then the shorter max_ttl is set");
    ok(harness.amended[0].max_ttl_ms == MINUTE_MS && harness.amended[0].proposed_ms == 0, "as proposed");
    probed(0, epoch_of(MINUTE_MS, 3));
    ok(votes(0), "and the node still votes");
}

static void test_veto(void) {
    struct probe proposed = epoch_of(MINUTE_MS, 2);

    shard_harness_begin(3);
    proposed.proposed_ms = SECOND_MS;
    epoch_changes(0, proposed);
    ok(!votes(0), "rule 10: a proposal that is too short for the agent: the node is not asked");
    is_int(harness.amendments[0], 1, "the agent withdraws the proposal");
    ok(harness.amended[0].max_ttl_ms == MINUTE_MS && harness.amended[0].proposed_ms == 0, "at once");
    proposed = epoch_of(DAY_MS, 3);
    proposed.proposed_ms = SECOND_MS;
    probed(0, proposed);
    pass_ms(1100);
    ok(harness.amended[0].max_ttl_ms == DAY_MS && harness.amended[0].proposed_ms == MINUTE_MS,
       "and proposes its own max_ttl when that is shorter than the one in force");
}

static void test_operator_shortens(void) {
    shard_harness_begin(3);
    epoch_changes(0, epoch_of(DAY_MS, 1));
    node_trust_bless(&harness.shard, 0, harness.now_ns);
    is_int(harness.amendments[0], 1, "an operator's bless command shortens an epoch at once");
    is_int(harness.amended[0].max_ttl_ms, MINUTE_MS, "to the agent's max_ttl");
    probed(0, epoch_of(MINUTE_MS, 2));
    ok(votes(0), "the node still votes");
    node_trust_bless(&harness.shard, 0, harness.now_ns);
    lose_data(0);
    is_int(harness.blessings[0], 0, "bless of a voting node does not count for a later loss of data");
}

/* The node's epoch changes between the start of the round and the vote. */
static void test_epoch_younger_than_round(void) {
    shard_harness_begin(3);
    contend(1, false);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    pass_ms(1);
    vote(0, &sent, VOTE_YES);
    epoch_changes(1, epoch_of(MINUTE_MS, 1));
    vote(1, &sent, VOTE_YES);
    ok(!last_report(REPORT_GRANTED), "rule 10: a vote under an epoch younger than the round does not count");
    vote(2, &sent, VOTE_YES);
    ok(last_report(REPORT_GRANTED) != NULL, "a majority of other nodes is enough");
    command(COMMAND_RELEASE, 1);
    is_int(last_sent(OPERATION_RELEASE)->nodes, 7, "the release goes to that node, too");
}

/* The lease to resume is longer than a max_ttl that is already proposed. */
static void test_longer_lease_below_proposal(void) {
    struct probe proposed = epoch_of(2 * MINUTE_MS, 1);

    shard_harness_begin(3);
    proposed.proposed_ms = MINUTE_MS;
    for (unsigned i = 0; i < 3; i++)
        epoch_changes(i, proposed);
    ok(votes(0) && votes(1) && votes(2), "a proposal as short as the agent's max_ttl: the nodes vote");
    node_trust_outgrow(&harness.shard, 2 * MINUTE_MS);
    ok(!votes(0) && !votes(1) && !votes(2),
       "rule 10: a lease longer than the proposal is not resumed before the proposal is withdrawn");
    pass_ms(1);
    ok(harness.amended[0].max_ttl_ms == 2 * MINUTE_MS && harness.amended[0].proposed_ms == 0, "at once");
}

/* The lease was granted when the configuration had a longer max_ttl. */
static void test_longer_lease_resumed(void) {
    const struct command resume = {.kind = COMMAND_RESUME,
                                   .persist = true,
                                   .request = 1,
                                   .terms.ttl_ms = 2 * MINUTE_MS,
                                   .terms.node_timeout_ms = 100,
                                   .hold_until_ns = INSTANT_NEVER,
                                   .text = "x42:",
                                   .head_length = 1,
                                   .tail_length = 3};

    shard_harness_begin(3);
    shard_command(&harness.shard, &resume, harness.now_ns);
    ok(!last_sent(OPERATION_ADOPT), "rule 10: a lease longer than max_ttl of the epochs is not resumed");
    pass_ms(1);
    is_int(harness.amended[0].max_ttl_ms, 2 * MINUTE_MS, "before the epochs are raised");
    for (unsigned i = 0; i < 3; i++)
        probed(i, epoch_of(2 * MINUTE_MS, 1));
    pass_ms(10);
    ok(last_sent(OPERATION_ADOPT) != NULL, "then it is resumed");
}

/* --- fleets --- */

static const char other_fleet[] = "votes for others";

static struct probe of_other_fleet(void) {
    struct probe probe = blessed_node;

    probe.foreign = true;
    probe.others = other_fleet;
    probe.others_length = sizeof(other_fleet) - 1;
    return probe;
}

static void test_foreign(void) {
    shard_harness_begin(3);
    hold(1);
    epoch_changes(2, of_other_fleet());
    is_int(shard_askable(&harness.shard), 0,
           "rule 10: while one node is of another fleet, no other node is asked");
    is_string(harness.reasons[2], other_fleet, "NODES shows the other fleet");
    is_int(harness.node_states[0], NODE_STATE_FAILED, "and that the other nodes don't vote");
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "down", harness.now_ns);
    pass_ms(2000);
    is_int(shard_askable(&harness.shard), 0, "also while that node is unreachable");
    node_joins(2);
    is_int(shard_askable(&harness.shard), 7, "until that node is of the agent's fleet");
    is_int(harness.node_states[0], NODE_STATE_VOTING, "then all vote again");
    epoch_changes(2, of_other_fleet());
    node_trust_bless(&harness.shard, 2, harness.now_ns);
    is_int(harness.amendments[2], 1, "an operator's bless command moves it to the agent's fleet");
    probed(2, blessed_node);
    is_int(shard_askable(&harness.shard), 7, "then it votes");
}

/* The other fleet's agents may continue with nodes that this agent does not know. */
static void test_foreign_loses_data(void) {
    shard_harness_begin(3);
    epoch_changes(2, of_other_fleet());
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "gone", harness.now_ns);
    node_trust_ready(&harness.shard, 2, harness.now_ns);
    probed(2, marked_node);
    is_int(shard_askable(&harness.shard), 0,
           "rule 10: a node of another fleet that loses its data still bars all nodes");
    trusted_nodes_answer();
    for (unsigned second = 0; second < 70; second++) {
        pass_ms(SECOND_MS);
        trusted_nodes_answer();
        if (harness.shard.nodes[2].probing)
            probed(2, marked_node);
    }
    is_int(harness.blessings[2], 0, "the agent does not bless it");
    is_int(shard_askable(&harness.shard), 0, "however long that lasts");
    ok(strstr(harness.reasons[2], "--bless c") != NULL, "NODES names the next step: %s", harness.reasons[2]);
    node_trust_bless(&harness.shard, 2, harness.now_ns);
    is_int(harness.blessings[2], 1, "an operator can bless it");
    probed(2, blessed_node);
    is_int(shard_askable(&harness.shard), 7, "then all nodes vote");
}

/* This agent starts after the node of another fleet has restarted with its data: the epoch names a process
 * that is gone, and the fleet. */
static void test_foreign_restarted(void) {
    struct probe stale = marked_node;

    stale.rival = stale.foreign = true;
    stale.others = "others";
    shard_harness_begin(3);
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "gone", harness.now_ns);
    node_trust_ready(&harness.shard, 2, harness.now_ns);
    probed(2, stale);
    is_int(shard_askable(&harness.shard), 0,
           "rule 10: the epoch of a former process bars the other nodes like one in force");
    pass_ms(2 * SECOND_MS);
    probed(2, marked_node);
    is_int(shard_askable(&harness.shard), 0, "also when the node loses it");
    node_trust_bless(&harness.shard, 2, harness.now_ns);
    probed(2, blessed_node);
    is_int(shard_askable(&harness.shard), 7, "after an operator's bless command all nodes vote");
}

/* The node has kept its data, and agents of both fleets renew its blessing: the other fleet is first. */
static void test_foreign_is_renewed(void) {
    const struct probe heir = {.heir = true};

    shard_harness_begin(3);
    node_trust_gone(&harness.shard, 0, NODE_STATE_FAILED, "gone", harness.now_ns);
    node_trust_ready(&harness.shard, 0, harness.now_ns);
    probed(0, heir);
    is_int(harness.blessings[0], 1, "a node that restarted with its data is blessed at once");
    probed(0, of_other_fleet());
    pass_ms(1100);
    is_int(harness.amendments[0], 0, "rule 10: that does not take over a node of another fleet");
    ok(!votes(1), "it bars the other nodes, as before");
}

static void test_foreign_is_not_read(void) {
    shard_harness_begin(3);
    lose_data(0);
    probed(1, epoch_of(MINUTE_MS, 0));
    probed(2, of_other_fleet());
    is_int(quarantine_ms(0), quarantine_for(DAY_MS),
           "rule 10: a node of another fleet does not count as read");
}

static void test_rival(void) {
    struct probe rival = marked_node;

    rival.rival = true;
    rival.others = other_fleet;
    rival.others_length = sizeof(other_fleet) - 1;
    shard_harness_begin(3);
    lose_data(0);
    trusted_nodes_answer();
    pass_ms(5000);
    probed(0, rival);
    is_int(quarantine_ms(0), quarantine_for(MINUTE_MS),
           "with enough epochs of the own fleet, another fleet's mark does not matter");

    begin_without_epochs(3);
    pass_ms(SECOND_MS);
    for (unsigned i = 0; i < 2; i++)
        probed(i, marked_node);
    probed(2, rival);
    is_int(quarantine_ms(0), quarantine_for(DAY_MS),
           "rule 10: a node with another fleet's mark does not count as read");
    is_int(quarantine_ms(2), SECOND_MS + 11100,
           "nor is it blessed until the other fleet has been gone for a quarantine");
}

static void test_elsewhere(void) {
    struct probe other = epoch_of(MINUTE_MS, 0);

    shard_harness_begin(3);
    other.elsewhere = 1;
    lose_data(0);
    probed(1, epoch_of(MINUTE_MS, 0));
    probed(2, other);
    is_int(quarantine_ms(0), -1,
           "a new server is not blessed while other agents reach its name at another address");
    for (unsigned i = 0; i < 40; i++) {
        harness.now_ns += 100 * NS_PER_MS;
        shard_tick(&harness.shard, harness.now_ns);
        for (unsigned node = 0; node < 3; node++)
            if (harness.shard.nodes[node].probing)
                probed(node, node == 0 ? marked_node : other);
    }
    ok(strstr(harness.reasons[0], "at another address") != NULL, "NODES names the reason");
    node_trust_bless(&harness.shard, 0, harness.now_ns);
    is_int(harness.blessings[0], 1, "an operator can bless it");
}

int main(void) {
    test_longest_of_other_fleet();
    test_read_before();
    test_unreachable();
    test_all_lose_data();
    test_rival_at_the_last_moment();
    test_inherits_unrested();
    test_remembers_epochs();
    test_marks_read_late();
    test_marks_at_once();
    test_single_node();
    test_longer_mark_at_blessing();
    test_unrested();
    test_raised();
    test_raised_in_vain();
    test_shortened();
    test_veto();
    test_operator_shortens();
    test_epoch_younger_than_round();
    test_longer_lease_resumed();
    test_longer_lease_below_proposal();
    test_foreign();
    test_foreign_loses_data();
    test_foreign_restarted();
    test_foreign_is_renewed();
    test_foreign_is_not_read();
    test_rival();
    test_elsewhere();
    return done_testing();
}
