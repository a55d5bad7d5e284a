/* Held leases: extensions, heartbeats, max_hold, and the end. Each check names the rule that it guards. */

#include "core/lease-table.h"
#include "core/validity.h"
#include "shard-harness.h"
#include "tap.h"

static void test_extension(void) {
    shard_harness_begin(5);
    hold(1);
    instant_ns deadline_ns = last_report(REPORT_GRANTED)->deadline_ns;
    pass_ms(3370);
    is_int(count_sent(OPERATION_EXTEND), 0, "no extension before 0.9 of three eighths of the ttl");
    struct sent sent = pass_to_extension();
    ok(harness.now_ns <= deadline_ns - 6140 * NS_PER_MS, "an extension at three eighths at the latest");
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    ok(!last_report(REPORT_EXTENDED), "rule 7: two of five don't extend");
    vote(2, &sent, VOTE_REPAIRED);
    ok(!last_report(REPORT_EXTENDED), "rule 7: a repaired vote does not count in its round");
    vote(3, &sent, VOTE_YES);
    ok(last_report(REPORT_EXTENDED) && last_report(REPORT_EXTENDED)->deadline_ns > deadline_ns,
       "three of five do: the deadline moves");
}

/* Ten leases of one instant, and one 1.2 s later: more than a twelfth of the ttl, wherever their times are.
 * test-extension-schedule has the rest. */
static void test_extensions_travel_together(void) {
    shard_harness_begin(3);
    for (uint64_t request = 1; request <= 11; request++) {
        pass_ms(request == 11 ? 1200 : 0);
        contend(request, false);
        const struct sent sent = *last_sent(OPERATION_ACQUIRE);
        vote(0, &sent, VOTE_YES);
        vote(1, &sent, VOTE_YES);
    }
    (void) pass_to_extension();
    is_int(count_sent(OPERATION_EXTEND), 10,
           "extensions that are nearly due share the call of the first one");
    pass_ms(20);
    is_int(count_sent(OPERATION_EXTEND), 10, "others have their own time");
}

/* A lease whose extensions have ended is not extended with other leases either. */
static void test_left_alone(void) {
    static const struct {
        uint32_t heartbeat_ms;
        uint32_t max_hold_ms;
        bool abandoned;
    } cases[] = {{1000, 0, false}, {0, 5000, false}, {0, 0, true}};

    shard_harness_begin(1);
    for (uint64_t request = 1; request <= 4; request++) {
        contend_with(request, true, request < 4 ? cases[request - 1].heartbeat_ms : 0,
                     request < 4 ? cases[request - 1].max_hold_ms : 0);
        vote(0, last_sent(OPERATION_ACQUIRE), VOTE_YES);
    }
    command(COMMAND_ABANDON, 3);
    struct sent sent = pass_to_extension();
    is_int(count_sent(OPERATION_EXTEND), 1,
           "rules 8 and 9: no extension without a heartbeat, at max_hold, or of an abandoned lease");
    vote(0, &sent, VOTE_YES);
    ok(last_report(REPORT_EXTENDED) && last_report(REPORT_EXTENDED)->request == 4,
       "the fourth lease is extended");
}

/* The next extension would come soon before the end of max_hold, or after it. */
static void test_extended_late(uint32_t max_hold_ms) {
    shard_harness_begin(1);
    contend_with(1, true, 0, max_hold_ms);
    vote(0, last_sent(OPERATION_ACQUIRE), VOTE_YES);
    instant_ns begun_ns = harness.now_ns, end_ns = begun_ns + max_hold_ms * NS_PER_MS;
    for (unsigned tries = 1; harness.now_ns - begun_ns < 8500 * NS_PER_MS; tries++) {
        while (count_sent(OPERATION_EXTEND) < tries && harness.now_ns < end_ns)
            pass_ms(1);
        vote(0, last_sent(OPERATION_EXTEND),
             harness.now_ns - begun_ns < 8500 * NS_PER_MS ? VOTE_REFUSED : VOTE_YES);
    }
    ok(last_report(REPORT_EXTENDED) && last_report(REPORT_EXTENDED)->deadline_ns == end_ns,
       "the late extension lasts up to max_hold");
    int64_t half_ms = (end_ns - harness.now_ns) / NS_PER_MS / 2 + 1;
    pass_ms(half_ms);
    is_int(last_report(REPORT_AT_RISK)->reason, REASON_MAX_HOLD,
           "rule 13: the holder gets at-risk half of the time before the end");
    pass_ms(half_ms + 10);
    is_int(last_report(REPORT_LOST)->reason, REASON_MAX_HOLD, "and lost with its reason at the end");
}

static void test_extension_fails(void) {
    shard_harness_begin(3);
    hold(1);
    instant_ns deadline_ns = last_report(REPORT_GRANTED)->deadline_ns;
    struct sent first = pass_to_extension();
    vote(0, &first, VOTE_YES);
    vote(1, &first, VOTE_REFUSED);
    vote(2, &first, VOTE_REFUSED);
    ok(last_report(REPORT_AT_RISK), "rule 13: a failed extension is reported at once");
    is_int(last_report(REPORT_AT_RISK)->deadline_ns, deadline_ns, "rule 7: the old deadline stays");
    ok(!last_sent(OPERATION_RELEASE), "rule 7: no key is released");
    pass_ms(100);
    ok(count_sent(OPERATION_EXTEND) == 2, "rule 7: it is tried again");
    struct sent second = *last_sent(OPERATION_EXTEND);
    vote(1, &first, VOTE_YES);
    ok(!last_report(REPORT_EXTENDED), "answers of an older extension round don't count");
    vote(0, &second, VOTE_YES);
    vote(2, &second, VOTE_YES);
    ok(last_report(REPORT_EXTENDED), "and succeeds");
    is_int(count_reports(REPORT_AT_RISK), 1, "at-risk was reported once");
}

/* Two of three nodes have another epoch. */
static struct sent meet_changed_epochs(void) {
    shard_harness_begin(3);
    hold(1);
    struct sent sent = pass_to_extension();
    vote(0, &sent, VOTE_EPOCH);
    vote(1, &sent, VOTE_EPOCH);
    return sent;
}

static void test_epoch_changes(void) {
    struct probe amended = blessed_node;

    amended.generation = blessed_node.generation + 1;
    struct sent sent = meet_changed_epochs();
    is_int(count_reports(REPORT_AT_RISK), 0, "a changed epoch alone puts no lease at risk");
    vote(2, &sent, VOTE_YES);
    pass_ms(1);
    node_trust_probed(&harness.shard, 0, &amended, harness.now_ns);
    pass_ms(5);
    is_int(count_sent(OPERATION_EXTEND), 2, "once a node was examined, the extension is tried again");
    sent = *last_sent(OPERATION_EXTEND);
    is_int(sent.nodes, 0x5, "at the nodes that vote");
    vote(0, &sent, VOTE_YES);
    vote(2, &sent, VOTE_YES);
    is_int(count_reports(REPORT_EXTENDED), 1, "then the lease is extended");
    is_int(count_reports(REPORT_AT_RISK), 0, "and was not at risk");

    meet_changed_epochs();
    node_trust_probed(&harness.shard, 0, &new_node, harness.now_ns);
    node_trust_probed(&harness.shard, 1, &new_node, harness.now_ns);
    is_int(count_reports(REPORT_AT_RISK), 0, "nodes that were examined");
    pass_ms(200);
    is_int(count_reports(REPORT_AT_RISK), 1, "and do not vote put the lease at risk with the next try");

    sent = meet_changed_epochs();
    instant_ns left_ns = last_report(REPORT_GRANTED)->deadline_ns - harness.now_ns;
    pass_ms(left_ns / NS_PER_MS - 3900);
    ok(count_reports(REPORT_AT_RISK) > 0, "with less than half of its ttl left it is at risk");

    shard_harness_begin(3);
    hold(1);
    sent = pass_to_extension();
    vote(0, &sent, VOTE_EPOCH);
    vote(1, &sent, VOTE_YES);
    pass_ms(99);
    is_int(count_reports(REPORT_AT_RISK), 0, "a silent node has a node time-out,");
    pass_ms(1);
    is_int(count_reports(REPORT_AT_RISK), 1, "then the lease is at risk");
}

/* Each round meets epochs that have changed again. */
static void test_epochs_keep_changing(void) {
    struct probe amended = blessed_node;
    struct sent sent = meet_changed_epochs();

    while (!last_report(REPORT_AT_RISK)) {
        harness.n_sends = 0;
        amended.generation++;
        vote(2, &sent, VOTE_YES);
        node_trust_probed(&harness.shard, 0, &amended, harness.now_ns);
        node_trust_probed(&harness.shard, 1, &amended, harness.now_ns);
        sent = pass_to_extension();
        vote(0, &sent, VOTE_EPOCH);
        vote(1, &sent, VOTE_EPOCH);
    }
    ok(last_report(REPORT_GRANTED)->deadline_ns - harness.now_ns > 5000 * NS_PER_MS,
       "the holder gets at-risk with more than half of the ttl left");
}

static void test_expiry(void) {
    shard_harness_begin(3);
    hold(1);
    instant_ns deadline_ns = last_report(REPORT_GRANTED)->deadline_ns;
    while (!last_report(REPORT_LOST))
        pass_ms(10);
    ok(harness.now_ns >= deadline_ns && harness.now_ns <= deadline_ns + 10 * NS_PER_MS,
       "rule 13: lost is reported when the deadline passes");
    is_int(last_report(REPORT_LOST)->reason, REASON_NO_QUORUM, "the reason is no quorum");
    struct sent extension = *last_sent(OPERATION_EXTEND);
    for (unsigned i = 0; i < 3; i++)
        vote(i, &extension, VOTE_YES);
    ok(!last_report(REPORT_EXTENDED), "rule 7: an extension never revives a lease");
}

/* Without a quorum the retries become rarer, up to a tenth of the ttl. */
static void test_node_is_back(void) {
    shard_harness_begin(3);
    hold(1);
    for (unsigned node = 1; node < 3; node++)
        node_trust_gone(&harness.shard, node, NODE_STATE_CONNECTING, "closed", harness.now_ns);
    while (harness.now_ns + 2 * NS_PER_S < last_report(REPORT_GRANTED)->deadline_ns) {
        pass_ms(10);
        if (last_sent(OPERATION_EXTEND))
            vote(0, last_sent(OPERATION_EXTEND), VOTE_YES);
    }
    is_int(last_report(REPORT_AT_RISK)->reason, REASON_NO_QUORUM, "a majority of the nodes is gone");
    for (unsigned tries = count_sent(OPERATION_EXTEND); count_sent(OPERATION_EXTEND) == tries;)
        pass_ms(1);
    vote(0, last_sent(OPERATION_EXTEND), VOTE_YES);
    pass_ms(101); /* the round is over, and the next one far */
    unsigned tries = count_sent(OPERATION_EXTEND);
    node_joins(1);
    pass_ms(NODE_BACK_US_MAX / 1000 + 1);
    is_int(count_sent(OPERATION_EXTEND), tries + 1, "rule 7: a node that is back is asked at once");
    struct sent extension = *last_sent(OPERATION_EXTEND);
    vote(0, &extension, VOTE_YES);
    vote(1, &extension, VOTE_YES);
    ok(last_report(REPORT_EXTENDED), "and the lease is extended");

    shard_harness_begin(3);
    hold(1);
    node_trust_gone(&harness.shard, 1, NODE_STATE_CONNECTING, "closed", harness.now_ns);
    node_joins(1);
    pass_ms(NODE_BACK_US_MAX / 1000 + 1);
    is_int(count_sent(OPERATION_EXTEND), 0, "a lease whose extension has not failed has its own time");
}

static void test_late_extension(void) {
    shard_harness_begin(3);
    hold(1);
    struct sent sent = pass_to_extension();
    harness.now_ns = last_report(REPORT_GRANTED)->deadline_ns; /* a late loop: no tick came */
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    ok(!last_report(REPORT_EXTENDED) && last_report(REPORT_LOST),
       "rule 7: answers after the deadline come too late");
    ok(last_sent(OPERATION_RELEASE), "rule 8: after the deadline the keys are deleted");
    shard_harness_begin(3);
    hold(1);
    sent = pass_to_extension();
    vote(0, &sent, VOTE_YES);
    harness.now_ns = last_report(REPORT_GRANTED)->deadline_ns;
    vote(1, &sent, VOTE_YES);
    ok(!last_report(REPORT_EXTENDED) && last_report(REPORT_LOST),
       "rule 7: nor does the one that makes the majority come in time");
}

/* Slow nodes are not asked again while their late answers may extend the lease. After a late answer that
 * needs another round, the next try comes soon, however long the ttl. */
static void test_late_answers_awaited(void) {
    enum { TTL_MS = 10000 /* of hold() */, LONG_TTL_MS = 3600 * 1000 };
    const struct command command = {.kind = COMMAND_CONTEND,
                                    .request = 1,
                                    .terms.ttl_ms = LONG_TTL_MS,
                                    .terms.node_timeout_ms = 100,
                                    .text = "x42:",
                                    .head_length = 1,
                                    .tail_length = 3};

    shard_harness_begin(3);
    shard_command(&harness.shard, &command, harness.now_ns);
    struct sent sent = *last_sent(OPERATION_ACQUIRE);
    for (unsigned i = 0; i < 3; i++)
        vote(i, &sent, VOTE_YES);
    sent = pass_to_extension();
    vote(2, &sent, VOTE_FOREIGN);
    pass_ms(500);
    is_int(count_reports(REPORT_AT_RISK), 1, "answers are late");
    is_int(count_sent(OPERATION_EXTEND), 1,
           "slow nodes are not asked again, though another node has answered no");
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_REPAIRED);
    pass_ms(1000);
    is_int(count_sent(OPERATION_EXTEND), 2, "but soon after an answer that needs another round");

    shard_harness_begin(3);
    hold(1);
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "closed", harness.now_ns);
    sent = pass_to_extension();
    vote(0, &sent, VOTE_YES);
    pass_ms(400);
    is_int(count_sent(OPERATION_EXTEND), 1, "a slow node is waited for");
    node_joins(2);
    pass_ms(10);
    is_int(count_sent(OPERATION_EXTEND), 2, "but not when another node can be asked meanwhile");

    shard_harness_begin(3);
    hold(1);
    sent = pass_to_extension();
    vote(0, &sent, VOTE_YES);
    pass_ms(TTL_MS / 4 - 100);
    is_int(count_sent(OPERATION_EXTEND), 1, "silent nodes are waited for");
    pass_ms(1200);
    ok(count_sent(OPERATION_EXTEND) > 1, "for a quarter of the ttl, and no longer");
}

/* A node that refuses at once neither ends the wait for the slow ones, nor is left out because of them. */
static void test_refusing_and_slow(void) {
    enum { TTL_MS = 10000 /* of hold() */ };

    for (unsigned late = 0; late < 2; late++) {
        shard_harness_begin(3);
        hold(1);
        struct sent sent = pass_to_extension();
        const instant_ns sent_ns = harness.now_ns;
        vote(2, &sent, VOTE_REFUSED);
        pass_ms(600);
        const struct sent *again = last_sent(OPERATION_EXTEND);
        ok(again->nodes == node_set_of(2) && again->ticket == sent.ticket,
           "a node that refused is asked once more, while the slow ones are waited for");
        unsigned asked = count_sent(OPERATION_EXTEND);
        pass_ms(600);
        is_int(count_sent(OPERATION_EXTEND), asked, "but not while it is silent, too");
        vote(0, &sent, VOTE_YES);
        vote(late == 0 ? 1 : 2, &sent, VOTE_YES);
        is_int(count_reports(REPORT_EXTENDED), 1,
               late == 0 ? "two that are late extend the lease"
                         : "so do one of them and the one that refused");
        ok(last_report(REPORT_EXTENDED)->deadline_ns <= validity_deadline_ns(sent_ns, TTL_MS),
           "the deadline counts from the first request");
    }
}

static void test_paused(void) {
    shard_harness_begin(3);
    hold(1);
    harness.now_ns += 30 * NS_PER_S;
    shard_tick(&harness.shard, harness.now_ns);
    ok(last_report(REPORT_LOST) && last_report(REPORT_LOST)->reason == REASON_PAUSED,
       "rule 13: the reason is paused if the agent slept past the deadline");
    is_int(count_sent(OPERATION_EXTEND), 0, "and no extension is sent");
}

static void test_taken(void) {
    shard_harness_begin(5);
    hold(1);
    unsigned releases = count_sent(OPERATION_RELEASE);
    struct sent sent = pass_to_extension();
    vote(0, &sent, VOTE_FOREIGN);
    vote(1, &sent, VOTE_FOREIGN);
    ok(!last_report(REPORT_LOST), "two foreign values of five leave a majority");
    vote(2, &sent, VOTE_FOREIGN);
    ok(last_report(REPORT_LOST) && last_report(REPORT_LOST)->reason == REASON_TAKEN, "three do not: taken");
    is_int(count_sent(OPERATION_RELEASE), releases, "rule 8: no key is deleted before the deadline");
    pass_ms(7000);
    ok(count_sent(OPERATION_RELEASE) > releases, "afterwards the keys are deleted");
}

static void test_bounds(void) {
    shard_harness_begin(1);
    contend_with(1, true, 0, 12000);
    vote(0, last_sent(OPERATION_ACQUIRE), VOTE_YES);
    instant_ns granted_ns = harness.now_ns;
    while (!last_report(REPORT_LOST)) {
        unsigned extensions = count_sent(OPERATION_EXTEND);
        pass_ms(5);
        if (count_sent(OPERATION_EXTEND) > extensions)
            vote(0, last_sent(OPERATION_EXTEND), VOTE_YES);
    }
    ok(harness.now_ns - granted_ns >= 12 * NS_PER_S && harness.now_ns - granted_ns <= 12005 * NS_PER_MS,
       "rule 9: max_hold ends the lease at its time");
    is_int(last_report(REPORT_LOST)->reason, REASON_MAX_HOLD, "with its reason");

    shard_harness_begin(1);
    contend_with(1, true, 1000, 0);
    vote(0, last_sent(OPERATION_ACQUIRE), VOTE_YES);
    pass_ms(900);
    command(COMMAND_BEAT, 1);
    pass_ms(3000);
    is_int(count_sent(OPERATION_EXTEND), 0, "rule 9: without a heartbeat no extension");
    ok(last_report(REPORT_AT_RISK) && last_report(REPORT_AT_RISK)->reason == REASON_HEARTBEAT,
       "the lease is at risk for that reason");
    command(COMMAND_BEAT, 1);
    pass_ms(0);
    is_int(count_sent(OPERATION_EXTEND), 1, "a heartbeat in time brings the extension back");
    command(COMMAND_BEAT, 1);
    pass_ms(0);
    ok(count_sent(OPERATION_EXTEND) == 1 && last_report(REPORT_AT_RISK)->reason == REASON_HEARTBEAT,
       "another one leaves the extension under way alone");
    vote(0, last_sent(OPERATION_EXTEND), VOTE_YES);
    pass_ms(20000);
    ok(last_report(REPORT_LOST) && last_report(REPORT_LOST)->reason == REASON_HEARTBEAT,
       "without more heartbeats the lease is lost");
}

static void test_abandon(void) {
    shard_harness_begin(3);
    hold(1);
    command(COMMAND_ABANDON, 1);
    pass_ms(9800);
    is_int(
        count_sent(OPERATION_EXTEND) + count_sent(OPERATION_RELEASE), 0,
        "rule 8: an abandoned lease is neither extended nor deleted while its holder may consider it valid");
    pass_ms(200);
    ok(last_report(REPORT_LOST) && last_report(REPORT_LOST)->reason == REASON_CLOSED,
       "the lease is lost at its deadline");
    ok(last_sent(OPERATION_RELEASE), "and its keys are deleted then");
}

static void test_abandon_unread(void) {
    const struct command abandon = {.kind = COMMAND_ABANDON, .request = 1, .unread = true};

    shard_harness_begin(3);
    hold(1);
    shard_command(&harness.shard, &abandon, harness.now_ns);
    pass_ms(10000);
    ok(last_report(REPORT_LOST) && last_report(REPORT_LOST)->reason == REASON_UNREAD,
       "a lease whose grant is unread is lost for that reason");
}

/* The front saw the deadline first, reported the loss, and asks for the release. */
static void test_front_is_first(void) {
    shard_harness_begin(3);
    hold(1);
    struct sent sent = pass_to_extension();
    pass_ms(3);
    vote(1, &sent, VOTE_REFUSED);
    pass_ms(100);
    const struct round_trace *trace = &last_report(REPORT_AT_RISK)->trace;
    ok(trace->answers[0] == ROUND_ANSWER_SILENT && trace->answers[1] == ROUND_ANSWER_REFUSED,
       "at-risk: how the nodes answered the extension");
    harness.now_ns = last_report(REPORT_GRANTED)->deadline_ns;
    command(COMMAND_RELEASE, 1);
    ok(last_report(REPORT_LOST) && last_report(REPORT_LOST)->reason == REASON_NO_QUORUM,
       "a release after the deadline: the loss is reported, with its reason");
    is_int(last_report(REPORT_LOST)->trace.answers[1], ROUND_ANSWER_REFUSED, "and the last answers");
    ok(last_sent(OPERATION_RELEASE), "the keys are deleted");
}

static void beat_until(instant_ns until_ns) {
    const struct command command = {
        .kind = COMMAND_BEAT, .request = 1, .beat_ns = until_ns - 1000 * NS_PER_MS};
    shard_command(&harness.shard, &command, harness.now_ns);
}

/* Heartbeats are counted to the nanosecond. */
static void test_heartbeat_ends(void) {
    for (int64_t more_ns = 0; more_ns < 2; more_ns++) {
        shard_harness_begin(1);
        contend_with(1, true, 1000, 0);
        vote(0, last_sent(OPERATION_ACQUIRE), VOTE_YES);
        instant_ns due_ns = lease_table_find(&harness.shard, 1)->extend_ns;
        beat_until(due_ns + more_ns);
        harness.now_ns = due_ns;
        shard_tick(&harness.shard, harness.now_ns);
        is_int(count_sent(OPERATION_EXTEND), more_ns, "an extension needs a heartbeat that still counts");
        if (more_ns > 0)
            continue;
        beat_until(harness.now_ns);
        pass_ms(0);
        is_int(count_sent(OPERATION_EXTEND), 0, "one that ends now brings no extension back");
        beat_until(harness.now_ns + 1);
        pass_ms(0);
        is_int(count_sent(OPERATION_EXTEND), 1, "one that ends next does");
    }
    shard_harness_begin(1);
    contend_with(1, true, 1000, 0);
    vote(0, last_sent(OPERATION_ACQUIRE), VOTE_YES);
    pass_ms(4000);
    harness.now_ns = last_report(REPORT_GRANTED)->deadline_ns;
    command(COMMAND_BEAT, 1);
    shard_tick(&harness.shard, harness.now_ns);
    ok(count_sent(OPERATION_EXTEND) == 0 && last_report(REPORT_LOST), "and none does at the deadline");
}

/* While late answers to an extension are awaited a heartbeat is missed, and comes after all. */
static void test_heartbeat_while_slow(void) {
    shard_harness_begin(3);
    contend_with(1, true, 1000, 0);
    struct sent sent = *last_sent(OPERATION_ACQUIRE);
    for (unsigned i = 0; i < 3; i++)
        vote(i, &sent, VOTE_YES);
    instant_ns due_ns = lease_table_find(&harness.shard, 1)->extend_ns;
    beat_until(due_ns + 400 * NS_PER_MS);
    harness.now_ns = due_ns;
    pass_ms(200);
    ok(last_report(REPORT_AT_RISK) && last_report(REPORT_AT_RISK)->reason == REASON_NO_QUORUM,
       "no answer in time: the lease is at risk");
    pass_ms(1000);
    is_int(last_report(REPORT_AT_RISK)->reason, REASON_HEARTBEAT, "then for a heartbeat, which was missed");
    beat_until(harness.now_ns + 10 * NS_PER_S);
    pass_ms(0);
    is_int(last_report(REPORT_AT_RISK)->reason, REASON_NO_QUORUM,
           "with the heartbeat the late answers are the reason again");
    is_int(count_sent(OPERATION_EXTEND), 1, "and are awaited");
    while (!last_report(REPORT_LOST))
        pass_ms(10);
    is_int(last_report(REPORT_LOST)->reason, REASON_NO_QUORUM, "the lease is lost for that reason");
}

static uint64_t count_margins(void) {
    uint64_t n = 0;

    for (unsigned i = 0; i < HISTOGRAM_SHARES; i++)
        n += harness.shard.counters.extension_margins.counts[i];
    return n;
}

/* Margins warn of slow nodes and hosts. An alert watches them: a holder's own delay raises none. */
static void test_margins(void) {
    const struct command refresh = {.kind = COMMAND_REFRESH,
                                    .request = 1,
                                    .hold_until_ns = INSTANT_NEVER,
                                    .text = "x43:him",
                                    .head_length = 1,
                                    .tail_length = 6};

    shard_harness_begin(1);
    contend_with(1, true, 1000, 0);
    vote(0, last_sent(OPERATION_ACQUIRE), VOTE_YES);
    beat_until(harness.now_ns + 5 * NS_PER_S);
    struct sent sent = pass_to_extension();
    vote(0, &sent, VOTE_YES);
    is_int(count_margins(), 1, "the margin of a punctual extension is noted");
    while (!last_report(REPORT_AT_RISK))
        pass_ms(10);
    is_int(last_report(REPORT_AT_RISK)->reason, REASON_HEARTBEAT, "a heartbeat is missed");
    harness.now_ns = last_report(REPORT_EXTENDED)->deadline_ns - 1000 * NS_PER_MS;
    beat_until(harness.now_ns + 10 * NS_PER_S);
    pass_ms(0);
    vote(0, last_sent(OPERATION_EXTEND), VOTE_YES);
    ok(count_reports(REPORT_EXTENDED) == 2 && count_margins() == 1, "an extension that awaited it has none");
    while (count_sent(OPERATION_EXTEND) < 3)
        pass_ms(1);
    vote(0, last_sent(OPERATION_EXTEND), VOTE_YES);
    is_int(count_margins(), 2, "the next one has");
    is_int(harness.shard.counters.extensions, 3, "all three count as extensions");

    shard_harness_begin(1);
    contend_with(1, true, 0, 2000);
    vote(0, last_sent(OPERATION_ACQUIRE), VOTE_YES);
    pass_ms(1000);
    shard_command(&harness.shard, &refresh, harness.now_ns);
    pass_ms(0);
    vote(0, last_sent(OPERATION_REFRESH), VOTE_YES);
    ok(last_report(REPORT_EXTENDED) && count_margins() == 0, "nor has one where max_hold is below the ttl");
}

static void test_beat_without_heartbeat(void) {
    shard_harness_begin(3);
    hold(1);
    command(COMMAND_BEAT, 1);
    struct sent sent = pass_to_extension();
    for (unsigned i = 0; i < 3; i++)
        vote(i, &sent, VOTE_YES);
    ok(last_report(REPORT_EXTENDED) && !last_report(REPORT_AT_RISK),
       "a beat changes nothing for a lease without a heartbeat");
}

int main(void) {
    test_abandon_unread();
    test_front_is_first();
    test_beat_without_heartbeat();
    test_heartbeat_ends();
    test_heartbeat_while_slow();
    test_margins();
    test_extension();
    test_extensions_travel_together();
    test_left_alone();
    test_extended_late(12000);
    test_extended_late(12800);
    test_extension_fails();
    test_epoch_changes();
    test_epochs_keep_changing();
    test_expiry();
    test_node_is_back();
    test_late_extension();
    test_late_answers_awaited();
    test_refusing_and_slow();
    test_paused();
    test_taken();
    test_bounds();
    test_abandon();
    return done_testing();
}
