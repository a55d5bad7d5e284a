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

/* A host that has lost its power does not close its connections. */
static void test_silent_again(void) {
    shard_harness_begin(1);
    for (unsigned i = 1; i <= 3; i++) {
        contend(i, false);
        pass_ms(4990);
        is_int(harness.cuts, i - 1, "a silent node has five seconds");
        pass_ms(11);
        is_int(harness.cuts, i, "then its connection is closed, each time");
        node_trust_gone(&harness.shard, 0, NODE_STATE_CONNECTING, "cut", harness.now_ns);
        node_joins(0);
    }
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
    node_trust_refuses(&harness.shard, 1, NULL, harness.now_ns);
    is_int(harness.node_states[1], NODE_STATE_VOTING, "a node that refuses nothing votes on");
    node_trust_refuses(&harness.shard, 1, full, harness.now_ns);
    ok(harness.node_states[1] == NODE_STATE_FAILED && strcmp(reason_of(1), full) == 0,
       "a node that refuses keys has failed, with its reason");
    node_trust_refuses(&harness.shard, 1, "MISCONF other", harness.now_ns);
    is_string(reason_of(1), full, "which is reported once");
    node_trust_refuses(&harness.shard, 1, NULL, harness.now_ns);
    ok(harness.node_states[1] == NODE_STATE_VOTING && reason_of(1)[0] == '\0', "until it takes keys again");
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "closed", harness.now_ns);
    node_trust_refuses(&harness.shard, 2, full, harness.now_ns);
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
    node_trust_refuses(&harness.shard, 2, "is full", harness.now_ns);
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
    node_trust_refuses(&harness.shard, 2, NULL, harness.now_ns);
    ok(harness.node_states[2] == NODE_STATE_VOTING && reason_of(2)[0] == '\0', "until it takes keys");
}

/* A node refuses this request of a lease with the name "x". */
static void refuse(const struct sent *sent, const char *error) {
    const struct vote vote = {.kind = VOTE_REFUSED, .text = error, .text_length = strlen(error)};

    vote_with(2, sent->ticket, &vote);
}

static void begin_refusing(const char *error) {
    shard_harness_begin(3);
    hold(1);
    const struct sent extension = pass_to_extension();
    vote(0, &extension, VOTE_YES);
    vote(1, &extension, VOTE_YES);
    refuse(&extension, error);
}

static bool is_failed(const char *reason) {
    return harness.node_states[2] == NODE_STATE_FAILED && strcmp(reason_of(2), reason) == 0;
}

/* A request for a lease, which the node refuses, and the lease's release. */
static void refuse_lease(uint64_t request, const char *error) {
    struct sent sent;

    contend(request, false);
    sent = *last_sent(OPERATION_ACQUIRE);
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    refuse(&sent, error);
    command(COMMAND_RELEASE, request);
    sent = *last_sent(OPERATION_RELEASE);
    for (unsigned node = 0; node < 3; node++)
        if (sent.nodes & node_set_of(node))
            vote(node, &sent, VOTE_YES);
}

/* Too few replicas, say: INFO does not show when that ends. */
static void test_refusing_writes(void) {
    static const char refusal[] = "NOREPLICAS Not enough good replicas to write.";

    shard_harness_begin(3);
    refuse_lease(1, refusal);
    ok(is_failed(refusal), "a node that refuses all writes has failed, with its reason");
    pass_ms(NODE_REFUSAL_MS - 1);
    node_trust_refuses(&harness.shard, 2, NULL, harness.now_ns);
    ok(is_failed(refusal), "an inspection soon after that does not mean that it takes writes");
    refuse_lease(2, refusal);
    pass_ms(1);
    node_trust_refuses(&harness.shard, 2, NULL, harness.now_ns);
    ok(is_failed(refusal), "nor while it refuses more of them");
    pass_ms(NODE_REFUSAL_MS - 1);
    node_trust_refuses(&harness.shard, 2, NULL, harness.now_ns);
    is_int(harness.node_states[2], NODE_STATE_VOTING, "later it does");
}

static void test_takes_writes_again(void) {
    static const char refusal[] = "READONLY You can't write against a read only replica.";
    struct sent sent;

    begin_refusing(refusal);
    ok(is_failed(refusal), "a node that refuses all writes");
    command(COMMAND_RELEASE, 1);
    sent = *last_sent(OPERATION_RELEASE);
    vote(2, &sent, VOTE_YES);
    ok(is_failed(refusal), "may release a key that it has not");
    contend(2, false);
    sent = *last_sent(OPERATION_ACQUIRE);
    vote(2, &sent, VOTE_FOREIGN);
    ok(is_failed(refusal), "or have another's");
    contend(3, false);
    sent = *last_sent(OPERATION_ACQUIRE);
    vote(2, &sent, VOTE_YES);
    is_int(harness.node_states[2], NODE_STATE_VOTING, "it votes when it sets a key");
    begin_refusing(refusal);
    command(COMMAND_RELEASE, 1);
    contend(4, false);
    sent = *last_sent(OPERATION_ACQUIRE);
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    command(COMMAND_RELEASE, 4);
    vote(2, &sent, VOTE_YES);
    is_int(harness.node_states[2], NODE_STATE_VOTING, "also for a lease that has been released since");
    begin_refusing(refusal);
    sent = *last_sent(OPERATION_EXTEND);
    while (last_sent(OPERATION_EXTEND)->ticket == sent.ticket)
        pass_ms(1);
    sent = *last_sent(OPERATION_EXTEND);
    vote(2, &sent, VOTE_REPAIRED);
    is_int(harness.node_states[2], NODE_STATE_VOTING, "or sets one again");
    begin_refusing("OOM command not allowed");
    sent = *last_sent(OPERATION_EXTEND);
    vote(2, &sent, VOTE_YES);
    is_int(harness.node_states[2], NODE_STATE_FAILED, "a full node extends keys, and is full all the same");
    refuse(&sent, refusal);
    vote(2, &sent, VOTE_YES);
    is_int(harness.node_states[2], NODE_STATE_FAILED, "also one that refused all meanwhile");
}

/* Errors of one request. */
static void test_refused_request(void) {
    static const char *const errors[] = {"NOPERM No permissions to access a key",
                                         "BUSY Redis is busy running a script.",
                                         "WRONGTYPE Operation against a key", "ERR READONLY x", ""};

    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        begin_refusing(errors[i]);
        ok(harness.node_states[2] == NODE_STATE_VOTING, "the node votes on after: %s", errors[i]);
    }
}

static void test_refusal_words(void) {
    static const struct {
        const char *error;
        enum node_refusal refusal;
    } cases[] = {
        {"OOM command", NODE_REFUSES_KEYS},
        {"MISCONF x", NODE_REFUSES_KEYS},
        {"NOREPLICAS x", NODE_REFUSES_WRITES},
        {"@user_script: 35: -NOREPLICAS x", NODE_REFUSES_WRITES},
        {"@user_script: 35: -OOM x", NODE_REFUSES_KEYS},
        {"@user_script", NODE_REFUSES_REQUEST},
        {"READONLY x", NODE_REFUSES_WRITES},
        {"MASTERDOWN x", NODE_REFUSES_WRITES},
        {"LOADING x", NODE_REFUSES_WRITES},
        {"OOM", NODE_REFUSES_REQUEST},
        {"OOMX ", NODE_REFUSES_REQUEST},
        {"ERR OOM ", NODE_REFUSES_REQUEST},
        {"READONL", NODE_REFUSES_REQUEST},
        {"", NODE_REFUSES_REQUEST},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ok(node_refusal_of(cases[i].error, strlen(cases[i].error)) == cases[i].refusal,
           "what a node refuses with: %s", cases[i].error);
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
    node_note_trouble(&node, "ERR \x1b[31m\n<0>\a\xff~\x7f\xc2\x9b\xc3\xa9\xc3", 22);
    is_string(node.trouble, "ERR ?[31m?<0>??~??\xc3\xa9?",
              "without control characters, and what is no UTF-8");
}

int main(void) {
    test_probed_along();
    test_stalled_node();
    test_silent_again();
    test_quarantine();
    test_mark_lost();
    test_unconfirmed_mark();
    test_mark_outlives_connection();
    test_blessed_by_others();
    test_node_states();
    test_operator_blesses();
    test_refusing();
    test_refusing_and_late();
    test_refusing_writes();
    test_takes_writes_again();
    test_refused_request();
    test_refusal_words();
    test_trouble_text();
    return done_testing();
}
