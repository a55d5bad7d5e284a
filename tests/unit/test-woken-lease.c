/* When a waiting request subscribes, and which messages start its next attempt. */

#include "tap.h"
#include "waiting-lease.h"

static void test_listens(void) {
    shard_harness_begin(5);
    contend(1, true);
    is_int((int64_t) harness.listens, 0, "a first attempt has no subscription");
    meet_holder();
    is_int((int64_t) harness.listens, 1, "a waiting request that met a holder subscribes");
    while (!tries_within_ms(1))
        ;
    is_int((int64_t) harness.listens, 1, "a waiting request stays subscribed during the next attempts");
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    for (unsigned i = 0; i < 3; i++)
        vote(i, &sent, VOTE_YES);
    ok(last_report(REPORT_GRANTED) && harness.listens == 0, "the subscription ends with the grant");
    unsigned before = harness.n_sends;
    freed(0);
    listening(0, harness.now_ns);
    is_int(harness.n_sends, before, "messages after the grant are ignored");

    shard_harness_begin(5);
    contend(1, true);
    meet_holder();
    command(COMMAND_RELEASE, 1);
    is_int((int64_t) harness.listens, 0, "the subscription ends with a withdrawal");

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
    is_int(count_sent(OPERATION_ACQUIRE), 2, "a fourth subscription starts no further attempt");

    shard_harness_begin(5);
    contend(1, true);
    instant_ns begun_ns = harness.now_ns;
    meet_holder();
    for (unsigned i = 0; i < 5; i++)
        listening(i, begun_ns - 1);
    is_int(count_sent(OPERATION_ACQUIRE), 1, "subscriptions from before the attempt start none");
    ok(!tries_within_ms(250), "subscriptions from before the attempt cover it: the request polls rarely");

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
    ok(tries_within_ms(1), "subscriptions that began during an attempt start another one");
}

/* A node's message during the attempt makes its subscription begin anew (wakeup_released()). */
static void test_covers_in_part(void) {
    shard_harness_begin(3);
    contend(1, true);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    instant_ns begun_ns = harness.now_ns;
    vote_with(0, sent.ticket, &held);
    vote_with(2, sent.ticket, &held);
    listening(0, begun_ns - 1);
    listening(1, begun_ns - 1);
    listening(2, begun_ns + 1);
    is_int(count_sent(OPERATION_ACQUIRE), 1, "the key of one node may be gone: that starts no attempt");
    vote(1, &sent, VOTE_YES);
    ok(tries_within_ms(1), "but together with a late vote that is a majority");
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
    ok(!last_report(REPORT_GRANTED), "messages are no votes");
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    vote(0, &sent, VOTE_YES);
    vote(2, &sent, VOTE_YES);
    ok(!last_report(REPORT_GRANTED), "two votes and three messages grant nothing");
    vote(4, &sent, VOTE_YES);
    ok(last_report(REPORT_GRANTED), "three votes grant the lease");

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

/* The next attempt meets the holder on two of three nodes. */
static struct sent meet_holder_on_two(void) {
    wait_covered(3);
    while (!tries_within_ms(1))
        ;
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    vote_with(0, sent.ticket, &held);
    return sent;
}

/* Keyspace notifications report the deletion of an attempt's own key, too. */
static void test_own_deletion(void) {
    struct sent sent = meet_holder_on_two();
    vote(2, &sent, VOTE_YES);
    vote_with(1, sent.ticket, &held);
    freed(2);
    ok(!tries_within_ms(250), "the message of the attempt's own deletion starts none");
    freed(1);
    is_int(last_sent(OPERATION_ACQUIRE)->ticket != sent.ticket, 1, "a message where it met the holder does");

    sent = meet_holder_on_two();
    vote_with(1, sent.ticket, &held);
    freed(2);
    ok(!tries_within_ms(100), "nor does such a message that arrives before the node's answer");
    vote(2, &sent, VOTE_YES);
    freed(2);
    ok(!tries_within_ms(100), "or after a late answer");

    sent = meet_holder_on_two();
    freed(2);
    vote(2, &sent, VOTE_YES);
    vote_with(1, sent.ticket, &held);
    ok(!tries_within_ms(250), "or comes from the attempt before");

    sent = meet_holder_on_two();
    vote_with(1, sent.ticket, &held);
    freed(2);
    vote_with(2, sent.ticket, &held);
    ok(tries_within_ms(10), "but it counts if the late answer shows the holder there");

    static const enum vote_kind others[] = {VOTE_EPOCH, VOTE_REFUSED, VOTE_CUT};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        sent = meet_holder_on_two();
        vote_with(1, sent.ticket, &held);
        freed(2);
        vote(2, &sent, others[i]);
        ok(tries_within_ms(10), "and if the late answer is of kind %d, so shows nothing", (int) others[i]);
    }

    wait_covered(5);
    while (!tries_within_ms(1))
        ;
    sent = *last_sent(OPERATION_ACQUIRE);
    vote(4, &sent, VOTE_YES);
    for (unsigned i = 0; i < 3; i++)
        vote_with(i, sent.ticket, &held);
    freed(4);
    freed(0);
    ok(tries_within_ms(10), "one message of the holder's release is enough, after a short grace");
}

static void test_slow_nodes(void) {
    shard_harness_begin(5);
    contend(1, true);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    vote_with(0, sent.ticket, &held);
    pass_ms(101);
    is_int((int64_t) harness.listens, 0, "with too few answers in time no holder is known");
    vote_with(1, sent.ticket, &held);
    is_int((int64_t) harness.listens, 0, "with a late second answer no holder is known");
    vote_with(2, sent.ticket, &held);
    is_int((int64_t) harness.listens, 1,
           "with a third answer the holder is known, and the request subscribes");
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
    is_int(count_sent(OPERATION_ACQUIRE), 0,
           "an attempt that met no holder is not woken by its own release");

    shard_harness_begin(5);
    hold(1);
    command(COMMAND_RELEASE, 1);
    ok(!last_sent(OPERATION_RELEASE)->quiet, "a holder's release sends a message");
}

int main(void) {
    test_listens();
    test_covers();
    test_covers_in_part();
    test_woken();
    test_one_free_already();
    test_own_deletion();
    test_quiet();
    test_slow_nodes();
    return done_testing();
}
