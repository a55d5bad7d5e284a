/* Retries and wake-ups of a waiting request, in a shard with given votes and messages. */

#include <assert.h>

#include "tap.h"
#include "shard-harness.h"

static const struct vote held = {.kind = VOTE_FOREIGN,
                                 .text = "0123456789abcdef0123456789abcdef01234567"
                                         ":web1:00c0ffee:4321:1000:data",
                                 .text_length = 69,
                                 .ttl_left_ms = 8000};

/* The current attempt meets the same holder on all nodes. */
static void meet_holder(void) {
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    for (unsigned i = 0; i < harness.shard.config.nodes; i++)
        vote_with(i, sent.ticket, &held);
}

static void listening(unsigned node, instant_ns since_ns) {
    shard_subscribed(&harness.shard, node, 1, since_ns, harness.now_ns);
}

static void freed(unsigned node) {
    shard_freed(&harness.shard, node, 1, harness.now_ns);
}

/* Waits for a holder, with subscriptions on all nodes. */
static void wait_covered(unsigned nodes) {
    shard_harness_begin(nodes);
    contend(1, true);
    meet_holder();
    pass_ms(1);
    for (unsigned i = 0; i < nodes; i++)
        listening(i, harness.now_ns);
    meet_holder();
}

static bool tries_within_ms(int64_t ms) {
    unsigned before = count_sent(OPERATION_ACQUIRE);
    pass_ms(ms);
    return count_sent(OPERATION_ACQUIRE) > before;
}

static void test_listens(void) {
    shard_harness_begin(5);
    contend(1, true);
    is_int((int64_t) harness.listens, 0, "a first attempt has no subscription");
    meet_holder();
    is_int((int64_t) harness.listens, 1, "a waiting request that met a holder subscribes");
    while (!tries_within_ms(1))
        ;
    is_int((int64_t) harness.listens, 1, "and stays subscribed during the next attempts");
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    for (unsigned i = 0; i < 3; i++)
        vote(i, &sent, VOTE_YES);
    ok(last_report(REPORT_GRANTED) && harness.listens == 0, "until it is granted");
    freed(0);
    listening(0, harness.now_ns);
    ok(true, "later messages are ignored");

    shard_harness_begin(5);
    contend(1, true);
    meet_holder();
    command(COMMAND_RELEASE, 1);
    is_int((int64_t) harness.listens, 0, "or withdrawn");

    shard_harness_begin(5);
    contend(1, false);
    meet_holder();
    is_int((int64_t) harness.listens, 0, "a request that does not wait does not subscribe");
}

static void test_covers(void) {
    shard_harness_begin(5);
    contend(1, true);
    meet_holder();
    pass_ms(1);
    listening(0, harness.now_ns);
    listening(1, harness.now_ns);
    is_int(count_sent(OPERATION_ACQUIRE), 1, "subscriptions on two of five nodes change nothing");
    listening(2, harness.now_ns);
    is_int(count_sent(OPERATION_ACQUIRE), 2,
           "a majority of subscriptions starts one more attempt at once, since the name may have become "
           "free before");
    meet_holder();
    listening(3, harness.now_ns);
    is_int(count_sent(OPERATION_ACQUIRE), 2, "and no more than one");

    shard_harness_begin(5);
    contend(1, true);
    instant_ns begun_ns = harness.now_ns;
    meet_holder();
    for (unsigned i = 0; i < 5; i++)
        listening(i, begun_ns - 1);
    is_int(count_sent(OPERATION_ACQUIRE), 1, "subscriptions from before the attempt start none");
    ok(!tries_within_ms(250), "and cover it: the request polls rarely");

    shard_harness_begin(5);
    contend(1, true);
    for (unsigned i = 0; i < 5; i++)
        vote_with(i, last_sent(OPERATION_ACQUIRE)->ticket, &held);
    pass_ms(1);
    while (!tries_within_ms(1))
        ;
    for (unsigned i = 0; i < 3; i++)
        listening(i, harness.now_ns + 1);
    is_int(count_sent(OPERATION_ACQUIRE), 2, "subscriptions that begin during an attempt wait for its end");
    meet_holder();
    ok(tries_within_ms(1), "and then start another one");
}

static void test_woken(void) {
    wait_covered(5);
    unsigned before = count_sent(OPERATION_ACQUIRE);
    freed(4);
    freed(2);
    freed(2);
    is_int(count_sent(OPERATION_ACQUIRE), before, "two of five messages start no attempt");
    freed(0);
    is_int(count_sent(OPERATION_ACQUIRE), before + 1, "three start the next attempt at once");
    ok(!last_report(REPORT_GRANTED), "but a message is no vote");
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    vote(0, &sent, VOTE_YES);
    vote(2, &sent, VOTE_YES);
    ok(!last_report(REPORT_GRANTED), "two votes and three messages grant nothing");
    vote(4, &sent, VOTE_YES);
    ok(last_report(REPORT_GRANTED), "three votes do");

    wait_covered(5);
    freed(3);
    ok(tries_within_ms(10), "one message is enough, after a short grace");

    wait_covered(3);
    while (!tries_within_ms(1))
        ;
    freed(1);
    const struct sent blind = *last_sent(OPERATION_ACQUIRE);
    for (unsigned i = 0; i < 3; i++)
        vote_with(i, blind.ticket, &held);
    ok(tries_within_ms(10), "a message during an attempt counts for the next one");
}

static void test_one_free_already(void) {
    wait_covered(5);
    while (!tries_within_ms(1))
        ;
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    for (unsigned i = 2; i < 5; i++)
        vote_with(i, sent.ticket, &held);
    unsigned before = count_sent(OPERATION_ACQUIRE);
    freed(3);
    is_int(count_sent(OPERATION_ACQUIRE), before + 1,
           "two votes of the last attempt and one message are a majority: an attempt starts at once");
}

static void test_polls(void) {
    shard_harness_begin(5);
    contend(1, true);
    meet_holder();
    ok(tries_within_ms(77), "without subscriptions the request polls");

    wait_covered(5);
    ok(!tries_within_ms(250), "with a majority of subscriptions and an agent as the holder it polls rarely");
    ok(tries_within_ms(500), "but attempts continue");

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
    ok(tries_within_ms(77), "when the majority ends, the request polls again");
    meet_holder();
    ok(tries_within_ms(77), "as long as there is none");
    meet_holder();
    unsigned before = count_sent(OPERATION_ACQUIRE);
    pass_ms(1);
    listening(0, harness.now_ns);
    is_int(count_sent(OPERATION_ACQUIRE), before + 1, "when it is back, there is one more attempt");
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
    ok(!tries_within_ms(21) && tries_within_ms(2), "or with two nodes that are free already");

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
    ok(!tries_within_ms(250), "unless they never expire");

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
    ok(tries_within_ms(10), "in a moment");

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

static void test_slow_nodes(void) {
    shard_harness_begin(5);
    contend(1, true);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    vote_with(0, sent.ticket, &held);
    pass_ms(101);
    is_int((int64_t) harness.listens, 0, "with too few answers in time no holder is known");
    vote_with(1, sent.ticket, &held);
    is_int((int64_t) harness.listens, 0, "nor with a late second one");
    vote_with(2, sent.ticket, &held);
    is_int((int64_t) harness.listens, 1, "with a third one it is, and the request subscribes");
}

static void test_quiet(void) {
    shard_harness_begin(5);
    contend(1, true);
    struct sent sent = *last_sent(OPERATION_ACQUIRE);
    for (unsigned i = 0; i < 3; i++)
        vote_with(i, sent.ticket, &held);
    ok(last_sent(OPERATION_RELEASE)->quiet,
       "a failed attempt with keys on two of five nodes releases without a message");

    shard_harness_begin(5);
    contend(1, true);
    pass_ms(101);
    ok(!last_sent(OPERATION_RELEASE)->quiet,
       "an attempt with a possible majority publishes its release: others may have met it");
    harness.n_sends = 0;
    for (unsigned i = 0; i < 5; i++)
        listening(i, harness.now_ns);
    for (unsigned i = 0; i < 5; i++)
        freed(i);
    is_int(count_sent(OPERATION_ACQUIRE), 0, "but not its own: it met no holder");

    shard_harness_begin(5);
    hold(1);
    command(COMMAND_RELEASE, 1);
    ok(!last_sent(OPERATION_RELEASE)->quiet, "a holder's release sends a message");
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
    ok(again.ticket != sent.ticket && again.nodes == 7, "once the epochs are known");
    epochs_change(3);
    pass_ms(201);
    ok(last_report(REPORT_FAILED), "but not without a quorum");

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
    ok(last_report(REPORT_GRANTED), "and granted");

    shard_harness_begin(3);
    harness.shard.waiting = 60000;
    contend(1, false);
    epochs_change(7);
    known_again(0);
    pass_ms(195);
    ok(!last_report(REPORT_FAILED), "nodes have two node time-outs to come back");
    pass_ms(6);
    ok(last_report(REPORT_FAILED), "then the request fails, however many others wait");

    shard_harness_begin(3);
    harness.shard.waiting = 60000;
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
    is_int(last_sent(OPERATION_ACQUIRE)->nodes, 3, "and is repeated");

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

int main(void) {
    test_listens();
    test_covers();
    test_woken();
    test_one_free_already();
    test_polls();
    test_expiries();
    test_splits();
    test_parted_by_chance();
    test_grace();
    test_slow_nodes();
    test_quiet();
    test_epochs_change();
    return done_testing();
}
