/* Rule 10: epochs of agents with different max_ttl: raised, shortened, younger than a round or a lease. */

#include <string.h>

#include "epoch-harness.h"
#include "tap.h"

static void test_raised(void) {
    shard_harness_begin(3);
    epoch_changes(0, epoch_of(SECOND_MS, 1));
    ok(!votes(0), "an epoch for shorter leases than the agent's does not count");
    is_int(harness.amendments[0], 1,
           "the agent raises its max_ttl at once, since the node has lost nothing");
    is_int(harness.amended[0].max_ttl_ms, MINUTE_MS, "to the agent's max_ttl");
    ok(!node_trust_holds(&harness.shard, 0), "until then requests do not carry that epoch");
    probed(0, epoch_of(MINUTE_MS, 2));
    ok(node_trust_holds(&harness.shard, 0), "requests carry the raised epoch");
    ok(votes(0), "the node votes with the raised epoch");
    epoch_changes(0, epoch_of(DAY_MS, 3));
    ok(votes(0), "an epoch for longer leases counts");
    is_int(harness.amendments[0], 1, "an epoch for longer leases is not changed");
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
    ok(votes(0), "the node votes during a proposal");
    pass_with_epoch(proposed, 120);
    is_int(harness.amendments[0], 1, "rule 10: the proposal waits until all longer leases have ended");
    pass_with_epoch(proposed, 10);
    is_int(harness.amendments[0], 2, "after a quarantine the shorter max_ttl is set");
    ok(harness.amended[0].max_ttl_ms == MINUTE_MS && harness.amended[0].proposed_ms == 0,
       "the new max_ttl is the proposed one");
    probed(0, epoch_of(MINUTE_MS, 3));
    ok(votes(0), "the node votes with the shortened epoch");
    pass_with_epoch(epoch_of(MINUTE_MS, 3), 120);
    is_int(harness.amendments[0], 2, "which stays");
}

/* Each node has its epoch, until an agent amends or the time is over. */
static void pass_with_epochs(const struct probe epochs[3], int64_t seconds) {
    const unsigned *amendments = harness.amendments;
    unsigned before = amendments[0] + amendments[1] + amendments[2];

    for (int64_t i = 0; i < seconds; i++) {
        harness.now_ns += NS_PER_S;
        shard_tick(&harness.shard, harness.now_ns);
        if (amendments[0] + amendments[1] + amendments[2] != before)
            return;
        for (unsigned node = 0; node < 3; node++)
            if (harness.shard.nodes[node].probing)
                probed(node, epochs[node]);
    }
}

/* An agent that needs longer leases loses a vote until it has withdrawn the proposal. */
static void test_withdrawn(void) {
    struct probe epochs[3];

    shard_harness_begin(3);
    for (unsigned i = 0; i < 3; i++)
        epoch_changes(i, epochs[i] = epoch_of(2 * MINUTE_MS, 1));
    pass_with_epochs(epochs, 130);
    is_int(harness.amendments[0], 1, "a shorter max_ttl is proposed on one node first");
    epochs[0] = epoch_of(2 * MINUTE_MS, 2);
    epochs[0].proposed_ms = MINUTE_MS;
    probed(0, epochs[0]);
    pass_with_epochs(epochs, 12);
    ok(harness.amendments[1] == 0 && harness.amendments[2] == 0,
       "on the others when agents with longer leases had time to object");
    epochs[0] = epoch_of(2 * MINUTE_MS, 3);
    pass_with_epochs(epochs, 3500);
    ok(harness.amendments[0] == 1 && harness.amendments[1] == 0 && harness.amendments[2] == 0,
       "after a withdrawal no node gets a proposal for an hour");
    pass_with_epochs(epochs, 120);
    ok(harness.amendments[0] == 2 && harness.amended[0].proposed_ms == MINUTE_MS, "then the first one");

    shard_harness_begin(3);
    epoch_changes(0, epochs[0] = epoch_of(2 * MINUTE_MS, 1));
    epoch_changes(0, epochs[0] = epoch_of(2 * MINUTE_MS, 3));
    for (unsigned i = 1; i < 3; i++)
        epochs[i] = blessed_node;
    pass_with_epochs(epochs, 3500);
    is_int(harness.amendments[0], 0, "also when the proposal was another agent's, and not seen here");

    shard_harness_begin(3);
    for (unsigned i = 0; i < 3; i++)
        epoch_changes(i, epochs[i] = epoch_of(2 * MINUTE_MS, 1));
    pass_with_epochs(epochs, 130);
    epochs[0] = epoch_of(2 * MINUTE_MS, 2);
    epochs[0].proposed_ms = MINUTE_MS;
    probed(0, epochs[0]);
    pass_with_epochs(epochs, 40);
    ok(harness.amendments[1] == 1 && harness.amendments[2] == 0,
       "a proposal that nobody withdraws is followed by that on the next node");

    static const char *const names[] = {"c", "a", "b"};
    shard_harness_begin_named(3, names);
    for (unsigned i = 0; i < 3; i++)
        epoch_changes(i, epochs[i] = epoch_of(2 * MINUTE_MS, 1));
    pass_with_epochs(epochs, 130);
    is_int(harness.amendments[1], 1, "in the order of their names, whatever that of the configuration");
}

/* A server restarts with its data, and has its epoch again. */
static void test_continued(void) {
    struct probe epochs[3] = {epoch_of(2 * MINUTE_MS, 1), blessed_node, blessed_node}, restarted = new_node;

    shard_harness_begin(3);
    restarted.max_ttl_ms = 2 * MINUTE_MS;
    epoch_changes(0, epochs[0]);
    epoch_changes(0, restarted);
    epoch_changes(0, epochs[0] = epoch_of(2 * MINUTE_MS, 2));
    pass_with_epochs(epochs, 130);
    is_int(harness.amendments[0], 1, "the next process of a server that has its epoch is no withdrawal");
}

static void test_veto(void) {
    struct probe proposed = epoch_of(MINUTE_MS, 2);

    shard_harness_begin(3);
    proposed.proposed_ms = SECOND_MS;
    epoch_changes(0, proposed);
    ok(!node_trust_holds(&harness.shard, 0) && node_trust_holds(&harness.shard, 1),
       "rule 10: requests of the same turn, made before, do not carry an epoch that is too short");
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

static void test_operator_shortens_during_a_probe(void) {
    shard_harness_begin(3);
    epoch_changes(0, epoch_of(DAY_MS, 1));
    while (!harness.shard.nodes[0].probing) {
        harness.now_ns += NS_PER_MS;
        shard_tick(&harness.shard, harness.now_ns);
    }
    node_trust_bless(&harness.shard, 0, harness.now_ns);
    is_int(harness.amendments[0], 0, "an operator's bless command waits for the probe that is under way");
    probed(0, epoch_of(DAY_MS, 1));
    is_int(harness.amendments[0], 1, "and shortens the epoch then");
    is_int(harness.amended[0].max_ttl_ms, MINUTE_MS, "to the agent's max_ttl");
    probed(0, epoch_of(MINUTE_MS, 2));
    epoch_changes(0, epoch_of(DAY_MS, 3));
    is_int(harness.amendments[0], 1, "another agent's longer leases after that stay");

    shard_harness_begin(3);
    epoch_changes(0, epoch_of(DAY_MS, 1));
    harness.shard.nodes[0].probe_ns = harness.now_ns;
    shard_tick(&harness.shard, harness.now_ns);
    node_trust_bless(&harness.shard, 0, harness.now_ns);
    probed(0, epoch_of(MINUTE_MS, 2));
    epoch_changes(0, epoch_of(DAY_MS, 3));
    is_int(harness.amendments[0], 0, "also when another agent has shortened the epoch before the probe");
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
    ok(last_sent(OPERATION_ADOPT) != NULL, "with raised epochs the lease is resumed");
}

int main(void) {
    test_raised();
    test_raised_in_vain();
    test_shortened();
    test_withdrawn();
    test_continued();
    test_veto();
    test_operator_shortens();
    test_operator_shortens_during_a_probe();
    test_epoch_younger_than_round();
    test_longer_lease_below_proposal();
    test_longer_lease_resumed();
    return done_testing();
}
