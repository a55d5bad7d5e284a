/* The window: names under way to a node are bounded, extensions go first, and a slow node costs requests
 * nothing. */

#include <assert.h>

#include "core/lease-state.h"
#include "core/validity.h"
#include "core/window.h"
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
    is_int(count_sent(OPERATION_ACQUIRE), 2, "the third attempt waits until the nodes answer");
    answer_all(&first, 0x7, VOTE_YES);
    pass_ms(2);
    is_int(count_sent(OPERATION_ACQUIRE), 3, "after the answers the third attempt begins");
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
       "a request that is held back fails after two node time-outs");
    command(COMMAND_RELEASE, 1);
    is_int(last_report(REPORT_FAILED)->failure, FAILURE_NO_QUORUM, "such a request fails with NOQUORUM");
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
    const struct sent extension = pass_to_extension();
    ok(extension.operation == OPERATION_EXTEND, "an extension is still sent");
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
    is_int(count_reports(REPORT_RELEASED), 0, "the end of a release that is held back is not reported");
    answer_all(&under_way, 0x7, VOTE_YES);
    pass_ms(2);
    is_int(count_sent(OPERATION_RELEASE), 1, "a release is sent when there is room");
    struct sent release = *last_sent(OPERATION_RELEASE);
    is_int(count_sent(OPERATION_ACQUIRE), 2, "a release is sent before a later attempt");
    answer_all(&release, 0x7, VOTE_YES);
    is_int(count_reports(REPORT_RELEASED), 1, "the end of a release is reported when it is answered");
    pass_ms(2);
    is_int(count_sent(OPERATION_ACQUIRE), 3, "after the release the attempt begins");
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
    ok(harness.shard.leases.taken <= 32, "the oldest owed releases are left to their ttl");
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
       "a slow node is reported as slow");
    while (harness.shard.nodes[2].outstanding > 0)
        vote(2, &sents[0], VOTE_YES);
    pass_ms(PROBE_MS + 100);
    ok(!harness.shard.nodes[2].slow, "after it caught up and answered a probe at once, it is asked again");
    is_string(harness.reasons[2], "", "the end of the slowness is reported, too");
}

/* --- each bound --- */

enum { ATTEMPTS = 4 * NODE_FEW_NAMES, RELEASES = 2 * ATTEMPTS };

static void begin_bounds(void) {
    shard_harness_begin(3);
    harness.shard.attempts_max = ATTEMPTS;
    harness.shard.releases_max = RELEASES;
}

/* So many names are under way to these nodes; the oldest request has waited for so long. */
static void load(node_set nodes, uint32_t names, int64_t age_ms) {
    for (unsigned i = 0; i < harness.shard.config.nodes; i++) {
        struct node *node = &harness.shard.nodes[i];
        if (!(nodes & node_set_of(i)))
            continue;
        node->outstanding = names;
        node->gauge = names > 0;
        node->gauge_ns = harness.now_ns - age_ms * NS_PER_MS;
        node->progress_ns = harness.now_ns;
    }
}

static void slow_down(node_set nodes) {
    for (unsigned i = 0; i < harness.shard.config.nodes; i++)
        harness.shard.nodes[i].slow = nodes & node_set_of(i);
}

static node_set for_attempt(void) {
    return window_for_attempt(&harness.shard, harness.now_ns);
}

static node_set for_extension(int64_t left_ms) {
    const struct lease lease = {.deadline_ns = harness.now_ns + left_ms * NS_PER_MS};

    return window_for_extension(&harness.shard, &lease, harness.now_ns);
}

static node_set for_release(void) {
    return window_for_release(&harness.shard, 0x7, harness.now_ns);
}

static node_set for_backlog(void) {
    return window_for_backlog(&harness.shard, 0x7, harness.now_ns);
}

/* Answers 1 for each kind of request that all nodes have room for: attempt, extension, urgent extension,
 * release, release from the backlog. */
static unsigned rooms(uint32_t names, int64_t age_ms) {
    load(0x7, names, age_ms);
    return (for_attempt() == 0x7) * 10000u + (for_extension(WINDOW_URGENT_MS + 1) == 0x7) * 1000u +
           (for_extension(WINDOW_URGENT_MS) == 0x7) * 100u + (for_release() == 0x7) * 10u +
           (for_backlog() == 0x7);
}

static void test_bounds(void) {
    begin_bounds();
    is_int(rooms(0, 0), 11111, "an idle node has room for all");
    is_int(rooms(ATTEMPTS / 2 - 1, 0), 11111, "less than half of an attempt's window: room for all");
    is_int(rooms(ATTEMPTS / 2, 0), 11110, "half of an attempt's window: the backlog waits");
    is_int(rooms(ATTEMPTS - 1, 0), 11110, "less than an attempt's window: room for attempts");
    is_int(rooms(ATTEMPTS, 0), 1110, "an attempt's window: room for extensions and releases");
    is_int(rooms(RELEASES - 1, 0), 1110, "less than a release's window: room for extensions and releases");
    is_int(rooms(RELEASES, 0), 100, "a release's window: room for extensions of leases that end soon");
    is_int(rooms(2 * RELEASES - 1, 0), 100,
           "less than two windows of a release: room for leases that end soon");
    is_int(rooms(2 * RELEASES, 0), 0, "two windows of a release: no room");
}

static void test_old_requests(void) {
    begin_bounds();
    is_int(rooms(NODE_FEW_NAMES, NODE_QUEUE_MS - 1), 11111, "a short queue has room");
    is_int(rooms(NODE_FEW_NAMES, NODE_QUEUE_MS), 100, "a long queue has room for leases that end soon");
    is_int(rooms(NODE_FEW_NAMES - 1, 10 * NODE_QUEUE_MS), 11111, "few names are no queue, however old");
}

static void test_slow_nodes(void) {
    begin_bounds();
    slow_down(0x4);
    is_int(for_attempt(), 0x3, "attempts do without a slow node");
    is_int(for_extension(5000), 0x7, "extensions ask a slow node, too");
    ok(for_release() == 0x3 && for_backlog() == 0x3, "releases wait until it is prompt");
    is_int(window_prompt(&harness.shard, 0x6), 0x2, "a slow node is not prompt");
    load(0x6, RELEASES, 0);
    is_int(window_is_full(&harness.shard, 0x7, harness.now_ns), 0x2, "nor is it full, and soon has room");
    load(0x6, 0, 0);
    slow_down(0x6);
    is_int(for_attempt(), 0x7, "without a prompt majority attempts use slow nodes too");
    ok(for_release() == 0x7 && for_backlog() == 0x7, "and so do releases");
    is_int(window_prompt(&harness.shard, 0x6), 0x6, "slow nodes count as prompt ones");
    load(0x4, RELEASES, 0);
    is_int(window_is_full(&harness.shard, 0x7, harness.now_ns), 0x4, "and may be full");
    slow_down(0x4);
    harness.shard.nodes[1].trust = NODE_UNKNOWN;
    load(0x4, 0, 0);
    ok(for_release() & 0x4, "nor is a majority prompt if its nodes can't be asked");
}

/* Otherwise the key stays there for its ttl, and other hosts find the name held. */
static void test_release_at_slow_nodes(void) {
    begin_bounds();
    slow_down(0x6);
    hold(1);
    is_int(last_sent(OPERATION_ACQUIRE)->nodes, 0x7, "slow nodes grant a lease");
    slow_down(0x6); /* an answer may have ended that */
    command(COMMAND_RELEASE, 1);
    is_int(last_sent(OPERATION_RELEASE)->nodes, 0x7, "and get its release at once");
    begin_bounds();
    hold(1);
    slow_down(0x6);
    load(0x7, RELEASES, 0);
    command(COMMAND_RELEASE, 1);
    is_int(last_sent(OPERATION_RELEASE) ? last_sent(OPERATION_RELEASE)->nodes : 0, 0,
           "a release is held back while they are full");
    load(0x7, 0, 0);
    shard_tick(&harness.shard, harness.now_ns);
    is_int(last_sent(OPERATION_RELEASE) ? last_sent(OPERATION_RELEASE)->nodes : 0, 0x7,
           "and sent once they have room");
}

static void test_minorities(void) {
    begin_bounds();
    load(0x6, 2 * RELEASES, 0);
    is_int(for_attempt(), 0, "an attempt is held back while only a minority has room");
    is_int(for_extension(5000), 0, "an extension is held back while only a minority has room");
    is_int(for_release(), 0x1, "a release goes to each node that has room");
    harness.shard.nodes[1].trust = harness.shard.nodes[2].trust = NODE_UNKNOWN;
    is_int(for_extension(5000), 0x1,
           "an extension goes to each node that has room while no majority can be asked");
}

/* Nodes that are full until the deadline are as bad as nodes that do not answer. */
static void test_extension_held_back(void) {
    begin_bounds();
    hold(1);
    const struct lease *lease = pool_at(&harness.shard.leases, 0);
    pass_ms((lease->extend_ns - harness.now_ns) / NS_PER_MS - 1);
    load(0x7, 2 * RELEASES, 0);
    unsigned sent = harness.n_sends;
    pass_ms(90);
    is_int(harness.n_sends - sent, 0, "an extension is held back while the nodes are full");
    is_int(count_reports(REPORT_AT_RISK), 0, "within a node time-out no at-risk is reported");
    pass_ms(30);
    is_int(count_reports(REPORT_AT_RISK), 1, "after a node time-out the lease is at risk");
    ok(last_report(REPORT_AT_RISK) && last_report(REPORT_AT_RISK)->reason == REASON_NO_QUORUM,
       "the reason is the lack of a quorum");
    pass_ms(200);
    is_int(count_reports(REPORT_AT_RISK), 1, "at-risk is reported once");
    load(0x7, 0, 0);
    pass_ms(10);
    answer_all(last_sent(OPERATION_EXTEND), 0x7, VOTE_YES);
    is_int(count_reports(REPORT_EXTENDED), 1, "an extension ends the risk");
}

static void test_places(void) {
    begin_bounds();
    instant_ns first_ns = window_place_ns(&harness.shard, harness.now_ns);
    instant_ns second_ns = window_place_ns(&harness.shard, harness.now_ns);
    ok(first_ns > harness.now_ns + NS_PER_MS / 2, "a place is a while ahead");
    ok(second_ns > first_ns, "no two requests have the same place");
    ok(window_place_ns(&harness.shard, second_ns + NS_PER_S) > second_ns + NS_PER_S,
       "no place is in the past");
}

int main(void) {
    test_bounds();
    test_old_requests();
    test_slow_nodes();
    test_release_at_slow_nodes();
    test_minorities();
    test_extension_held_back();
    test_places();
    test_attempts();
    test_held_back_too_long();
    test_extensions();
    test_release_order();
    test_owed();
    test_slow();
    return done_testing();
}
