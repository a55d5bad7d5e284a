/* Leader queries: the value that a majority of the nodes has. Each check names the rule that it guards. */

#include "core/validity.h"
#include "shard-harness.h"
#include "tap.h"

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
    ok(last_report(REPORT_LEADER) && last_report(REPORT_LEADER)->text,
       "three nodes with one value show the leader");
    is_int(last_report(REPORT_LEADER)->validity_ms, 300, "valid as long as a majority has it");
    look.request = 100;
    shard_command(&harness.shard, &look, harness.now_ns);
    sent = *last_sent(OPERATION_QUERY);
    for (unsigned i = 0; i < 3; i++)
        vote(i, &sent, VOTE_FREE);
    ok(last_report(REPORT_LEADER)->request == 100 && !last_report(REPORT_LEADER)->text,
       "free on a majority: no leader");
    ok(!last_report(REPORT_LEADER)->undecided, "for certain");
    look.request = 101;
    shard_command(&harness.shard, &look, harness.now_ns);
    sent = *last_sent(OPERATION_QUERY);
    vote(0, &sent, VOTE_FREE);
    vote_with(1, sent.ticket, &one);
    vote_with(2, sent.ticket, &one);
    pass_ms(200);
    ok(last_report(REPORT_LEADER)->request == 101 && !last_report(REPORT_LEADER)->text,
       "two keys of one value and two silent nodes: no leader");
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
    ok(last_report(REPORT_LEADER)->request == 101, "a type differs from a value with the same letters");
    vote_with(3, sent.ticket, &for_ever);
    ok(last_report(REPORT_LEADER)->request == 102 && !last_report(REPORT_LEADER)->foreign_type,
       "a value has a majority");
    is_int(last_report(REPORT_LEADER)->validity_ms, 300, "valid until one of the majority expires");
    look.request = 103;
    shard_command(&harness.shard, &look, harness.now_ns);
    sent = *last_sent(OPERATION_QUERY);
    for (unsigned i = 0; i < 3; i++)
        vote_with(i, sent.ticket, &type);
    ok(last_report(REPORT_LEADER)->request == 103 && last_report(REPORT_LEADER)->foreign_type,
       "a type has a majority, and is reported as a type");
    is_int(last_report(REPORT_LEADER)->validity_ms, -1, "without an expiry: -1");
}

int main(void) {
    test_look();
    return done_testing();
}
