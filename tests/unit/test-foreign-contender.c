/* Pauses that agents leave after a release, in which lock clients that poll find the name free. */

#include <assert.h>

#include "core/foreign-contender.h"
#include "core/lease-table.h"
#include "tap.h"
#include "shard-harness.h"

static const struct vote agents = {.kind = VOTE_FOREIGN,
                                   .text = "0123456789abcdef0123456789abcdef01234567"
                                           ":web1:00c0ffee:4321:1000:data",
                                   .text_length = 69,
                                   .ttl_left_ms = 8000};
static const struct vote librarys = {
    .kind = VOTE_FOREIGN, .text = "5a0c", .text_length = 4, .ttl_left_ms = 8000};
static const struct vote hash = {
    .kind = VOTE_FOREIGN, .foreign_type = true, .text = "hash", .text_length = 4, .ttl_left_ms = 8000};

/* The current attempt meets this on all nodes. */
static void meet(const struct vote *vote) {
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    for (unsigned i = 0; i < harness.shard.config.nodes; i++)
        vote_with(i, sent.ticket, vote);
}

static unsigned attempts(void) {
    return count_sent(OPERATION_ACQUIRE);
}

/* Milliseconds until the next attempt. */
static unsigned next_attempt_ms(void) {
    unsigned before = attempts(), ms = 0;

    while (attempts() == before && ms < 1000) {
        pass_ms(1);
        ms++;
    }
    return ms;
}

/* Request 1 waits, with subscriptions, and has met these holders one after the other. */
static void wait_behind(const struct vote *first, const struct vote *second) {
    shard_harness_begin(3);
    contend(1, true);
    instant_ns begun_ns = harness.now_ns;
    meet(first);
    for (unsigned i = 0; i < 3; i++)
        shard_subscribed(&harness.shard, i, 1, begun_ns - 1, harness.now_ns);
    (void) next_attempt_ms();
    meet(second);
}

static void released(void) {
    for (unsigned i = 0; i < 3; i++)
        shard_freed(&harness.shard, i, 1, harness.now_ns);
}

static void test_woken(void) {
    wait_behind(&agents, &agents);
    unsigned before = attempts();
    released();
    is_int(attempts(), before + 1, "among agents a release starts the next attempt at once");

    wait_behind(&librarys, &agents);
    before = attempts();
    released();
    is_int(attempts(), before, "where a library had the name before, an agent's release does not");
    unsigned ms = next_attempt_ms();
    ok(ms >= 25 && ms <= 76, "the next attempt comes after the delay of a poll (%u ms)", ms);

    wait_behind(&hash, &agents);
    before = attempts();
    released();
    is_int(attempts(), before, "nor where a key of another type was met");

    wait_behind(&librarys, &librarys);
    before = attempts();
    released();
    is_int(attempts(), before + 1, "a library's release does: it had its turn");

    wait_behind(&librarys, &agents);
    harness.now_ns += 30 * NS_PER_S;
    shard_tick(&harness.shard, harness.now_ns);
    meet(&agents);
    before = attempts();
    released();
    is_int(attempts(), before + 1, "and an agent's does after 30 s without the library");
}

static void test_reported(void) {
    wait_behind(&agents, &agents);
    unsigned before = attempts();
    shard_left(&harness.shard, 1, harness.now_ns);
    released();
    is_int(attempts(), before, "an agent that did not meet the library notices it by the release");
    ok(next_attempt_ms() >= 25, "and leaves the name free, too");
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    for (unsigned i = 0; i < 3; i++)
        vote(i, &sent, VOTE_YES);
    command(COMMAND_RELEASE, 1);
    ok(!last_sent(OPERATION_RELEASE)->left, "but does not pass it on");
}

static void test_messages_in_an_attempt(void) {
    wait_behind(&librarys, &agents);
    (void) next_attempt_ms();
    released();
    unsigned before = attempts();
    meet(&agents);
    is_int(attempts(), before, "messages during an attempt start none after it");
    unsigned ms = next_attempt_ms();
    ok(ms >= 25 && ms <= 76, "but the delay of a poll (%u ms)", ms);
}

/* Request 1 waits beside a library, has met an agent's lease on nodes 0 and 2, and node 1 said yes. It was
 * subscribed on nodes 0 and 1 before. */
static void meet_in_part(void) {
    shard_harness_begin(3);
    contend(1, true);
    meet(&librarys);
    (void) next_attempt_ms();
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    shard_subscribed(&harness.shard, 0, 1, harness.now_ns - 10 * NS_PER_MS, harness.now_ns);
    shard_subscribed(&harness.shard, 1, 1, harness.now_ns - 10 * NS_PER_MS, harness.now_ns);
    vote_with(0, sent.ticket, &agents);
    vote_with(2, sent.ticket, &agents);
    vote(1, &sent, VOTE_YES);
}

/* The key of node 2 may be gone, which with node 1 is a majority. */
static void test_due_in_a_pause(void) {
    meet_in_part();
    unsigned ms = next_attempt_ms();
    ok(ms >= 300, "while a message is sure to come, polls are rare (%u ms)", ms);

    meet_in_part();
    unsigned before = attempts();
    shard_subscribed(&harness.shard, 2, 1, harness.now_ns + 1, harness.now_ns);
    is_int(attempts(), before, "a subscription that makes an attempt due starts none in a pause");
    ms = next_attempt_ms();
    ok(ms >= 25 && ms <= 76, "it comes after the delay of a poll (%u ms)", ms);
}

/* A majority is subscribed, and only a minority was before the attempt. */
static void test_uncovered_in_a_pause(void) {
    wait_behind(&agents, &agents);
    shard_unsubscribed(&harness.shard, 0, harness.now_ns);
    shard_unsubscribed(&harness.shard, 2, harness.now_ns);
    shard_left(&harness.shard, 1, harness.now_ns);
    unsigned before = attempts();
    shard_subscribed(&harness.shard, 0, 1, harness.now_ns, harness.now_ns);
    is_int(attempts(), before, "an attempt that is to cover new subscriptions leaves the name free, too");
    unsigned ms = next_attempt_ms();
    ok(ms >= 20 && ms <= 76, "for the delay of a poll (%u ms)", ms);

    wait_behind(&agents, &agents);
    shard_unsubscribed(&harness.shard, 0, harness.now_ns);
    shard_unsubscribed(&harness.shard, 2, harness.now_ns);
    before = attempts();
    shard_subscribed(&harness.shard, 0, 1, harness.now_ns, harness.now_ns);
    is_int(attempts(), before + 1, "without a library near it starts at once");
}

/* Request 1 gets the name after this holder, and releases it. */
static void hold_after(const struct vote *former) {
    shard_harness_begin(3);
    contend(1, true);
    meet(former);
    (void) next_attempt_ms();
    struct sent sent = *last_sent(OPERATION_ACQUIRE);
    for (unsigned i = 0; i < 3; i++)
        vote(i, &sent, VOTE_YES);
    assert(last_report(REPORT_GRANTED));
    command(COMMAND_RELEASE, 1);
    sent = *last_sent(OPERATION_RELEASE);
    for (unsigned i = 0; i < 3; i++)
        vote(i, &sent, VOTE_YES);
}

static void test_next_of_this_host(void) {
    hold_after(&agents);
    unsigned before = attempts();
    contend(2, true);
    is_int(attempts(), before + 1, "after an agent the next request of this host contends at once");

    hold_after(&librarys);
    ok(last_sent(OPERATION_RELEASE)->left, "after a library the release reports it to other agents");
    before = attempts();
    contend(2, true);
    is_int(attempts(), before, "and the next request leaves the name free");
    ok(last_report(REPORT_CONTENDED), "and the front knows that the request waits for others");
    unsigned ms = next_attempt_ms();
    ok(ms >= 25 && ms <= 76, "for as long as between two polls (%u ms)", ms);

    hold_after(&librarys);
    before = attempts();
    contend(2, false);
    is_int(attempts(), before + 1, "a request that does not wait tries at once");

    hold_after(&librarys);
    pass_ms(80);
    before = attempts();
    contend(2, true);
    is_int(attempts(), before + 1, "and so does one that comes later");
}

static void test_how_long(void) {
    const int64_t while_ns = FOREIGN_CONTENDER_MS * NS_PER_MS;

    shard_harness_begin(3);
    contend(1, true);
    const struct lease *lease = lease_table_find(&harness.shard, 1);
    instant_ns met_ns = harness.now_ns;
    ok(!foreign_contender_is_near(&harness.shard, lease, met_ns), "none was met");
    foreign_contender_met(&harness.shard, lease, met_ns);
    ok(foreign_contender_was_met(&harness.shard, lease, met_ns + while_ns - 1) &&
           foreign_contender_is_near(&harness.shard, lease, met_ns + while_ns - 1),
       "one that was met is near for a while");
    ok(!foreign_contender_was_met(&harness.shard, lease, met_ns + while_ns) &&
           !foreign_contender_is_near(&harness.shard, lease, met_ns + while_ns),
       "and not longer");
    foreign_contender_reported(&harness.shard, lease, met_ns + while_ns);
    ok(!foreign_contender_was_met(&harness.shard, lease, met_ns + while_ns) &&
           foreign_contender_is_near(&harness.shard, lease, met_ns + while_ns),
       "one that a node reports is near, too");
    foreign_contender_leave(&harness.shard, lease, met_ns + 5);
    is_int(foreign_contender_pause_ns(&harness.shard, lease, met_ns + 2), 3, "the rest of a pause");
    is_int(foreign_contender_pause_ns(&harness.shard, lease, met_ns + 6), 0, "and none after it");
}

int main(void) {
    test_how_long();
    test_woken();
    test_reported();
    test_messages_in_an_attempt();
    test_due_in_a_pause();
    test_uncovered_in_a_pause();
    test_next_of_this_host();
    return done_testing();
}
