/* Trust in the nodes: silence, probes, marks and quarantines. test-quarantine has the length of a
 * quarantine. Each check names the rule that it guards. */

#include "shard-harness.h"
#include "tap.h"

static unsigned count_probing(void) {
    unsigned count = 0;

    for (unsigned i = 0; i < harness.shard.config.nodes; i++)
        count += harness.shard.nodes[i].probing ? 1 : 0;
    return count;
}

static void test_probed_along(void) {
    shard_harness_begin(3);
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "closed", harness.now_ns);
    pass_ms(1000); /* then each node has noted the others */
    pass_ms(8400);
    node_trust_probe_early(&harness.shard, 1500 * NS_PER_MS, harness.now_ns);
    is_int(count_probing(), 0, "a probe is not sent much before it is due");
    pass_ms(200);
    node_trust_probe_early(&harness.shard, 1500 * NS_PER_MS, harness.now_ns);
    is_int(count_probing(), 2, "but with other requests of the nodes, where they can be asked");
    is_int(shard_due_ns(&harness.shard) - harness.now_ns, NODE_STALLED_MS * NS_PER_MS,
           "its answer is awaited like any other");
}

static void test_stalled_node(void) {
    shard_harness_begin(3);
    hold(1);
    command(COMMAND_RELEASE, 1);
    struct sent release = *last_sent(OPERATION_RELEASE);
    vote(0, &release, VOTE_YES);
    vote(1, &release, VOTE_YES);
    pass_ms(1001);
    contend(2, false);
    struct sent acquire = *last_sent(OPERATION_ACQUIRE);
    vote(0, &acquire, VOTE_YES);
    vote(1, &acquire, VOTE_YES);
    command(COMMAND_RELEASE, 2);
    struct sent second_release = *last_sent(OPERATION_RELEASE);
    vote(0, &second_release, VOTE_YES);
    vote(1, &second_release, VOTE_YES);
    is_int(acquire.nodes, 0x3, "a node that is silent for a second is no longer asked");
    pass_ms(4100);
    is_int(harness.cuts, 1, "after five seconds its connection is closed");
    vote(2, &release, VOTE_YES);
    contend(3, false);
    is_int(last_sent(OPERATION_ACQUIRE)->nodes, 0x7, "an answer brings it back");
}

/* The answer to an attempt shows that a trusted node lost its memory. */
static void lose_memory(unsigned node) {
    contend(9, false);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    vote(node, &sent, VOTE_EPOCH);
}

static void probed(unsigned node, const struct probe *probe) {
    node_trust_probed(&harness.shard, node, probe, harness.now_ns);
}

/* Time passes, and each probe finds our mark. */
static void pass_marked_ms(int64_t ms) {
    unsigned before = harness.probes[0];

    trusted_nodes_answer();
    for (; ms > 0; ms -= 500) {
        pass_ms(ms < 500 ? ms : 500);
        if (harness.probes[0] != before)
            probed(0, &marked_node);
        before = harness.probes[0];
    }
}

static void test_quarantine(void) {
    shard_harness_begin(3);
    lose_memory(0);
    ok(harness.probes[0] == 2 && harness.leaves[0],
       "rule 10: a node whose epoch has changed is probed and marked at once");
    probed(0, &marked_node);
    ok(!(shard_askable(&harness.shard) & 1), "a quarantined node is not asked");
    trusted_nodes_answer();
    instant_ns until_ns = node_trust_until_ns(&harness.shard, 0);
    is_int((until_ns - harness.now_ns) / NS_PER_MS, 61602, "the end of its quarantine is known");
    pass_marked_ms(61500);
    is_int(node_trust_until_ns(&harness.shard, 0), until_ns,
           "the end of the quarantine stays while the node has the mark");
    is_int(harness.blessings[0], 0,
           "rule 10: no blessing before max_ttl, its drift and a margin have passed");
    pass_ms(150);
    is_int(harness.blessings[0], 1, "after the quarantine the node is blessed");
    probed(0, &blessed_node);
    ok(shard_askable(&harness.shard) & 1, "a blessed node votes");
    is_int(node_trust_until_ns(&harness.shard, 0), INSTANT_NEVER,
           "a voting node has no end of a quarantine");
}

static void test_mark_lost(void) {
    shard_harness_begin(3);
    lose_memory(0);
    uint32_t first = harness.marks[0];
    probed(0, &marked_node);
    pass_marked_ms(60400);
    pass_ms(1000);
    probed(0, &new_node);
    pass_ms(1000);
    ok(harness.leaves[0] && harness.marks[0] != first, "rule 10: a mark that is gone is left again");
    probed(0, &marked_node);
    pass_marked_ms(5000);
    is_int(harness.blessings[0], 0, "and the quarantine begins anew");
}

static void test_unconfirmed_mark(void) {
    shard_harness_begin(3);
    lose_memory(0);
    uint32_t first = harness.marks[0];
    node_trust_gone(&harness.shard, 0, NODE_STATE_CONNECTING, "cut", harness.now_ns);
    pass_ms(100000);
    node_trust_ready(&harness.shard, 0, harness.now_ns);
    ok(harness.leaves[0] && harness.marks[0] != first, "rule 10: an unconfirmed mark proves nothing");
    probed(0, &marked_node);
    pass_marked_ms(5000);
    is_int(harness.blessings[0], 0, "the quarantine begins with the new one");
}

static void test_mark_outlives_connection(void) {
    shard_harness_begin(3);
    lose_memory(0);
    uint32_t first = harness.marks[0];
    probed(0, &marked_node);
    node_trust_gone(&harness.shard, 0, NODE_STATE_CONNECTING, "cut", harness.now_ns);
    pass_ms(100000);
    node_trust_ready(&harness.shard, 0, harness.now_ns);
    ok(!harness.leaves[0] && harness.marks[0] == first, "a confirmed mark is read again after a reconnect");
    trusted_nodes_answer();
    probed(0, &marked_node);
    is_int(harness.blessings[0], 1, "if the mark is there, the quarantine counts from it");
}

static void test_blessed_by_others(void) {
    shard_harness_begin(3);
    lose_memory(0);
    probed(0, &marked_node);
    pass_ms(1100);
    is_int(harness.probes[0], 3, "a node in quarantine is probed each second");
    probed(0, &blessed_node);
    ok(shard_askable(&harness.shard) & 1, "another agent's blessing counts");
}

static void is_reported(enum node_state node_state, const char *reason, const char *why) {
    is_int(harness.node_states[0], node_state, why);
    is_string(harness.reasons[0], reason, "with the reason");
}

static void test_node_states(void) {
    shard_harness_begin(3);
    node_trust_gone(&harness.shard, 0, NODE_STATE_CONNECTING, "refused", harness.now_ns);
    is_reported(NODE_STATE_CONNECTING, "refused", "a node out of reach is reported");
    node_trust_ready(&harness.shard, 0, harness.now_ns);
    is_reported(NODE_STATE_PROBING, "being examined", "a node that is back is examined again");
    probed(0, &blessed_node);
    is_reported(NODE_STATE_VOTING, "", "a node that is votes");
}

static void test_operator_blesses(void) {
    shard_harness_begin(3);
    lose_memory(0);
    probed(0, &marked_node);
    node_trust_bless(&harness.shard, 0, harness.now_ns);
    is_int(harness.blessings[0], 1, "an operator may bless before the end");

    shard_harness_begin(3);
    lose_memory(0);
    node_trust_bless(&harness.shard, 0, harness.now_ns);
    probed(0, &marked_node);
    is_int(harness.blessings[0], 1, "also while the mark is on its way");

    shard_harness_begin(3);
    lose_memory(0);
    probed(0, &marked_node);
    pass_ms(1100);
    node_trust_bless(&harness.shard, 0, harness.now_ns);
    probed(0, &marked_node);
    is_int(harness.blessings[0], 1, "or a probe");

    shard_harness_begin(3);
    lose_memory(0);
    node_trust_bless(&harness.shard, 0, harness.now_ns);
    node_trust_gone(&harness.shard, 0, NODE_STATE_CONNECTING, "cut", harness.now_ns);
    node_trust_ready(&harness.shard, 0, harness.now_ns);
    probed(0, &marked_node);
    is_int(harness.blessings[0], 0, "a bless command ends with the connection");
}

static const char *reason_of(unsigned node) {
    return harness.reasons[node];
}

/* Keys are refused: the node does not count as one that votes, until it takes one. */
static void test_refusing(void) {
    static const char full[] = "OOM command not allowed";

    shard_harness_begin(3);
    node_trust_refuses(&harness.shard, 1, NULL);
    is_int(harness.node_states[1], NODE_STATE_VOTING, "a node that refuses nothing votes on");
    node_trust_refuses(&harness.shard, 1, full);
    ok(harness.node_states[1] == NODE_STATE_FAILED && strcmp(reason_of(1), full) == 0,
       "a node that refuses keys has failed, with its reason");
    node_trust_refuses(&harness.shard, 1, "MISCONF other");
    is_string(reason_of(1), full, "which is reported once");
    node_trust_refuses(&harness.shard, 1, NULL);
    ok(harness.node_states[1] == NODE_STATE_VOTING && reason_of(1)[0] == '\0', "until it takes keys again");
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "closed", harness.now_ns);
    node_trust_refuses(&harness.shard, 2, full);
    is_string(reason_of(2), "closed", "a node that is not connected refuses nothing");
}

static void is_full(const char *why) {
    ok(harness.node_states[2] == NODE_STATE_FAILED && strcmp(reason_of(2), "is full") == 0, "%s: %s", why,
       reason_of(2));
}

/* A full node hangs, or is slow, for a while. */
static void test_refusing_and_late(void) {
    shard_harness_begin(3);
    hold(1);
    node_trust_refuses(&harness.shard, 2, "is full");
    command(COMMAND_RELEASE, 1);
    struct sent release = *last_sent(OPERATION_RELEASE);
    vote(0, &release, VOTE_YES);
    vote(1, &release, VOTE_YES);
    pass_ms(1001);
    is_string(reason_of(2), "has not answered for 1000 ms", "a full node hangs");
    vote(2, &release, VOTE_YES);
    is_full("when it answers, it is full");
    for (unsigned i = 0; i < 4; i++) {
        contend(2 + i, false);
        release = *last_sent(OPERATION_ACQUIRE);
        vote(0, &release, VOTE_YES);
        vote(1, &release, VOTE_YES);
        if (i == 2)
            vote(2, &release, VOTE_FREE);
    }
    pass_ms(900);
    vote(2, &release, VOTE_FREE);
    pass_ms(700);
    ok(harness.shard.nodes[2].slow, "it is slow");
    is_full("which is not what it is reported for");
    while (harness.shard.nodes[2].outstanding > 0)
        vote(2, &release, VOTE_FREE);
    pass_ms(PROBE_MS + 100);
    ok(!harness.shard.nodes[2].slow, "and prompt again");
    is_full("it is still full");
    node_trust_refuses(&harness.shard, 2, NULL);
    ok(harness.node_states[2] == NODE_STATE_VOTING && reason_of(2)[0] == '\0', "until it takes keys");
}

static void test_refusal_words(void) {
    ok(node_refuses_keys("OOM command", 11) && node_refuses_keys("MISCONF x", 9), "errors of a full node");
    ok(!node_refuses_keys("OOM", 3) && !node_refuses_keys("OOMX ", 5) && !node_refuses_keys("ERR OOM ", 8) &&
           !node_refuses_keys("", 0),
       "no others");
}

static void test_trouble_text(void) {
    enum { ROOM = NODE_TROUBLE_BYTES - 1 };
    char text[NODE_TROUBLE_BYTES + 8];
    struct node node = {0};

    memset(text, 'x', sizeof(text));
    node_note_trouble(&node, text, ROOM);
    ok(strlen(node.trouble) == ROOM && node.trouble[ROOM - 1] == 'x', "the longest text that has room");
    node_note_trouble(&node, text, ROOM + 1);
    is_int((long long) strlen(node.trouble), NODE_TROUBLE_BYTES / 2 + 4, "a longer one is cut");
    is_string(node.trouble + NODE_TROUBLE_BYTES / 2, " ...", "if it has no blank,");
    text[ROOM - 8] = ' ';
    node_note_trouble(&node, text, ROOM + 1);
    is_string(node.trouble + ROOM - 9, "x ...", "or at the last blank that leaves room for the dots");
}

int main(void) {
    test_probed_along();
    test_stalled_node();
    test_quarantine();
    test_mark_lost();
    test_unconfirmed_mark();
    test_mark_outlives_connection();
    test_blessed_by_others();
    test_node_states();
    test_operator_blesses();
    test_refusing();
    test_refusing_and_late();
    test_refusal_words();
    test_trouble_text();
    return done_testing();
}
