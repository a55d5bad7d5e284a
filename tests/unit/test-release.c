/* Releases, and keys that stay for a cooldown. Each check names the rule that it guards. */

#include "shard-harness.h"
#include "tap.h"

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
       "rule 4: the node gets the release when it is back, though the request was withdrawn");
    pass_ms(20000);
    is_int(harness.shard.leases.taken, 0, "an owed release is forgotten after the ttl");
}

static void test_release(void) {
    shard_harness_begin(5);
    hold(1);
    command(COMMAND_RELEASE, 1);
    struct sent sent = *last_sent(OPERATION_RELEASE);
    is_int(sent.nodes, 0x1f, "a release goes to all nodes at once");
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    ok(!last_report(REPORT_RELEASED), "two of five have not yet released the name");
    vote(2, &sent, VOTE_YES);
    ok(last_report(REPORT_RELEASED), "a release by three of five nodes is reported");
    vote(3, &sent, VOTE_YES);
    vote(4, &sent, VOTE_YES);
    is_int(harness.shard.leases.taken, 0, "nothing is left when the last node has confirmed");
    is_int(count_reports(REPORT_RELEASED), 1, "a release is reported once");
    command(COMMAND_RELEASE, 1);
    is_int(count_reports(REPORT_RELEASED), 2, "a release of an unknown lease is confirmed, too");
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
           "the cooldown counts from the same instant, however late the grant is reported");
}

static void release_cooling(int64_t left_ms) {
    const struct command command = {
        .kind = COMMAND_RELEASE, .request = 1, .cooldown_until_ns = harness.now_ns + left_ms * NS_PER_MS};

    shard_command(&harness.shard, &command, harness.now_ns);
}

static void test_no_cooldown(void) {
    shard_harness_begin(3);
    hold(1);
    is_int(last_report(REPORT_GRANTED)->cooldown_until_ns, 0, "a lease without a cooldown reports none");
}

static void test_cooldown(void) {
    hold_with_cooldown(2000);
    pass_ms(93);
    release_cooling(1900);
    is_int(count_reports(REPORT_RELEASED), 1, "a release is confirmed at once");
    pass_ms(1899);
    ok(!last_sent(OPERATION_RELEASE), "no key is deleted before the cooldown is over");
    pass_ms(1);
    struct sent sent = *last_sent(OPERATION_RELEASE);
    is_int(sent.nodes, 0x7, "after the cooldown all keys are deleted");
    for (unsigned i = 0; i < 3; i++)
        vote(i, &sent, VOTE_YES);
    is_int(harness.shard.leases.taken, 0, "after the deletion the lease is forgotten");
    is_int(count_reports(REPORT_RELEASED), 1, "reported once");

    hold_with_cooldown(2000);
    pass_ms(2000);
    release_cooling(-7);
    ok(last_sent(OPERATION_RELEASE), "after the cooldown a release deletes at once");

    hold_with_cooldown(2000);
    pass_ms(2000);
    release_cooling(0);
    ok(last_sent(OPERATION_RELEASE), "at the very end of the cooldown a release deletes at once");
}

static void test_cooldown_beyond_ttl(void) {
    hold_with_cooldown(30000);
    struct sent extension = pass_to_extension();
    ok(extension.ttl_ms > 20000 && extension.ttl_ms < 30000,
       "an extension sets the rest of the cooldown as the ttl of the keys: %u ms", extension.ttl_ms);
    for (unsigned i = 0; i < 3; i++)
        vote(i, &extension, VOTE_YES);
    command(COMMAND_ABANDON, 1);
    pass_ms(10000);
    ok(last_report(REPORT_LOST) && !last_sent(OPERATION_RELEASE),
       "a lease lost before then is reported lost, and its keys stay");
    pass_ms(20000);
    ok(last_sent(OPERATION_RELEASE), "after the cooldown the keys of a lost lease are deleted");
}

static void test_cooldown_of_nobody(void) {
    hold_with_cooldown(30000);
    command(COMMAND_RELEASE, 1); /* withdrawn before the front has the grant */
    ok(last_sent(OPERATION_RELEASE), "the keys of an unreported grant are deleted at once");
}

/* Cooling leases are in no quota, and leave their slots to new requests, the oldest first. */
static void test_cooling_without_end(void) {
    enum { SLOTS = 32 /* for 16 requests */, COOLDOWN_MS = 30000 };
    struct command command = {.kind = COMMAND_CONTEND,
                              .terms.ttl_ms = 10000,
                              .terms.node_timeout_ms = 100,
                              .terms.cooldown_ms = COOLDOWN_MS,
                              .text = "x42:",
                              .head_length = 1,
                              .tail_length = 3};
    unsigned granted = 0;

    shard_harness_begin(3);
    for (uint64_t request = 1; request <= 3 * SLOTS; request++) {
        harness.n_sends = harness.n_reports = 0;
        command.request = request;
        shard_command(&harness.shard, &command, harness.now_ns);
        if (!last_sent(OPERATION_ACQUIRE))
            break;
        const struct sent sent = *last_sent(OPERATION_ACQUIRE);
        for (unsigned i = 0; i < 3; i++)
            vote(i, &sent, VOTE_YES);
        granted += count_reports(REPORT_GRANTED);
        const struct command release = {.kind = COMMAND_RELEASE,
                                        .request = request,
                                        .cooldown_until_ns = harness.now_ns + COOLDOWN_MS * NS_PER_MS};
        shard_command(&harness.shard, &release, harness.now_ns);
    }
    is_int(granted, 3 * SLOTS, "any number of cooling leases leaves room for new ones");
    is_int(harness.shard.leases.taken, SLOTS, "of which as many as there are slots are remembered");
    harness.n_sends = 0;
    pass_ms(COOLDOWN_MS - 1);
    is_int(count_sent(OPERATION_RELEASE), 0, "rule 8: no key is deleted before the cooldown is over");
    pass_ms(1);
    is_int(count_sent(OPERATION_RELEASE), SLOTS, "then those of the remembered ones; the others expire");
}

int main(void) {
    test_release_owed();
    test_release();
    test_no_cooldown();
    test_cooldown();
    test_cooldown_beyond_ttl();
    test_cooldown_of_nobody();
    test_cooling_without_end();
    return done_testing();
}
