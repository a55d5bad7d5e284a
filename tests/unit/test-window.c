/* The window: names under way to a node are bounded, extensions go first, and a slow node costs requests
 * nothing. */

#include <assert.h>

#include "core/validity.h"
#include "tap.h"
#include "shard-harness.h"

static void answer_all(const struct sent *sent, node_set nodes, enum vote_kind kind) {
    for (unsigned i = 0; i < harness.shard.config.nodes; i++)
        if (sent->nodes & nodes & node_set_of(i))
            vote(i, sent, kind);
}

static void test_attempts(void) {
    shard_harness_begin(3);
    harness.shard.attempts_max = 2;
    contend(1, false);
    struct sent first = *last_sent(OPERATION_ACQUIRE);
    contend(2, false);
    contend(3, false);
    is_int(count_sent(OPERATION_ACQUIRE), 2, "the third attempt is held back");
    pass_ms(50);
    is_int(count_sent(OPERATION_ACQUIRE), 2, "until the nodes answer");
    answer_all(&first, 0x7, VOTE_YES);
    pass_ms(2);
    is_int(count_sent(OPERATION_ACQUIRE), 3, "then it begins");
    pass_ms(97);
    struct sent third = *last_sent(OPERATION_ACQUIRE);
    answer_all(&third, 0x3, VOTE_YES);
    is_int(last_report(REPORT_GRANTED)->request, 3, "its node time-out runs from when the nodes are asked");
}

static void test_held_back_too_long(void) {
    shard_harness_begin(3);
    harness.shard.attempts_max = 1;
    harness.shard.releases_max = 1;
    contend(1, true);
    contend(2, false);
    pass_ms(190);
    is_int(count_reports(REPORT_FAILED), 0, "a request that does not wait is held back");
    pass_ms(15);
    ok(last_report(REPORT_FAILED) && last_report(REPORT_FAILED)->request == 2,
       "for two node time-outs, and then fails");
    command(COMMAND_RELEASE, 1);
    is_int(last_report(REPORT_FAILED)->failure, FAILURE_NO_QUORUM, "for missing answers");
}

static void test_extensions(void) {
    shard_harness_begin(3);
    hold(1);
    pass_ms(3300);
    harness.shard.attempts_max = 2;
    harness.shard.releases_max = 16;
    contend(2, true);
    contend(3, true);
    contend(4, true);
    is_int(count_sent(OPERATION_ACQUIRE), 3, "no more attempts begin");
    command(COMMAND_RELEASE, 2);
    is_int(count_sent(OPERATION_RELEASE), 1, "a release is still sent");
    pass_to_extension();
    ok(true, "and an extension");
}

static void test_release_order(void) {
    shard_harness_begin(3);
    hold(1);
    harness.shard.attempts_max = 1;
    harness.shard.releases_max = 1;
    contend(2, true);
    struct sent under_way = *last_sent(OPERATION_ACQUIRE);
    command(COMMAND_RELEASE, 1);
    contend(3, true);
    is_int(count_sent(OPERATION_RELEASE), 0, "a release is held back, too");
    is_int(count_reports(REPORT_RELEASED), 0, "and its end is not reported");
    answer_all(&under_way, 0x7, VOTE_YES);
    pass_ms(2);
    is_int(count_sent(OPERATION_RELEASE), 1, "it is sent when there is room");
    struct sent release = *last_sent(OPERATION_RELEASE);
    is_int(count_sent(OPERATION_ACQUIRE), 2, "before the attempt that came after it");
    answer_all(&release, 0x7, VOTE_YES);
    is_int(count_reports(REPORT_RELEASED), 1, "its end is reported when it is answered");
    pass_ms(2);
    is_int(count_sent(OPERATION_ACQUIRE), 3, "then the attempt begins");
}

/* A node that answers all requests late: it gets a release for each lease, and confirms none in time. */
static void test_owed(void) {
    unsigned granted = 0;

    shard_harness_begin(3);
    for (uint64_t request = 1; request <= 300; request++) {
        harness.n_sends = harness.n_reports = 0;
        contend(request, false);
        if (!last_sent(OPERATION_ACQUIRE))
            break;
        struct sent sent = *last_sent(OPERATION_ACQUIRE);
        answer_all(&sent, 0x3, VOTE_YES);
        granted += last_report(REPORT_GRANTED) != NULL;
        command(COMMAND_RELEASE, request);
        struct sent release = *last_sent(OPERATION_RELEASE);
        answer_all(&release, 0x3, VOTE_YES);
        vote(2, &sent, VOTE_YES); /* of the attempt; the release's answer never comes */
        harness.now_ns += NS_PER_MS;
    }
    is_int(granted, 300, "owed releases leave room for requests: 16 at a time, 300 in a row");
    ok(harness.shard.leases.taken <= 32, "the oldest one is left to its ttl");
}

static void test_slow(void) {
    struct sent sents[100];
    unsigned sent = 0, answered = 0, asked = 0;

    shard_harness_begin(3);
    for (uint64_t request = 1; sent < 100; request++, sent++) {
        harness.n_sends = harness.n_reports = 0;
        contend(request, false);
        assert(last_sent(OPERATION_ACQUIRE));
        sents[sent] = *last_sent(OPERATION_ACQUIRE);
        asked += (sents[sent].nodes & 0x4) != 0;
        answer_all(&sents[sent], 0x3, VOTE_YES);
        assert(last_report(REPORT_GRANTED));
        command(COMMAND_RELEASE, request);
        struct sent release = *last_sent(OPERATION_RELEASE);
        answer_all(&release, 0x3, VOTE_YES);
        if (sent % 5 == 4 && (sents[answered].nodes & 0x4))
            vote(2, &sents[answered++], VOTE_YES); /* a tenth of its requests */
        pass_ms(40);
    }
    ok(harness.shard.nodes[2].slow && asked < 60,
       "a node that answers steadily but too slowly is not asked for new leases: it was for %u of 100",
       asked);
    ok(strncmp(harness.reasons[2], "slow: ", 6) == 0 && harness.node_states[2] == NODE_STATE_VOTING,
       "and is reported as slow");
    while (harness.shard.nodes[2].outstanding > 0)
        vote(2, &sents[0], VOTE_YES);
    pass_ms(PROBE_MS + 100);
    ok(!harness.shard.nodes[2].slow, "after it caught up and answered a probe at once, it is asked again");
    is_string(harness.reasons[2], "", "which is reported, too");
}

int main(void) {
    test_attempts();
    test_held_back_too_long();
    test_extensions();
    test_release_order();
    test_owed();
    test_slow();
    return done_testing();
}
