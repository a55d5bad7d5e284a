/* When a waiting request tries again: polls, expiries, splits, and nodes whose epochs change. */

#include <string.h>

#include "tap.h"
#include "waiting-lease.h"

/* So many leases of a user wait, too. */
static void let_others_wait(uint8_t user, uint32_t count) {
    harness.shard.polls.waiting[user] = harness.shard.polls.total = count;
    harness.shard.polls.users = 1;
}

static void test_polls(void) {
    shard_harness_begin(5);
    contend(1, true);
    meet_holder();
    ok(tries_within_ms(77), "without subscriptions the request polls");

    wait_covered(5);
    ok(!tries_within_ms(250), "with a majority of subscriptions and an agent as the holder it polls rarely");
    ok(tries_within_ms(500), "attempts continue with a majority of subscriptions");

    wait_covered(5);
    while (!tries_within_ms(1))
        ;
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    for (unsigned i = 0; i < 5; i++)
        vote(i, &sent, VOTE_FOREIGN);
    ok(tries_within_ms(77), "another program may delete its key without a message: the request polls");

    wait_covered(5);
    pass_ms(1);
    for (unsigned i = 0; i < 3; i++)
        shard_unsubscribed(&harness.shard, i, harness.now_ns);
    ok(tries_within_ms(77), "without a majority of subscriptions the request polls again");
    meet_holder();
    ok(tries_within_ms(77), "the request polls as long as there is no majority of subscriptions");
    meet_holder();
    unsigned before = count_sent(OPERATION_ACQUIRE);
    pass_ms(1);
    listening(0, harness.now_ns);
    is_int(count_sent(OPERATION_ACQUIRE), before + 1,
           "with a new majority of subscriptions there is one more attempt");
}

/* A node's return starts the next attempt: test-attempt.c. */
static void test_polls_without_quorum(void) {
    shard_harness_begin(3);
    contend(1, true);
    for (unsigned i = 0; i < 3; i++)
        vote(i, last_sent(OPERATION_ACQUIRE), VOTE_FOREIGN);
    node_trust_gone(&harness.shard, 1, NODE_STATE_CONNECTING, "closed", harness.now_ns);
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "closed", harness.now_ns);
    ok(timer_queue_earliest(&harness.shard.due) <= harness.now_ns + 77 * NS_PER_MS, "the request polls");
    pass_ms(201);
    is_int(last_report(REPORT_CONTENDED)->failure, FAILURE_NO_QUORUM,
           "an attempt fails after two node time-outs without a quorum");
    ok(timer_queue_earliest(&harness.shard.due) > harness.now_ns + 200 * NS_PER_MS, "then it polls rarely");
}

/* So many nodes are free in the next attempt, and three more have the holder, with so many ms left; -1:
 * without an expiry. */
static void meet_expiries(unsigned free_nodes, int64_t first, int64_t second, int64_t third) {
    const int64_t ttl_left_ms[] = {first, second, third};

    while (!tries_within_ms(1))
        ;
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    for (unsigned i = 0; i < free_nodes; i++)
        vote(i, &sent, VOTE_YES);
    for (unsigned i = 0; i < 3; i++) {
        struct vote met = held;
        met.ttl_left_ms = ttl_left_ms[i];
        vote_with(free_nodes + i, sent.ticket, &met);
    }
}

static void test_expiries(void) {
    wait_covered(3);
    meet_expiries(0, 20, 20, 20);
    ok(!tries_within_ms(21) && tries_within_ms(2), "an attempt starts when the key that was met expires");
    meet_holder();
    ok(!tries_within_ms(250), "and the times of earlier attempts no longer count");

    wait_covered(5);
    meet_expiries(0, 200, 20, 100);
    ok(!tries_within_ms(21) && tries_within_ms(2),
       "on five nodes when the first of three expires: then three may be free");

    wait_covered(5);
    meet_expiries(2, 200, 20, 100);
    ok(!tries_within_ms(21) && tries_within_ms(2),
       "with two free nodes an attempt starts when the first of three expires");

    wait_covered(5);
    meet_expiries(0, -1, 20, -1);
    ok(!tries_within_ms(21) && tries_within_ms(2), "the first expiry may be the only one");

    wait_covered(4);
    meet_expiries(0, 150, 20, 200);
    ok(!tries_within_ms(151) && tries_within_ms(2), "on four nodes when the second of three expires");

    wait_covered(3);
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "closed", harness.now_ns);
    meet_expiries(0, 150, 20, 0);
    ok(!tries_within_ms(151) && tries_within_ms(2), "on three nodes with one of them down, too");

    wait_covered(5);
    node_trust_gone(&harness.shard, 3, NODE_STATE_CONNECTING, "closed", harness.now_ns);
    node_trust_gone(&harness.shard, 4, NODE_STATE_CONNECTING, "closed", harness.now_ns);
    meet_expiries(0, 150, 20, 200);
    ok(!tries_within_ms(201) && tries_within_ms(2), "on five nodes without two when all three have expired");
    meet_expiries(0, -1, -1, -1);
    ok(!tries_within_ms(250), "no attempt starts for keys that never expire");

    wait_covered(5);
    meet_expiries(0, UINT16_MAX + 20, UINT32_MAX + INT64_C(20), INT64_MAX);
    ok(!tries_within_ms(250), "a key with a minute left, or without an expiry, starts nothing early");
}

static void test_splits(void) {
    wait_covered(5);
    while (!tries_within_ms(1))
        ;
    struct sent sent = *last_sent(OPERATION_ACQUIRE);
    struct vote other = held;
    other.text = "fedcba9876543210fedcba9876543210fedcba98:web2:00c0ffee:4321:1000:data";
    vote(0, &sent, VOTE_YES);
    vote_with(1, sent.ticket, &held);
    vote_with(2, sent.ticket, &held);
    vote(3, &sent, VOTE_YES);
    vote_with(4, sent.ticket, &other);
    unsigned before = count_sent(OPERATION_ACQUIRE);
    for (unsigned i = 0; i < 5; i++)
        freed(i);
    is_int(count_sent(OPERATION_ACQUIRE), before,
           "after a split a message does not start the attempt: chance does");
    ok(tries_within_ms(10), "after a split the next attempt starts within 10 ms");

    wait_covered(4);
    while (!tries_within_ms(1))
        ;
    sent = *last_sent(OPERATION_ACQUIRE);
    vote_with(0, sent.ticket, &held);
    vote_with(1, sent.ticket, &held);
    ok(!tries_within_ms(50),
       "after two of four answers the obstacle is open: the request waits for the others");
    vote_with(2, sent.ticket, &held);
    vote_with(3, sent.ticket, &held);
    ok(!tries_within_ms(250), "a split after two of four answers is a holder after all four");
}

/* From now on until the next attempt. */
static int64_t tries_after_ns(void) {
    unsigned before = count_sent(OPERATION_ACQUIRE);
    instant_ns begun_ns = harness.now_ns;

    while (count_sent(OPERATION_ACQUIRE) == before) {
        harness.now_ns = instant_max(harness.now_ns, shard_due_ns(&harness.shard));
        shard_tick(&harness.shard, harness.now_ns);
    }
    return harness.now_ns - begun_ns;
}

/* The current attempt finds two of three nodes taken by two others. */
static void meet_split(void) {
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    struct vote other = held;

    other.text = "fedcba9876543210fedcba9876543210fedcba98:web2:00c0ffee:4321:1000:data";
    vote(0, &sent, VOTE_YES);
    vote_with(1, sent.ticket, &held);
    vote_with(2, sent.ticket, &other);
}

enum { SEEDS = 32, SPLITS = 12 };
static int64_t delays_ns[SEEDS];

static void delays_differ(int64_t low_ns, int64_t high_ns, const char *what) {
    int64_t least_ns = INT64_MAX, most_ns = 0;
    unsigned outside = 0, same = 0;

    for (unsigned i = 0; i < SEEDS; i++) {
        least_ns = delays_ns[i] < least_ns ? delays_ns[i] : least_ns;
        most_ns = delays_ns[i] > most_ns ? delays_ns[i] : most_ns;
        outside += delays_ns[i] < low_ns || delays_ns[i] > high_ns;
        for (unsigned j = 0; j < i; j++)
            same += delays_ns[i] == delays_ns[j];
    }
    ok(outside == 0 && same == 0 && most_ns - least_ns > (high_ns - low_ns) / 2,
       "%s: from %lld to %lld µs, far apart, and never the same", what, (long long) (low_ns / NS_PER_US),
       (long long) (high_ns / NS_PER_US));
}

/* Chance alone parts contenders: they run the same code, and one release woke them all. */
static void test_parted_by_chance(void) {
    static int64_t all_ns[SPLITS][SEEDS];

    for (unsigned seed = 0; seed < SEEDS; seed++) {
        shard_harness_begin(3);
        random_init(&harness.shard.random, seed);
        contend(1, true);
        for (unsigned i = 0; i < SPLITS; i++) {
            meet_split();
            all_ns[i][seed] = tries_after_ns();
        }
    }
    for (unsigned i = 0; i < SPLITS; i++) {
        memcpy(delays_ns, all_ns[i], sizeof(delays_ns));
        delays_differ(2 * NS_PER_MS, (2 + 8 * (i < 8 ? i + 1 : 8)) * NS_PER_MS,
                      i == 0 ? "after a split" : "after one more");
    }
}

/* The attempt takes so long, and one message of three arrives. */
static void grace_is(int64_t trip_us, int64_t low_us, const char *what) {
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        shard_harness_begin(3);
        random_init(&harness.shard.random, seed);
        contend(1, true);
        harness.now_ns += trip_us * NS_PER_US;
        meet_holder();
        freed(0);
        delays_ns[seed] = tries_after_ns();
    }
    delays_differ(low_us * NS_PER_US, 2 * low_us * NS_PER_US, what);
}

static void test_grace(void) {
    grace_is(700, 700, "after one message the request waits one to two round trips for the others");
    grace_is(10, 100, "on fast nodes somewhat longer");
    grace_is(50000, 2000, "on slow nodes not as long");
}

/* One attempt on three nodes with changed epochs, for example by an agent with a larger max_ttl. */
static void epochs_change(node_set nodes) {
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);

    for (unsigned i = 0; i < 3; i++)
        if (nodes & node_set_of(i))
            vote(i, &sent, VOTE_EPOCH);
}

static void known_again(unsigned node) {
    node_trust_probed(&harness.shard, node, &blessed_node, harness.now_ns);
}

static void test_epochs_change(void) {
    shard_harness_begin(3);
    contend(1, false);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    epochs_change(3);
    ok(!last_report(REPORT_FAILED), "an attempt that failed for changed epochs is repeated");
    known_again(0);
    known_again(1);
    pass_ms(10);
    const struct sent again = *last_sent(OPERATION_ACQUIRE);
    ok(again.ticket != sent.ticket && again.nodes == 7,
       "the attempt is repeated on all nodes once the epochs are known");
    epochs_change(3);
    pass_ms(201);
    ok(last_report(REPORT_FAILED), "without a quorum the attempt is not repeated again");

    shard_harness_begin(3);
    contend(1, false);
    epochs_change(7);
    known_again(0);
    pass_ms(195);
    ok(!last_report(REPORT_FAILED), "the first known node is no quorum");
    known_again(1);
    pass_ms(5);
    is_int(last_sent(OPERATION_ACQUIRE)->nodes, 3, "the attempt starts as soon as there is one");
    const struct sent last = *last_sent(OPERATION_ACQUIRE);
    vote(0, &last, VOTE_YES);
    vote(1, &last, VOTE_YES);
    ok(last_report(REPORT_GRANTED), "the repeated attempt is granted");

    shard_harness_begin(3);
    let_others_wait(0, 60000);
    contend(1, false);
    epochs_change(7);
    known_again(0);
    pass_ms(195);
    ok(!last_report(REPORT_FAILED), "nodes have two node time-outs to come back");
    pass_ms(6);
    ok(last_report(REPORT_FAILED), "after two node time-outs the request fails, however many others wait");

    shard_harness_begin(3);
    let_others_wait(0, 60000);
    contend(1, false);
    epochs_change(1);
    known_again(0);
    epochs_change(2);
    ok(tries_within_ms(76), "others do not delay the attempt where a quorum is known");

    shard_harness_begin(3);
    hold(1);
    command(COMMAND_RELEASE, 1);
    contend(2, false);
    epochs_change(7);
    for (unsigned i = 0; i < 3; i++)
        vote(i, last_sent(OPERATION_RELEASE), VOTE_YES);
    pass_ms(201);
    ok(last_report(REPORT_FAILED) && strstr(harness.texts[harness.n_reports - 1], "its epoch has changed"),
       "a confirmed release does not contradict that");

    /* The attempt is decided before the last changed epochs arrive. */
    shard_harness_begin(3);
    contend(1, false);
    vote(0, last_sent(OPERATION_ACQUIRE), VOTE_FOREIGN);
    epochs_change(2);
    epochs_change(4);
    pass_ms(195);
    ok(!last_report(REPORT_FAILED), "a split waits as long");
    known_again(1);
    pass_ms(5);
    is_int(last_sent(OPERATION_ACQUIRE)->nodes, 3, "a split with changed epochs is repeated");

    shard_harness_begin(5);
    contend(1, false);
    epochs_change(1);
    vote(3, last_sent(OPERATION_ACQUIRE), VOTE_REFUSED);
    vote(4, last_sent(OPERATION_ACQUIRE), VOTE_REFUSED);
    epochs_change(6);
    pass_ms(195);
    ok(!last_report(REPORT_FAILED), "and so do two refusals");
    pass_ms(6);
    ok(last_report(REPORT_FAILED) && strstr(harness.texts[harness.n_reports - 1], "its epoch has changed"),
       "and the failure names the changed epochs");
}

static bool has_failed(uint64_t request) {
    for (unsigned i = 0; i < harness.n_reports; i++)
        if (harness.reports[i].request == request && harness.reports[i].failure == FAILURE_NO_QUORUM &&
            (harness.reports[i].kind == REPORT_FAILED || harness.reports[i].kind == REPORT_CONTENDED))
            return true;
    return false;
}

static void meet_others(void) {
    contend(2, true);
    for (unsigned i = 0; i < 3; i++)
        vote(i, last_sent(OPERATION_ACQUIRE), VOTE_FOREIGN);
}

/* Nothing starts the next attempt but a poll. */
static void test_polls_are_shared(void) {
    shard_harness_begin(3);
    let_others_wait(0, 2000);
    meet_others();
    ok(!tries_within_ms(480), "many waiters of a user poll rarely");
    ok(tries_within_ms(120), "so that all of them share a number of polls");

    shard_harness_begin(3);
    let_others_wait(7, 60000);
    meet_others();
    ok(tries_within_ms(77), "another user's many waiters do not delay the polls");

    shard_harness_begin(3);
    let_others_wait(0, 500);
    harness.shard.polls.users = 200;
    meet_others();
    ok(tries_within_ms(225), "nor do many users who wait for little");
}

/* The attempt begins while epochs that changed for another request are being read. */
static void test_epochs_have_changed(void) {
    shard_harness_begin(3);
    contend(1, false);
    epochs_change(3);
    contend(2, false);
    ok(!has_failed(2), "a request that begins while changed epochs are read does not fail");
    known_again(0);
    known_again(1);
    pass_ms(10);
    is_int(last_sent(OPERATION_ACQUIRE)->nodes, 7, "the attempt begins once the epochs are known");
    is_int(count_sent(OPERATION_ACQUIRE), 3, "that of each request");

    shard_harness_begin(3);
    contend(1, false);
    epochs_change(3);
    contend(2, false);
    pass_ms(195);
    ok(!has_failed(2), "nodes have two node time-outs to be read");
    pass_ms(6);
    ok(has_failed(2), "after two node time-outs the request fails");

    shard_harness_begin(3);
    let_others_wait(0, 2000); /* polls are half a second apart */
    contend(2, true);
    for (unsigned i = 0; i < 3; i++)
        vote(i, last_sent(OPERATION_ACQUIRE), VOTE_FOREIGN);
    pass_ms(480);
    contend(1, false);
    epochs_change(3);
    pass_ms(100);
    is_int(count_sent(OPERATION_ACQUIRE), 2, "one that waits for its holder has no quorum to ask");
    ok(!has_failed(2), "and does not fail either");
    pass_ms(600);
    ok(has_failed(2), "until the next attempt begins without a quorum");

    shard_harness_begin(3);
    contend(1, false);
    epochs_change(1);
    node_trust_gone(&harness.shard, 1, NODE_STATE_FAILED, "refused", harness.now_ns);
    node_trust_gone(&harness.shard, 2, NODE_STATE_FAILED, "refused", harness.now_ns);
    contend(2, false);
    ok(has_failed(2), "a request fails at once where the node being read makes no quorum");
}

int main(void) {
    test_polls();
    test_polls_are_shared();
    test_polls_without_quorum();
    test_expiries();
    test_splits();
    test_parted_by_chance();
    test_grace();
    test_epochs_change();
    test_epochs_have_changed();
    return done_testing();
}
