/* The core's rules, by way of a shard with given time and given votes. Each check names the rule that it
 * guards. */

#include <assert.h>

#include "core/validity.h"
#include "tap.h"
#include "shard-harness.h"

/* --- acquiring --- */

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
           "the deadline counts from before the first send, less ttl/100 + 2 ms");
}

static void test_quorum_is_of_the_configured(void) {
    shard_harness_begin(5);
    for (unsigned i = 2; i < 5; i++)
        node_trust_gone(&harness.shard, i, NODE_STATE_CONNECTING, "connection refused", harness.now_ns);
    contend(1, false);
    ok(last_report(REPORT_FAILED), "rule 1: with two of five reachable the attempt fails at once");
    is_int(last_report(REPORT_FAILED)->failure, FAILURE_NO_QUORUM, "and it says no quorum");
    is_string(harness.texts[0], "0 of 5 nodes voted, 3 are needed; c, d, e: connection refused",
              "with the reason, once for all nodes that share it");
    shard_harness_begin(5);
    for (unsigned i = 2; i < 5; i++)
        node_trust_gone(&harness.shard, i, NODE_STATE_CONNECTING, i == 3 ? "no route" : "refused",
                        harness.now_ns);
    contend(1, false);
    is_string(harness.texts[0], "0 of 5 nodes voted, 3 are needed; c: refused; d: no route; e: refused",
              "or with that of each node");
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
    ok(!last_report(REPORT_FAILED), "a tie in which nobody won is tried again even without WAIT");
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
    is_int(last_sent(OPERATION_RELEASE)->nodes, 0x7, "rule 4: also where no answer came: maybe held");
    pass_ms(100);
    struct sent second = *last_sent(OPERATION_ACQUIRE);
    ok(second.ticket != first.ticket, "a new attempt is under way");
    vote(1, &first, VOTE_YES);
    vote(2, &first, VOTE_YES);
    ok(!last_report(REPORT_GRANTED), "rule 3: late answers of an earlier attempt don't count");
    vote(1, &second, VOTE_YES);
    vote(2, &second, VOTE_YES);
    ok(last_report(REPORT_GRANTED), "those of this attempt do");
}

static void test_release_owed(void) {
    shard_harness_begin(3);
    contend(1, true);
    struct sent sent = *last_sent(OPERATION_ACQUIRE);
    vote(0, &sent, VOTE_FOREIGN);
    vote(1, &sent, VOTE_CUT);
    vote(2, &sent, VOTE_FOREIGN);
    struct sent release = *last_sent(OPERATION_RELEASE);
    vote(1, &release, VOTE_CUT);
    vote(2, &release, VOTE_YES);
    node_trust_gone(&harness.shard, 1, NODE_STATE_CONNECTING, "closed", harness.now_ns);
    command(COMMAND_RELEASE, 1);
    node_joins(1);
    ok(last_sent(OPERATION_RELEASE) && last_sent(OPERATION_RELEASE)->nodes == 0x2,
       "rule 4: it gets the release when it is back, though the request was withdrawn");
    pass_ms(20000);
    is_int(harness.shard.leases.taken, 0, "and after the ttl all is forgotten");
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
    ok(last_report(REPORT_FAILED), "and the request is told");
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
    is_int(last_report(REPORT_FAILED)->failure, FAILURE_BUSY, "held by another: busy");
    is_string(harness.texts[0], "held by web1:00c0ffee:4321, 8123 ms left",
              "with the holder and the longest time left");
    is_int(last_sent(OPERATION_RELEASE)->nodes, 0x18,
           "nodes that showed another's value are owed no release");

    shard_harness_begin(1);
    contend(1, false);
    const struct vote hash = {
        .kind = VOTE_FOREIGN, .foreign_type = true, .text = "hash", .text_length = 4, .ttl_left_ms = -1};
    vote_with(0, last_sent(OPERATION_ACQUIRE)->ticket, &hash);
    is_string(harness.texts[0], "its Redis key holds a hash, which is no lock of ours, without an expiry",
              "a key of a foreign type is reported");
}

/* --- extending --- */

static void test_extension(void) {
    shard_harness_begin(5);
    hold(1);
    instant_ns deadline_ns = last_report(REPORT_GRANTED)->deadline_ns;
    pass_ms(3370);
    is_int(count_sent(OPERATION_EXTEND), 0, "no extension before 0.9 of three eighths of the ttl");
    struct sent sent = pass_to_extension();
    ok(harness.now_ns <= deadline_ns - 6140 * NS_PER_MS, "one at three eighths at the latest");
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    ok(!last_report(REPORT_EXTENDED), "rule 7: two of five don't extend");
    vote(2, &sent, VOTE_REPAIRED);
    ok(!last_report(REPORT_EXTENDED), "rule 7: a repaired vote does not count in its round");
    vote(3, &sent, VOTE_YES);
    ok(last_report(REPORT_EXTENDED) && last_report(REPORT_EXTENDED)->deadline_ns > deadline_ns,
       "three of five do: the deadline moves");
}

/* Ten leases, taken at once, and one 1.2 s later: that is more than a twelfth of the ttl, however their
 * times fall. test-extension-schedule has the rest. */
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
    is_int(count_sent(OPERATION_EXTEND), 10, "extensions that are nearly due go along with the first one");
    pass_ms(20);
    is_int(count_sent(OPERATION_EXTEND), 10, "others have their own time");
}

static unsigned count_probing(void) {
    unsigned count = 0;

    for (unsigned i = 0; i < harness.shard.config.nodes; i++)
        count += harness.shard.nodes[i].probing ? 1 : 0;
    return count;
}

static void test_probed_along(void) {
    shard_harness_begin(3);
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "closed", harness.now_ns);
    pass_ms(1000); /* then each knows of the others */
    pass_ms(8400);
    node_trust_probe_early(&harness.shard, 1500 * NS_PER_MS, harness.now_ns);
    is_int(count_probing(), 0, "a probe is not much earlier than due");
    pass_ms(200);
    node_trust_probe_early(&harness.shard, 1500 * NS_PER_MS, harness.now_ns);
    is_int(count_probing(), 2,
           "but goes along with what the nodes are asked anyway, where they can be asked");
    is_int(shard_due_ns(&harness.shard) - harness.now_ns, NODE_STALLED_MS * NS_PER_MS,
           "its answer is awaited like that of any other");
}

/* What holds an extension back does so too when others take it along. */
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
    is_int(
        count_sent(OPERATION_EXTEND), 1,
        "rules 8 and 9: one without a beat, one at its max_hold, one that is abandoned stay where they are");
    vote(0, &sent, VOTE_YES);
    ok(last_report(REPORT_EXTENDED) && last_report(REPORT_EXTENDED)->request == 4, "it is the fourth");
}

/* The next one would come after the end of max_hold. */
static void test_extended_late(void) {
    shard_harness_begin(1);
    contend_with(1, true, 0, 12000);
    vote(0, last_sent(OPERATION_ACQUIRE), VOTE_YES);
    instant_ns begun_ns = harness.now_ns, end_ns = begun_ns + 12 * NS_PER_S;
    for (unsigned tries = 1; harness.now_ns - begun_ns < 8500 * NS_PER_MS; tries++) {
        while (count_sent(OPERATION_EXTEND) < tries && harness.now_ns < end_ns)
            pass_ms(1);
        vote(0, last_sent(OPERATION_EXTEND),
             harness.now_ns - begun_ns < 8500 * NS_PER_MS ? VOTE_REFUSED : VOTE_YES);
    }
    ok(last_report(REPORT_EXTENDED) && last_report(REPORT_EXTENDED)->deadline_ns == end_ns,
       "extended at last, up to its max_hold");
    pass_ms((end_ns - harness.now_ns) / NS_PER_MS - 10);
    is_int(last_report(REPORT_AT_RISK)->reason, REASON_MAX_HOLD, "rule 13: its holder is told before that");
    pass_ms(20);
    is_int(last_report(REPORT_LOST)->reason, REASON_MAX_HOLD, "and why it is over then");
}

static void test_extension_fails(void) {
    shard_harness_begin(3);
    hold(1);
    instant_ns deadline_ns = last_report(REPORT_GRANTED)->deadline_ns;
    struct sent first = pass_to_extension();
    vote(0, &first, VOTE_YES);
    vote(1, &first, VOTE_REFUSED);
    vote(2, &first, VOTE_REFUSED);
    ok(last_report(REPORT_AT_RISK), "rule 13: a failed extension is told at once");
    is_int(last_report(REPORT_AT_RISK)->deadline_ns, deadline_ns, "rule 7: the old deadline stays");
    ok(!last_sent(OPERATION_RELEASE), "rule 7: nothing valid is thrown away");
    pass_ms(100);
    ok(count_sent(OPERATION_EXTEND) == 2, "rule 7: it is tried again");
    struct sent second = *last_sent(OPERATION_EXTEND);
    vote(1, &first, VOTE_YES);
    ok(!last_report(REPORT_EXTENDED), "answers of an older extension round don't count");
    vote(0, &second, VOTE_YES);
    vote(2, &second, VOTE_YES);
    ok(last_report(REPORT_EXTENDED), "and succeeds");
    is_int(count_reports(REPORT_AT_RISK), 1, "at-risk was told once");
}

static void test_expiry(void) {
    shard_harness_begin(3);
    hold(1);
    instant_ns deadline_ns = last_report(REPORT_GRANTED)->deadline_ns;
    while (!last_report(REPORT_LOST))
        pass_ms(10);
    ok(harness.now_ns >= deadline_ns && harness.now_ns <= deadline_ns + 10 * NS_PER_MS,
       "rule 13: lost is told when the deadline passes");
    is_int(last_report(REPORT_LOST)->reason, REASON_NO_QUORUM, "the reason is that no quorum extended it");
    struct sent extension = *last_sent(OPERATION_EXTEND);
    for (unsigned i = 0; i < 3; i++)
        vote(i, &extension, VOTE_YES);
    ok(!last_report(REPORT_EXTENDED), "rule 7: an extension never revives a lease");
}

/* Slow nodes are not asked anew as long as their late answers may extend the lease; when these come to
 * nothing it is tried again soon, however long the ttl. */
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
    is_int(count_reports(REPORT_AT_RISK), 1, "nodes are slow");
    is_int(count_sent(OPERATION_EXTEND), 1, "they are not asked anew, though another node has answered no");
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_REPAIRED);
    pass_ms(1000);
    is_int(count_sent(OPERATION_EXTEND), 2, "but soon after an answer that calls for another round");

    shard_harness_begin(3);
    hold(1);
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "closed", harness.now_ns);
    sent = pass_to_extension();
    vote(0, &sent, VOTE_YES);
    pass_ms(400);
    is_int(count_sent(OPERATION_EXTEND), 1, "a slow node is waited for");
    node_joins(2);
    pass_ms(10);
    is_int(count_sent(OPERATION_EXTEND), 2, "but not when another can be asked meanwhile");

    shard_harness_begin(3);
    hold(1);
    sent = pass_to_extension();
    vote(0, &sent, VOTE_YES);
    pass_ms(TTL_MS / 4 - 100);
    is_int(count_sent(OPERATION_EXTEND), 1, "silent ones are waited for");
    pass_ms(1200);
    ok(count_sent(OPERATION_EXTEND) > 1, "for a quarter of the ttl, and no longer");
}

/* One node refuses at once, which must not end the wait for the slow ones; nor may these keep us from it. */
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
           "who refused is asked once more, and the slow ones are waited for");
        unsigned asked = count_sent(OPERATION_EXTEND);
        pass_ms(600);
        is_int(count_sent(OPERATION_EXTEND), asked, "not while it is silent, too");
        vote(0, &sent, VOTE_YES);
        vote(late == 0 ? 1 : 2, &sent, VOTE_YES);
        is_int(count_reports(REPORT_EXTENDED), 1,
               late == 0 ? "two that are late extend the lease"
                         : "so do one of them and the one that refused");
        ok(last_report(REPORT_EXTENDED)->deadline_ns <= validity_deadline_ns(sent_ns, TTL_MS),
           "the time counts from the first request");
    }
}

static void test_late_extension(void) {
    shard_harness_begin(3);
    hold(1);
    struct sent sent = pass_to_extension();
    harness.now_ns = last_report(REPORT_GRANTED)->deadline_ns; /* the loop was late: no tick came */
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    ok(!last_report(REPORT_EXTENDED) && last_report(REPORT_LOST),
       "rule 7: answers after the deadline come too late");
    ok(last_sent(OPERATION_RELEASE), "rule 8: after the deadline the keys may go");
}

static void test_paused(void) {
    shard_harness_begin(3);
    hold(1);
    harness.now_ns += 30 * NS_PER_S;
    shard_tick(&harness.shard, harness.now_ns);
    ok(last_report(REPORT_LOST) && last_report(REPORT_LOST)->reason == REASON_PAUSED,
       "rule 13: an agent that slept past the deadline says paused");
    is_int(count_sent(OPERATION_EXTEND), 0, "and does not try to extend");
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
    ok(last_report(REPORT_LOST) && last_report(REPORT_LOST)->reason == REASON_TAKEN,
       "three: taken by another");
    is_int(count_sent(OPERATION_RELEASE), releases, "rule 8: no key is deleted before the deadline");
    pass_ms(7000);
    ok(count_sent(OPERATION_RELEASE) > releases, "afterwards they are");
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
    is_int(count_sent(OPERATION_EXTEND), 0, "rule 9: no BEAT, no extension");
    ok(last_report(REPORT_AT_RISK) && last_report(REPORT_AT_RISK)->reason == REASON_HEARTBEAT,
       "at risk for that reason");
    command(COMMAND_BEAT, 1);
    pass_ms(0);
    is_int(count_sent(OPERATION_EXTEND), 1, "a BEAT in time brings the extension back");
    command(COMMAND_BEAT, 1);
    pass_ms(0);
    ok(count_sent(OPERATION_EXTEND) == 1 && last_report(REPORT_AT_RISK)->reason == REASON_HEARTBEAT,
       "another one leaves that under way alone");
    vote(0, last_sent(OPERATION_EXTEND), VOTE_YES);
    pass_ms(20000);
    ok(last_report(REPORT_LOST) && last_report(REPORT_LOST)->reason == REASON_HEARTBEAT,
       "a hung holder loses it");
}

/* --- releasing --- */

static void test_release(void) {
    shard_harness_begin(5);
    hold(1);
    command(COMMAND_RELEASE, 1);
    struct sent sent = *last_sent(OPERATION_RELEASE);
    is_int(sent.nodes, 0x1f, "a release goes to all nodes at once");
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    ok(!last_report(REPORT_RELEASED), "two of five have not yet freed the name");
    vote(2, &sent, VOTE_YES);
    ok(last_report(REPORT_RELEASED), "three have");
    vote(3, &sent, VOTE_YES);
    vote(4, &sent, VOTE_YES);
    is_int(harness.shard.leases.taken, 0, "all is forgotten when the last node has confirmed");
    is_int(count_reports(REPORT_RELEASED), 1, "told once");
    command(COMMAND_RELEASE, 1);
    is_int(count_reports(REPORT_RELEASED), 2, "a release of what is not there is confirmed too");
}

/* Asks for "x" as contend() does, with a cooldown; a majority grants it 7 ms later. */
static void hold_with_cooldown(uint32_t cooldown_ms) {
    const struct command command = {.kind = COMMAND_CONTEND,
                                    .request = 1,
                                    .terms.ttl_ms = 10000,
                                    .terms.node_timeout_ms = 100,
                                    .terms.cooldown_ms = cooldown_ms,
                                    .text = "x42:",
                                    .head_length = 1,
                                    .tail_length = 3};

    shard_harness_begin(3);
    shard_command(&harness.shard, &command, harness.now_ns);
    struct sent acquire = *last_sent(OPERATION_ACQUIRE);
    is_int(acquire.ttl_ms, cooldown_ms > 10000 ? cooldown_ms : 10000,
           "the keys live for all of the cooldown");
    pass_ms(7);
    for (unsigned i = 0; i < 3; i++)
        vote(i, &acquire, VOTE_YES);
    is_int(last_report(REPORT_GRANTED)->deadline_ns, harness.now_ns + (9898 - 7) * NS_PER_MS,
           "the holder's validity is that of the ttl");
    is_int(last_report(REPORT_GRANTED)->cooldown_until_ns,
           harness.now_ns + ((int64_t) cooldown_ms - 7) * NS_PER_MS,
           "and the cooldown counts from the same instant, however late the grant is told");
}

static void release_cooling(int64_t left_ms) {
    const struct command command = {
        .kind = COMMAND_RELEASE, .request = 1, .cooldown_until_ns = harness.now_ns + left_ms * NS_PER_MS};

    shard_command(&harness.shard, &command, harness.now_ns);
}

static void test_cooldown(void) {
    hold_with_cooldown(2000);
    pass_ms(93);
    release_cooling(1900);
    is_int(count_reports(REPORT_RELEASED), 1, "a release is confirmed at once");
    pass_ms(1899);
    ok(!last_sent(OPERATION_RELEASE), "and nothing is deleted before the cooldown is over");
    pass_ms(1);
    struct sent sent = *last_sent(OPERATION_RELEASE);
    is_int(sent.nodes, 0x7, "then all keys are");
    for (unsigned i = 0; i < 3; i++)
        vote(i, &sent, VOTE_YES);
    is_int(harness.shard.leases.taken, 0, "and all is forgotten");
    is_int(count_reports(REPORT_RELEASED), 1, "told once");

    hold_with_cooldown(2000);
    pass_ms(2000);
    release_cooling(-7);
    ok(last_sent(OPERATION_RELEASE), "after the cooldown a release deletes at once");
}

static void test_cooldown_beyond_ttl(void) {
    hold_with_cooldown(30000);
    struct sent extension = pass_to_extension();
    ok(extension.ttl_ms > 20000 && extension.ttl_ms < 30000,
       "an extension leaves the keys what is left of the cooldown: %u ms", extension.ttl_ms);
    for (unsigned i = 0; i < 3; i++)
        vote(i, &extension, VOTE_YES);
    command(COMMAND_ABANDON, 1);
    pass_ms(10000);
    ok(last_report(REPORT_LOST) && !last_sent(OPERATION_RELEASE),
       "one that is lost before is lost, and its keys stay");
    pass_ms(20000);
    ok(last_sent(OPERATION_RELEASE), "until the cooldown is over");
}

static void test_cooldown_of_nobody(void) {
    hold_with_cooldown(30000);
    command(COMMAND_RELEASE, 1); /* withdrawn, before the front heard of the grant */
    ok(last_sent(OPERATION_RELEASE), "a grant of which nobody was told is deleted at once");
}

static void test_abandon(void) {
    shard_harness_begin(3);
    hold(1);
    command(COMMAND_ABANDON, 1);
    pass_ms(9800);
    is_int(count_sent(OPERATION_EXTEND) + count_sent(OPERATION_RELEASE), 0,
           "rule 8: an abandoned lease is neither extended nor deleted while its holder may believe in it");
    pass_ms(200);
    ok(last_report(REPORT_LOST) && last_report(REPORT_LOST)->reason == REASON_CLOSED,
       "it is lost at its deadline");
    ok(last_sent(OPERATION_RELEASE), "and deleted then");
}

static void test_withdraw_under_way(void) {
    shard_harness_begin(3);
    contend(1, true);
    struct sent acquire = *last_sent(OPERATION_ACQUIRE);
    command(COMMAND_RELEASE, 1);
    ok(last_sent(OPERATION_RELEASE), "a request withdrawn in the middle of an attempt releases behind it");
    for (unsigned i = 0; i < 3; i++)
        vote(i, &acquire, VOTE_YES);
    ok(!last_report(REPORT_GRANTED), "a late grant is none");
}

/* --- nodes --- */

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
    is_int(acquire.nodes, 0x3, "a node that is silent for a second is not asked any more");
    pass_ms(4100);
    is_int(harness.cuts, 1, "after five seconds its connection is given up");
    vote(2, &release, VOTE_YES);
    contend(3, false);
    is_int(last_sent(OPERATION_ACQUIRE)->nodes, 0x7, "an answer brings it back");
}

/* --- trust --- */

/* A node that was trusted is found to have lost its memory: its answer to an attempt. */
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
    ok(!(shard_askable(&harness.shard) & 1), "and is not asked");
    trusted_nodes_answer();
    instant_ns until_ns = node_trust_until_ns(&harness.shard, 0);
    is_int((until_ns - harness.now_ns) / NS_PER_MS, 61602, "it is known when its quarantine ends");
    pass_marked_ms(61500);
    is_int(node_trust_until_ns(&harness.shard, 0), until_ns, "which stays as long as the mark stands");
    is_int(harness.blessings[0], 0,
           "rule 10: not blessed before max_ttl, its drift and a margin have passed");
    pass_ms(150);
    is_int(harness.blessings[0], 1, "then it is");
    probed(0, &blessed_node);
    ok(shard_askable(&harness.shard) & 1, "and votes");
    is_int(node_trust_until_ns(&harness.shard, 0), INSTANT_NEVER, "then nothing ends");
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
    ok(harness.leaves[0] && harness.marks[0] != first, "rule 10: when the mark is gone another one is left");
    probed(0, &marked_node);
    pass_marked_ms(5000);
    is_int(harness.blessings[0], 0, "and the time begins anew");
}

static void test_unconfirmed_mark(void) {
    shard_harness_begin(3);
    lose_memory(0);
    uint32_t first = harness.marks[0];
    node_trust_gone(&harness.shard, 0, NODE_STATE_CONNECTING, "cut", harness.now_ns);
    pass_ms(100000);
    node_trust_ready(&harness.shard, 0, harness.now_ns);
    ok(harness.leaves[0] && harness.marks[0] != first,
       "rule 10: a mark whose leaving was not confirmed proves nothing");
    probed(0, &marked_node);
    pass_marked_ms(5000);
    is_int(harness.blessings[0], 0, "the time begins with the new one");
}

static void test_mark_outlives_connection(void) {
    shard_harness_begin(3);
    lose_memory(0);
    uint32_t first = harness.marks[0];
    probed(0, &marked_node);
    node_trust_gone(&harness.shard, 0, NODE_STATE_CONNECTING, "cut", harness.now_ns);
    pass_ms(100000);
    node_trust_ready(&harness.shard, 0, harness.now_ns);
    ok(!harness.leaves[0] && harness.marks[0] == first, "a confirmed mark is looked for after a reconnect");
    trusted_nodes_answer();
    probed(0, &marked_node);
    is_int(harness.blessings[0], 1, "if it stands, the time goes on meanwhile");
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

/* A foreign key with a ttl of 300 years: as if it had none. */
static void test_endless_key(void) {
    const struct vote endless = {
        .kind = VOTE_FOREIGN, .text = "x", .text_length = 1, .ttl_left_ms = INT64_C(9223372036900)};

    shard_harness_begin(3);
    contend(1, true);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    for (unsigned i = 0; i < 3; i++)
        vote_with(i, sent.ticket, &endless);
    pass_ms(10);
    is_int(count_sent(OPERATION_ACQUIRE), 1,
           "a key that hardly ever expires is not asked for at once again");
}

static void is_told(enum node_state node_state, const char *reason, const char *why) {
    is_int(harness.node_states[0], node_state, why);
    is_string(harness.reasons[0], reason, "with the reason");
}

static void test_node_states(void) {
    shard_harness_begin(3);
    node_trust_gone(&harness.shard, 0, NODE_STATE_CONNECTING, "refused", harness.now_ns);
    is_told(NODE_STATE_CONNECTING, "refused", "a node that is out of reach is told");
    node_trust_ready(&harness.shard, 0, harness.now_ns);
    is_told(NODE_STATE_PROBING, "being examined", "one that is back is not what it was");
    probed(0, &blessed_node);
    is_told(NODE_STATE_VOTING, "", "one that may be trusted votes");
}

static void test_operator_blesses(void) {
    shard_harness_begin(3);
    lose_memory(0);
    probed(0, &marked_node);
    node_trust_bless(&harness.shard, 0, harness.now_ns);
    is_int(harness.blessings[0], 1, "an operator may bless before the time");

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
    is_int(harness.blessings[0], 0, "a blessing does not outlive the connection");
}

static void test_look(void) {
    shard_harness_begin(5);
    struct command look = {
        .kind = COMMAND_QUERY, .request = 99, .terms.node_timeout_ms = 100, .text = "x", .head_length = 1};
    shard_command(&harness.shard, &look, harness.now_ns);
    struct sent sent = *last_sent(OPERATION_QUERY);
    const struct vote one = {.kind = VOTE_FOREIGN, .text = "one", .text_length = 3, .ttl_left_ms = 300};
    const struct vote longer = {.kind = VOTE_FOREIGN, .text = "one", .text_length = 3, .ttl_left_ms = 900};
    const struct vote two = {.kind = VOTE_FOREIGN, .text = "two", .text_length = 3, .ttl_left_ms = 700};
    vote_with(0, sent.ticket, &one);
    vote_with(1, sent.ticket, &two);
    vote_with(2, sent.ticket, &longer);
    ok(!last_report(REPORT_LEADER), "two to one of five is open");
    vote_with(3, sent.ticket, &longer);
    ok(last_report(REPORT_LEADER) && last_report(REPORT_LEADER)->text, "three of one value are the leader");
    is_int(last_report(REPORT_LEADER)->validity_ms, 300, "valid as long as a majority has it");
    look.request = 100;
    shard_command(&harness.shard, &look, harness.now_ns);
    sent = *last_sent(OPERATION_QUERY);
    for (unsigned i = 0; i < 3; i++)
        vote(i, &sent, VOTE_FREE);
    ok(last_report(REPORT_LEADER)->request == 100 && !last_report(REPORT_LEADER)->text,
       "free on a majority: nobody");
    ok(!last_report(REPORT_LEADER)->undecided, "for certain");
    look.request = 101;
    shard_command(&harness.shard, &look, harness.now_ns);
    sent = *last_sent(OPERATION_QUERY);
    vote(0, &sent, VOTE_FREE);
    vote_with(1, sent.ticket, &one);
    vote_with(2, sent.ticket, &one);
    pass_ms(200);
    ok(last_report(REPORT_LEADER)->request == 101 && !last_report(REPORT_LEADER)->text,
       "two keys of one value, and two nodes that are silent: nobody");
    ok(last_report(REPORT_LEADER)->undecided, "but not for certain");
    const struct vote for_ever = {.kind = VOTE_FOREIGN, .text = "one", .text_length = 3, .ttl_left_ms = -1};
    const struct vote type = {
        .kind = VOTE_FOREIGN, .text = "one", .text_length = 3, .ttl_left_ms = -1, .foreign_type = true};
    look.request = 102;
    shard_command(&harness.shard, &look, harness.now_ns);
    sent = *last_sent(OPERATION_QUERY);
    vote_with(0, sent.ticket, &one);
    vote_with(1, sent.ticket, &for_ever);
    vote_with(2, sent.ticket, &type);
    ok(last_report(REPORT_LEADER)->request == 101, "a type is no value of the same letters");
    vote_with(3, sent.ticket, &for_ever);
    ok(last_report(REPORT_LEADER)->request == 102 && !last_report(REPORT_LEADER)->foreign_type,
       "a value has a majority");
    is_int(last_report(REPORT_LEADER)->validity_ms, 300, "valid until one of that majority is not");
    look.request = 103;
    shard_command(&harness.shard, &look, harness.now_ns);
    sent = *last_sent(OPERATION_QUERY);
    for (unsigned i = 0; i < 3; i++)
        vote_with(i, sent.ticket, &type);
    ok(last_report(REPORT_LEADER)->request == 103 && last_report(REPORT_LEADER)->foreign_type,
       "a type has, and is called one");
    is_int(last_report(REPORT_LEADER)->validity_ms, -1, "without an expiry: -1");
}

int main(void) {
    test_grant();
    test_quorum_is_of_the_configured();
    test_even_tie();
    test_stale_reply();
    test_release_owed();
    test_late_majority();
    test_busy();
    test_extension();
    test_extensions_travel_together();
    test_left_alone();
    test_extended_late();
    test_probed_along();
    test_extension_fails();
    test_expiry();
    test_late_extension();
    test_late_answers_awaited();
    test_refusing_and_slow();
    test_paused();
    test_taken();
    test_bounds();
    test_release();
    test_cooldown();
    test_cooldown_beyond_ttl();
    test_cooldown_of_nobody();
    test_abandon();
    test_withdraw_under_way();
    test_stalled_node();
    test_quarantine();
    test_mark_lost();
    test_unconfirmed_mark();
    test_mark_outlives_connection();
    test_blessed_by_others();
    test_endless_key();
    test_node_states();
    test_operator_blesses();
    test_look();
    return done_testing();
}
