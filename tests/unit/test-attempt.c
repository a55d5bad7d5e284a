/* Attempts to acquire a lease: the votes of a majority, and what a failed attempt leaves. Each check names
 * the rule that it guards. */

#include "shard-harness.h"
#include "tap.h"

static void test_grant(void) {
    shard_harness_begin(5);
    contend(1, false);
    const struct sent *sent = last_sent(OPERATION_ACQUIRE);
    is_int(sent->nodes, 0x1f, "rule 2: all nodes are asked at the same time");
    instant_ns sent_ns = harness.now_ns;
    pass_ms(7);
    vote(0, sent, VOTE_YES);
    vote(1, sent, VOTE_YES);
    ok(!last_report(REPORT_GRANTED), "rule 1: two of five are no quorum");
    vote(1, sent, VOTE_YES);
    ok(!last_report(REPORT_GRANTED), "rule 1: a node votes once");
    vote(4, sent, VOTE_YES);
    is_int(count_reports(REPORT_GRANTED), 1, "rule 2: three of five grant, without waiting for the rest");
    is_int(last_report(REPORT_GRANTED)->deadline_ns, sent_ns + 10 * NS_PER_S - 102 * NS_PER_MS,
           "the deadline counts from before the first send, minus ttl/100 + 2 ms");
}

static void test_quorum_is_of_the_configured(void) {
    shard_harness_begin(5);
    for (unsigned i = 2; i < 5; i++)
        node_trust_gone(&harness.shard, i, NODE_STATE_CONNECTING, "connection refused", harness.now_ns);
    contend(1, false);
    ok(last_report(REPORT_FAILED), "rule 1: with two of five reachable the attempt fails at once");
    is_int(last_report(REPORT_FAILED)->failure, FAILURE_NO_QUORUM, "with NOQUORUM");
    is_string(harness.texts[0], "0 of 5 nodes voted, 3 are needed; c, d, e: connection refused",
              "with the reason, once for all nodes that share it");
    shard_harness_begin(5);
    for (unsigned i = 2; i < 5; i++)
        node_trust_gone(&harness.shard, i, NODE_STATE_CONNECTING, i == 3 ? "no route" : "refused",
                        harness.now_ns);
    contend(1, false);
    is_string(harness.texts[0], "0 of 5 nodes voted, 3 are needed; c, e: refused; d: no route",
              "or each reason with its nodes");
}

static void test_even_tie(void) {
    shard_harness_begin(4);
    contend(1, false);
    struct sent sent = *last_sent(OPERATION_ACQUIRE);
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    vote(2, &sent, VOTE_FOREIGN);
    ok(!last_sent(OPERATION_RELEASE), "two to one of four is open");
    vote(3, &sent, VOTE_FOREIGN);
    ok(last_sent(OPERATION_RELEASE), "rule 1: a tie of an even number ends the attempt at once");
    ok(!last_report(REPORT_FAILED), "a tie that no contender won is tried again even without WAIT");
    pass_ms(20);
    ok(count_sent(OPERATION_ACQUIRE) == 2, "rule 5: after a random delay");
    ok(memcmp(sent.secret, last_sent(OPERATION_ACQUIRE)->secret, SECRET_BYTES) != 0,
       "rule 3: with a fresh lock value");
}

static void test_stale_reply(void) {
    shard_harness_begin(3);
    contend(1, true);
    struct sent first = *last_sent(OPERATION_ACQUIRE);
    vote(0, &first, VOTE_YES);
    pass_ms(101);
    ok(last_sent(OPERATION_RELEASE), "rule 5: an attempt that timed out releases at once");
    is_int(last_sent(OPERATION_RELEASE)->nodes, 0x7,
           "rule 4: also on nodes without an answer, which may have the key");
    pass_ms(100);
    struct sent second = *last_sent(OPERATION_ACQUIRE);
    ok(second.ticket != first.ticket, "a new attempt is under way");
    vote(1, &first, VOTE_YES);
    vote(2, &first, VOTE_YES);
    ok(!last_report(REPORT_GRANTED), "rule 3: late answers of an earlier attempt don't count");
    vote(1, &second, VOTE_YES);
    vote(2, &second, VOTE_YES);
    ok(last_report(REPORT_GRANTED), "those of this attempt count");
}

static void test_late_majority(void) {
    shard_harness_begin(3);
    const struct command command = {.kind = COMMAND_CONTEND,
                                    .request = 1,
                                    .terms.ttl_ms = 100,
                                    .terms.node_timeout_ms = 500,
                                    .text = "x42:",
                                    .head_length = 1,
                                    .tail_length = 3};
    shard_command(&harness.shard, &command, harness.now_ns);
    struct sent sent = *last_sent(OPERATION_ACQUIRE);
    harness.now_ns += 97 * NS_PER_MS;
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    ok(!last_report(REPORT_GRANTED), "rule 6: no grant without validity left");
    ok(last_sent(OPERATION_RELEASE), "the keys are released");
    ok(last_report(REPORT_FAILED), "and the request fails");
}

static void test_busy(void) {
    shard_harness_begin(5);
    contend(1, false);
    struct sent sent = *last_sent(OPERATION_ACQUIRE);
    const struct vote held = {.kind = VOTE_FOREIGN,
                              .text = "0123456789abcdef0123456789abcdef01234567"
                                      ":web1:00c0ffee:4321:1000:data",
                              .text_length = 69,
                              .ttl_left_ms = 8123};
    struct vote ends_soon = held;
    ends_soon.ttl_left_ms = 10;
    vote_with(0, sent.ticket, &ends_soon);
    vote_with(1, sent.ticket, &held);
    vote_with(2, sent.ticket, &ends_soon);
    is_int(last_report(REPORT_FAILED)->failure, FAILURE_BUSY, "a name with another's value is busy");
    is_string(harness.texts[0], "held by web1:00c0ffee:4321, 8123 ms left",
              "with the holder and the longest time left");
    ok(last_report(REPORT_FAILED)->own, "the front learns that the holder is this agent");
    is_int(last_sent(OPERATION_RELEASE)->nodes, 0x18, "nodes with another's value are owed no release");

    shard_harness_begin(1);
    contend(1, false);
    const struct vote alike = {
        .kind = VOTE_FOREIGN, .text = "web1:00c0ffee:42", .text_length = 16, .ttl_left_ms = -1};
    vote_with(0, last_sent(OPERATION_ACQUIRE)->ticket, &alike);
    is_string(harness.texts[0], "held by web1:00c..., without an expiry", "a foreign value may look alike");
    ok(!last_report(REPORT_FAILED)->own, "and is not this agent's");

    shard_harness_begin(1);
    contend(1, false);
    const struct vote hash = {.kind = VOTE_FOREIGN,
                              .foreign_type = true,
                              .text = "ReJSON-RL",
                              .text_length = 9,
                              .ttl_left_ms = -1};
    vote_with(0, last_sent(OPERATION_ACQUIRE)->ticket, &hash);
    is_string(harness.texts[0], "its Redis key is of type ReJSON-RL, which is no lock, without an expiry",
              "a key of a foreign type is reported, with the whole type");

    shard_harness_begin(1);
    contend(1, false);
    const struct vote empty = {.kind = VOTE_FOREIGN, .text = "", .ttl_left_ms = 2000};
    vote_with(0, last_sent(OPERATION_ACQUIRE)->ticket, &empty);
    is_string(harness.texts[0], "held by a key with an empty value, 2000 ms left", "so is an empty value");
}

static void test_withdraw_under_way(void) {
    shard_harness_begin(3);
    contend(1, true);
    struct sent acquire = *last_sent(OPERATION_ACQUIRE);
    command(COMMAND_RELEASE, 1);
    ok(last_sent(OPERATION_RELEASE),
       "a request that is withdrawn in the middle of an attempt releases behind it");
    for (unsigned i = 0; i < 3; i++)
        vote(i, &acquire, VOTE_YES);
    ok(!last_report(REPORT_GRANTED), "a late majority grants nothing");
}

/* A foreign key with a ttl of 300 years counts as one without an expiry. */
static void test_endless_key(void) {
    const struct vote endless = {
        .kind = VOTE_FOREIGN, .text = "x", .text_length = 1, .ttl_left_ms = INT64_C(9223372036900)};

    shard_harness_begin(3);
    contend(1, true);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    for (unsigned i = 0; i < 3; i++)
        vote_with(i, sent.ticket, &endless);
    pass_ms(10);
    is_int(count_sent(OPERATION_ACQUIRE), 1, "a key that hardly ever expires is not polled at once");
}

static void test_trace(void) {
    shard_harness_begin(5);
    contend(1, true);
    struct sent sent = *last_sent(OPERATION_ACQUIRE);
    pass_ms(7);
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_FOREIGN);
    vote(2, &sent, VOTE_YES);
    pass_ms(33);
    vote(3, &sent, VOTE_YES);
    const struct round_trace *trace = &last_report(REPORT_GRANTED)->trace;
    ok(trace->answers[0] == ROUND_ANSWER_YES && round_trace_us(trace, 0) / 100 == 69,
       "a grant has the answer and its time for each node, in steps of 66 µs");
    ok(trace->answers[1] == ROUND_ANSWER_HELD && round_trace_us(trace, 1) / 100 == 69,
       "a grant shows nodes with another holder's key");
    ok(trace->answers[3] == ROUND_ANSWER_YES && round_trace_us(trace, 3) / 1000 == 39,
       "a grant shows slow answers");
    is_int(trace->answers[4], ROUND_ANSWER_SILENT, "a grant shows nodes without an answer");
    for (unsigned i = 2; i < 5; i++)
        node_trust_gone(&harness.shard, i, NODE_STATE_CONNECTING, "refused", harness.now_ns);
    contend(2, false);
    is_int(last_report(REPORT_FAILED)->trace.answers[0], ROUND_ANSWER_NONE,
           "without a quorum no node is asked");
}

int main(void) {
    test_trace();
    test_grant();
    test_quorum_is_of_the_configured();
    test_even_tie();
    test_stale_reply();
    test_late_majority();
    test_busy();
    test_withdraw_under_way();
    test_endless_key();
    return done_testing();
}
