/* Rule 10: which fleet a node votes for. */

#include <string.h>

#include "core/quarantine.h"
#include "epoch-harness.h"
#include "tap.h"

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
    is_int(harness.node_states[0], NODE_STATE_VOTING,
           "all nodes vote when the last one is of the agent's fleet");
    epoch_changes(2, of_other_fleet());
    node_trust_bless(&harness.shard, 2, harness.now_ns);
    is_int(harness.amendments[2], 1, "an operator's bless command moves it to the agent's fleet");
    probed(2, blessed_node);
    is_int(shard_askable(&harness.shard), 7, "the node votes after it was moved");
}

/* Time passes, and this node is silent from its next probe on. */
static void node_hangs(unsigned node) {
    harness.shard.nodes[node].probe_ns = harness.now_ns;
    for (unsigned i = 0; i < 11; i++) {
        harness.now_ns += 100 * NS_PER_MS;
        shard_tick(&harness.shard, harness.now_ns);
        for (unsigned other = 0; other < harness.shard.config.nodes; other++)
            if (other != node && harness.shard.nodes[other].trust == NODE_TRUSTED &&
                harness.shard.nodes[other].probing)
                probed(other, blessed_node);
    }
}

/* A node hangs while all are barred, and the bar ends before the node's connection is closed. */
static void test_silent_while_barred(void) {
    static const char silent[] = "has not answered for 1000 ms";

    shard_harness_begin(3);
    hold(1);
    epoch_changes(2, of_other_fleet());
    command(COMMAND_RELEASE, 1);
    is_int(count_sent(OPERATION_RELEASE), 0, "a release is owed to nodes that are barred");
    node_hangs(0);
    is_string(harness.reasons[0], silent, "one of them hangs");
    node_trust_bless(&harness.shard, 2, harness.now_ns);
    probed(2, blessed_node);
    is_int(last_sent(OPERATION_RELEASE)->nodes & 1, 0,
           "when the bar ends, the node that hangs is not asked");
    ok(harness.node_states[0] == NODE_STATE_FAILED && strcmp(harness.reasons[0], silent) == 0,
       "nor does it vote");
    probed(0, blessed_node);
    is_int(last_sent(OPERATION_RELEASE)->nodes, 1, "it gets its release when it answers");
    is_int(harness.node_states[0], NODE_STATE_VOTING, "and votes");
}

/* The bar begins while a node hangs, and outlasts that. */
static void test_barred_while_silent(void) {
    shard_harness_begin(3);
    hold(1);
    command(COMMAND_RELEASE, 1);
    const struct sent release = *last_sent(OPERATION_RELEASE);
    vote(1, &release, VOTE_YES);
    vote(2, &release, VOTE_YES);
    pass_ms(1001);
    epoch_changes(2, of_other_fleet());
    is_string(harness.reasons[0], "has not answered for 1000 ms",
              "a node that hangs is not asked in any case");
    vote(0, &release, VOTE_YES);
    ok(harness.node_states[0] == NODE_STATE_FAILED && strcmp(harness.reasons[0], harness.reasons[1]) == 0,
       "when it answers, it is barred like the others: %s", harness.reasons[0]);
    epoch_changes(2, blessed_node);
    is_int(shard_askable(&harness.shard), 7, "all vote after the bar");
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
    is_int(shard_askable(&harness.shard), 0, "the nodes stay barred, however long that lasts");
    ok(strstr(harness.reasons[2], "--bless c") != NULL, "NODES names the next step: %s", harness.reasons[2]);
    node_trust_bless(&harness.shard, 2, harness.now_ns);
    is_int(harness.blessings[2], 1, "an operator can bless it");
    probed(2, blessed_node);
    is_int(shard_askable(&harness.shard), 7, "all nodes vote after the blessing");
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
    is_int(shard_askable(&harness.shard), 0, "the nodes stay barred when that node loses its epoch");
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
    ok(!votes(1), "the node of the other fleet bars the other nodes, as before");
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

/* Each node notes the addresses at which an agent reaches the nodes of its fleet, for other agents. */
static void test_known(void) {
    struct probe unrested = blessed_node;

    shard_harness_begin(3);
    epoch_changes(0, blessed_node);
    is_int(harness.known[0], 7, "a node notes the addresses of all nodes that vote");
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "down", harness.now_ns);
    epoch_changes(0, blessed_node);
    is_int(harness.known[0], 3,
           "rule 10: not that of an unreachable node: another server may have the address by now");
    node_joins(2);
    harness.shard.config.quarantine = false;
    unrested.rested = false;
    epoch_changes(1, unrested);
    ok(votes(1), "an agent with quarantine = no counts a blessing without a quarantine");
    epoch_changes(0, blessed_node);
    is_int(harness.known[0], 5, "but that does not show other agents that the node is of their fleet");
}

/* The agents that reached the name elsewhere have been mended. */
static void test_elsewhere_until_now(void) {
    struct probe other = epoch_of(MINUTE_MS, 0);

    shard_harness_begin(3);
    other.elsewhere = 1;
    lose_data(0);
    probed(1, epoch_of(MINUTE_MS, 0));
    probed(2, other);
    harness.now_ns += 500 * NS_PER_MS;
    epoch_changes(2, other);
    instant_ns last_ns = harness.now_ns;
    harness.now_ns += 500 * NS_PER_MS;
    epoch_changes(2, epoch_of(MINUTE_MS, 0));
    is_int(quarantine_until_ns(&harness.shard, 0) - last_ns, quarantine_for(MINUTE_MS) * NS_PER_MS,
           "rule 10: their last leases may have begun as late as they were last seen");
}

int main(void) {
    test_foreign();
    test_silent_while_barred();
    test_barred_while_silent();
    test_foreign_loses_data();
    test_foreign_restarted();
    test_foreign_is_renewed();
    test_foreign_is_not_read();
    test_rival();
    test_elsewhere();
    test_known();
    test_elsewhere_until_now();
    return done_testing();
}
