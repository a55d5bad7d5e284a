/* Key refresh: after a hand-off the keeper's lease gets the next holder's value; and the nodes get the token
 * of a lease that is held for long again. */

#include <assert.h>

#include "shard-harness.h"
#include "tap.h"

static void hand_off(void) {
    struct command command = {.kind = COMMAND_REFRESH,
                              .request = 1,
                              .hold_until_ns = INSTANT_NEVER,
                              .token = 5,
                              .text = "x43:him",
                              .head_length = 1,
                              .tail_length = 6};
    memset(command.secret, 77, SECRET_BYTES);
    shard_command(&harness.shard, &command, harness.now_ns);
    pass_ms(0);
}

static void test_refresh(void) {
    shard_harness_begin(3);
    hold(1);
    const uint8_t value = last_sent(OPERATION_ACQUIRE)->secret[0];
    struct sent sent = *last_sent(OPERATION_ACQUIRE);
    pass_ms(40);
    instant_ns deadline_ns = last_report(REPORT_GRANTED)->deadline_ns;
    hand_off();
    ok(last_sent(OPERATION_REFRESH), "a lease with another holder is refreshed at once");
    sent = *last_sent(OPERATION_REFRESH);
    is_int(sent.secret[0], 77, "a refresh has the new value");
    ok(sent.has_former && sent.former[0] == value, "a refresh has the former value");
    is_int(sent.token, 5, "a refresh has the holder's token");
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    ok(last_report(REPORT_EXTENDED) &&
           last_report(REPORT_EXTENDED)->deadline_ns == deadline_ns + 40 * NS_PER_MS,
       "a refresh extends the lease");
    vote(2, &sent, VOTE_CUT);
    for (unsigned ms = 0; ms < 3800 && count_sent(OPERATION_REFRESH) < 2; ms++)
        pass_ms(1);
    is_int(count_sent(OPERATION_REFRESH), 2,
           "as long as a node may have the former value, extensions name both");
    sent = *last_sent(OPERATION_REFRESH);
    for (unsigned i = 0; i < 3; i++)
        vote(i, &sent, VOTE_YES);
    pass_ms(3800);
    is_int(count_sent(OPERATION_REFRESH), 2, "without a former value at any node no refresh follows");
    ok(last_sent(OPERATION_EXTEND), "a refreshed lease is extended like others");
    command(COMMAND_RELEASE, 1);
    ok(!last_sent(OPERATION_RELEASE)->has_former, "a refreshed lease is released like others");
}

static void test_released_between(void) {
    shard_harness_begin(3);
    hold(1);
    hand_off();
    struct sent sent = *last_sent(OPERATION_REFRESH);
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_FOREIGN);
    command(COMMAND_RELEASE, 1);
    sent = *last_sent(OPERATION_RELEASE);
    ok(sent.has_former && sent.secret[0] == 77 && sent.nodes == 7,
       "a release deletes either value, on all nodes, as long as one may have the former");
    for (unsigned i = 0; i < 3; i++)
        vote(i, &sent, VOTE_YES);
    ok(last_report(REPORT_RELEASED), "the release of a refreshed lease is reported");
    is_int(harness.shard.leases.taken, 0, "a released lease is forgotten");
}

static void test_failed_refresh(void) {
    shard_harness_begin(3);
    hold(1);
    instant_ns deadline_ns = last_report(REPORT_GRANTED)->deadline_ns;
    hand_off();
    struct sent sent = *last_sent(OPERATION_REFRESH);
    for (unsigned i = 0; i < 3; i++)
        vote(i, &sent, VOTE_CUT);
    ok(last_report(REPORT_AT_RISK), "a refresh that fails is an extension that failed");
    is_int(last_report(REPORT_AT_RISK)->request, 1, "at-risk is reported of the same lease");
    sent = *last_sent(OPERATION_REFRESH);
    pass_ms(200);
    ok(count_sent(OPERATION_REFRESH) > 1, "a failed refresh is tried again, with both values");
    harness.now_ns = deadline_ns;
    shard_tick(&harness.shard, harness.now_ns);
    ok(last_report(REPORT_LOST), "at the deadline the lease is lost");
}

/* The agent pauses after the hand-off. */
static void test_former_risk(void) {
    shard_harness_begin(3);
    contend_with(1, true, 0, 5000);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    while (!last_report(REPORT_AT_RISK))
        pass_ms(100);
    is_int(last_report(REPORT_AT_RISK)->reason, REASON_MAX_HOLD, "a holder's max_hold ends soon");
    hand_off();
    harness.now_ns = last_report(REPORT_GRANTED)->deadline_ns;
    shard_tick(&harness.shard, harness.now_ns);
    is_int(last_report(REPORT_LOST)->reason, REASON_NO_QUORUM, "the next holder's loss is not for that");
}

static void test_stolen(void) {
    shard_harness_begin(3);
    hold(1);
    hand_off();
    struct sent sent = *last_sent(OPERATION_REFRESH);
    vote(0, &sent, VOTE_FOREIGN);
    vote(1, &sent, VOTE_FOREIGN);
    ok(last_report(REPORT_LOST) && last_report(REPORT_LOST)->reason == REASON_TAKEN,
       "another's value in a majority of the keys: lost");
    unsigned sends = harness.n_sends;
    hand_off();
    is_int(harness.n_sends, sends, "a lease that is lost is not refreshed");
    harness.now_ns = last_report(REPORT_GRANTED)->deadline_ns;
    shard_tick(&harness.shard, harness.now_ns);
    ok(last_sent(OPERATION_RELEASE) && last_sent(OPERATION_RELEASE)->has_former,
       "after its deadline either value is deleted");
}

static void test_pause(void) {
    const struct command contend = {.kind = COMMAND_CONTEND,
                                    .persist = true,
                                    .request = 1,
                                    .terms.ttl_ms = 10000,
                                    .terms.node_timeout_ms = 100,
                                    .pause_ns = 5 * NS_PER_MS,
                                    .text = "x42:",
                                    .head_length = 1,
                                    .tail_length = 3};

    shard_harness_begin(3);
    shard_command(&harness.shard, &contend, harness.now_ns);
    pass_ms(4);
    ok(!last_sent(OPERATION_ACQUIRE), "a pause delays the first attempt");
    pass_ms(1);
    ok(last_sent(OPERATION_ACQUIRE), "after the pause the attempt starts");
}

static void test_received(void) {
    struct vote vote = {.kind = VOTE_YES, .received = true};

    shard_harness_begin(3);
    hold(1);
    command(COMMAND_RELEASE, 1);
    struct sent sent = *last_sent(OPERATION_RELEASE);
    vote_with(0, sent.ticket, &vote);
    is_int(count_reports(REPORT_AWAITED), 1, "a release with subscribers is reported");
    is_int(last_report(REPORT_AWAITED)->text_length, 1, "the report has the name");
    vote_with(1, sent.ticket, &vote);
    vote_with(2, sent.ticket, &vote);
    is_int(count_reports(REPORT_AWAITED), 1, "subscribers are reported once");
    is_int(count_reports(REPORT_RELEASED), 1, "the release is reported, too");
    hold(2);
    command(COMMAND_RELEASE, 2);
    sent = *last_sent(OPERATION_RELEASE);
    for (unsigned i = 0; i < 3; i++) {
        vote.received = i == 2;
        vote_with(i, sent.ticket, &vote);
    }
    is_int(count_reports(REPORT_AWAITED), 1, "no report without a majority of answers");
}

/* Before the keys have the first one's value. */
static void test_second_hand_off(void) {
    struct command command = {.kind = COMMAND_REFRESH,
                              .request = 1,
                              .hold_until_ns = INSTANT_NEVER,
                              .token = 6,
                              .text = "x44:her",
                              .head_length = 1,
                              .tail_length = 6};

    shard_harness_begin(3);
    hold(1);
    const uint8_t value = last_sent(OPERATION_ACQUIRE)->secret[0];
    hand_off();
    memset(command.secret, 88, SECRET_BYTES);
    shard_command(&harness.shard, &command, harness.now_ns);
    struct sent sent = *last_sent(OPERATION_REFRESH);
    for (unsigned i = 0; i < 3; i++)
        vote(i, &sent, VOTE_CUT);
    pass_ms(200);
    sent = *last_sent(OPERATION_REFRESH);
    ok(sent.secret[0] == 77 && sent.former[0] == value, "no third value beside the first two");
    is_int(sent.token, 6, "but the last holder's token");
}

static void test_not_refreshed(void) {
    shard_harness_begin(3);
    hold(1);
    command(COMMAND_ABANDON, 1);
    unsigned sends = harness.n_sends;
    hand_off();
    is_int(harness.n_sends, sends, "the lease of a closed session is not refreshed");
    shard_harness_begin(3);
    contend(1, true);
    sends = harness.n_sends;
    hand_off();
    is_int(harness.n_sends, sends, "nor one that is not granted");
}

/* --- a lease that is held for long --- */

static void hold_with(int64_t token) {
    const struct command resume = {.kind = COMMAND_RESUME,
                                   .request = 1,
                                   .terms.ttl_ms = 10000,
                                   .terms.node_timeout_ms = 100,
                                   .hold_until_ns = INSTANT_NEVER,
                                   .token = token,
                                   .secret = "a value",
                                   .text = "x42:",
                                   .head_length = 1,
                                   .tail_length = 3};

    shard_harness_begin(3);
    shard_command(&harness.shard, &resume, harness.now_ns);
    for (unsigned i = 0; i < 3; i++)
        vote(i, last_sent(OPERATION_ADOPT), VOTE_YES);
    assert(last_report(REPORT_GRANTED));
}

/* What was sent meanwhile. */
struct span {
    unsigned extensions, refreshes;
    struct sent refresh;       /* the last one */
    int64_t longest_ms;        /* without any of them */
    int64_t longest_unused_ms; /* without a refresh */
};

/* The lease is held for so long: the nodes grant each extension. */
static struct span keep_for(int64_t minutes) {
    instant_ns until_ns = harness.now_ns + minutes * 60 * NS_PER_S;
    instant_ns sent_ns = harness.now_ns, refreshed_ns = harness.now_ns;
    struct span span = {0};

    while (harness.now_ns < until_ns) {
        harness.n_sends = harness.n_reports = 0;
        pass_ms(50);
        if (harness.n_sends == 0)
            continue;
        const struct sent sent = harness.sends[0];
        for (unsigned i = 0; i < 3; i++)
            vote(i, &sent, VOTE_YES);
        span.extensions += sent.operation == OPERATION_EXTEND;
        span.longest_ms = instant_max(span.longest_ms, (harness.now_ns - sent_ns) / NS_PER_MS);
        sent_ns = harness.now_ns;
        if (sent.operation != OPERATION_REFRESH)
            continue;
        span.refreshes++;
        span.refresh = sent;
        span.longest_unused_ms =
            instant_max(span.longest_unused_ms, (harness.now_ns - refreshed_ns) / NS_PER_MS);
        refreshed_ns = harness.now_ns;
    }
    return span;
}

/* A node forgets a token that no request has named for an hour. */
static void test_held_for_long(void) {
    hold_with(5);
    struct span span = keep_for(6);
    ok(span.extensions > 80 && span.refreshes >= 1 && span.refreshes <= 2,
       "the nodes get the token of a resumed lease again soon, since another agent may have used it long "
       "ago");
    span = keep_for(120);
    ok(span.refreshes >= 12 && span.refreshes <= 24 && span.longest_unused_ms <= 10 * 60000 + 4000,
       "rule 12: the nodes get the token again, in 10 minutes at the latest: %u times in two hours",
       span.refreshes);
    is_int(span.refresh.token, 5, "such a refresh has the holder's token");
    ok(span.refresh.has_former && memcmp(span.refresh.former, "a value", 8) == 0 &&
           memcmp(span.refresh.secret, "a value", 8) == 0,
       "and leaves the value as it is");
    ok(span.extensions > 1900 && span.longest_ms <= 3800, "the other extensions are as before");
    command(COMMAND_RELEASE, 1);
    ok(!last_sent(OPERATION_RELEASE)->has_former, "the release has one value");

    hold_with(0);
    is_int(keep_for(60).refreshes, 0, "without a token nothing is refreshed");
}

/* A node that lost its data gets the key by an extension, which has no token. */
static void test_repaired(void) {
    hold_with(5);
    (void) keep_for(6);
    harness.n_sends = 0;
    while (harness.n_sends == 0)
        pass_ms(50);
    const struct sent sent = harness.sends[0];
    is_int(sent.operation, OPERATION_EXTEND, "a lease is extended");
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    vote(2, &sent, VOTE_REPAIRED);
    struct span span = keep_for(1);
    ok(span.refreshes == 1 && span.longest_unused_ms <= 30000 + 4000,
       "a node that lacked the key gets the token within 30 seconds and an extension: %u refreshes",
       span.refreshes);
}

int main(void) {
    test_refresh();
    test_released_between();
    test_failed_refresh();
    test_former_risk();
    test_stolen();
    test_pause();
    test_received();
    test_second_hand_off();
    test_not_refreshed();
    test_held_for_long();
    test_repaired();
    return done_testing();
}
