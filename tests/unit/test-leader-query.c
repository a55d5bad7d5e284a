/* Leader queries: the value that a majority of the nodes has. Each check names the rule that it guards. */

#include "core/leader-query.h"
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

/* The next query has the place of the one that ended. */
static void test_late_answer(void) {
    const struct vote value = {.kind = VOTE_FOREIGN, .text = "one", .text_length = 3, .ttl_left_ms = 300};
    struct command look = {
        .kind = COMMAND_QUERY, .request = 99, .terms.node_timeout_ms = 100, .text = "x", .head_length = 1};

    shard_harness_begin(3);
    shard_command(&harness.shard, &look, harness.now_ns);
    const struct sent first = *last_sent(OPERATION_QUERY);
    vote_with(0, first.ticket, &value);
    pass_ms(101);
    ok(last_report(REPORT_FAILED), "a query without answers ends");
    look.request = 100;
    shard_command(&harness.shard, &look, harness.now_ns);
    const struct sent second = *last_sent(OPERATION_QUERY);
    vote_with(0, second.ticket, &value);
    vote_with(1, first.ticket, &value);
    ok(!last_report(REPORT_LEADER), "a late answer to it does not count for the next one");
    vote_with(1, second.ticket, &value);
    is_int(last_report(REPORT_LEADER)->request, 100, "whose own answers do");
}

static struct command query_of(uint64_t request) {
    return (struct command){.kind = COMMAND_QUERY,
                            .request = request,
                            .terms.node_timeout_ms = 100,
                            .text = "x",
                            .head_length = 1};
}

static void query(uint64_t request) {
    const struct command command = query_of(request);
    shard_command(&harness.shard, &command, harness.now_ns);
}

/* As many queries as there is room for, and one. */
static void test_full(void) {
    shard_harness_begin(3);
    for (unsigned i = 1; i <= LEADER_QUERIES_MAX; i++) {
        query(i);
        harness.n_sends = 0;
    }
    is_int(harness.n_reports, 0, "so many queries may be under way");
    query(LEADER_QUERIES_MAX + 1);
    ok(last_report(REPORT_FAILED) && last_report(REPORT_FAILED)->failure == FAILURE_QUOTA &&
           last_report(REPORT_FAILED)->request == LEADER_QUERIES_MAX + 1,
       "one more is rejected");
    is_int(harness.n_sends, 0, "and no node is asked");
}

/* An agent that starts waits for the nodes that may make a quorum. */
static void test_start(void) {
    shard_harness_begin(3);
    for (unsigned i = 0; i < 3; i++)
        node_trust_gone(&harness.shard, i, NODE_STATE_PROBING, "closed", harness.now_ns);
    for (unsigned i = 0; i < 3; i++)
        harness.shard.nodes[i].known = false;
    query(1);
    is_int(count_sent(OPERATION_QUERY), 0, "no node is asked before one is known");
    node_joins(0);
    is_int(count_sent(OPERATION_QUERY), 0, "nor while one of three is");
    node_joins(2);
    is_int(count_sent(OPERATION_QUERY), 1, "a majority is asked");
    is_int(last_sent(OPERATION_QUERY)->nodes, 5, "those that are known");
    node_joins(1);
    is_int(count_sent(OPERATION_QUERY), 1, "and asked once");
    const struct sent sent = *last_sent(OPERATION_QUERY);
    vote(0, &sent, VOTE_FREE);
    vote(1, &sent, VOTE_FREE);
    ok(!last_report(REPORT_LEADER), "a node that was not asked has no vote");
    vote(0, &sent, VOTE_FREE);
    ok(!last_report(REPORT_LEADER), "and each has one");
    vote(2, &sent, VOTE_FREE);
    ok(last_report(REPORT_LEADER) && !last_report(REPORT_LEADER)->undecided, "two free keys of three");
}

/* A node that hangs gets a bounded number of queries (core/window.h). The others answer at once. */
static void test_node_hangs(void) {
    unsigned to_hung = 0, answered = 0;

    shard_harness_begin(3);
    for (uint64_t request = 1; request <= 2 * NODE_ATTEMPTS_MAX; request++) {
        harness.n_sends = harness.n_reports = 0;
        query(request);
        const struct sent sent = *last_sent(OPERATION_QUERY);
        to_hung += (sent.nodes & node_set_of(2)) != 0;
        vote(0, &sent, VOTE_FREE);
        vote(1, &sent, VOTE_FREE);
        answered += count_reports(REPORT_LEADER);
    }
    is_int(answered, 2 * NODE_ATTEMPTS_MAX,
           "two nodes of three answer all queries while the third one hangs");
    is_int(to_hung, NODE_ATTEMPTS_MAX, "which gets so many, and no more");
}

/* No majority has room for a query: it waits for the first answers. */
static void test_held_back(void) {
    shard_harness_begin(3);
    harness.shard.attempts_max = 1;
    contend(9, true);
    const struct sent attempt = *last_sent(OPERATION_ACQUIRE);
    query(1);
    pass_ms(5);
    is_int(count_sent(OPERATION_QUERY), 0, "without room on a majority a query is held back");
    vote(0, &attempt, VOTE_YES);
    pass_ms(5);
    is_int(count_sent(OPERATION_QUERY), 0, "also while a minority has room");
    vote(1, &attempt, VOTE_YES);
    pass_ms(5);
    is_int(count_sent(OPERATION_QUERY), 1, "and sent once a majority has");
    const struct sent sent = *last_sent(OPERATION_QUERY);
    is_int(sent.nodes, 3, "to the nodes that have room");
    vote(0, &sent, VOTE_FREE);
    vote(1, &sent, VOTE_FREE);
    is_int(count_reports(REPORT_LEADER), 1, "which decide");

    shard_harness_begin(3);
    harness.shard.attempts_max = 1;
    contend(9, true);
    query(1);
    pass_ms(99);
    is_int(count_reports(REPORT_FAILED), 0, "it waits for as long as for answers");
    pass_ms(2);
    ok(last_report(REPORT_FAILED) && last_report(REPORT_FAILED)->failure == FAILURE_NO_QUORUM,
       "and fails then");
    const unsigned last = (unsigned) (last_report(REPORT_FAILED) - harness.reports);
    is_int(harness.reports[last].request, 1, "the query");
    is_string(harness.texts[last], "too many requests are under way to the nodes: repeat the request",
              "for want of room");
    is_int(count_sent(OPERATION_QUERY), 0, "without a request to the nodes");

    shard_harness_begin(3);
    harness.shard.attempts_max = 1;
    contend(9, true);
    harness.shard.place_ns = harness.now_ns + NS_PER_S;
    query(1);
    pass_ms(101);
    ok(last_report(REPORT_FAILED), "nor for longer, when the queue is long");
}

/* It does not wait for its place in the queue, which then means nothing. */
static void test_node_comes_back(void) {
    shard_harness_begin(3);
    harness.shard.attempts_max = 1;
    contend(9, true);
    const struct sent attempt = *last_sent(OPERATION_ACQUIRE);
    query(1);
    vote(0, &attempt, VOTE_YES);
    vote(1, &attempt, VOTE_YES);
    node_trust_recovered(&harness.shard, 2, harness.now_ns);
    is_int(count_sent(OPERATION_QUERY), 1, "a query that is held back is sent when a node comes back");
    pass_ms(50);
    ok(!last_report(REPORT_FAILED), "and has its time");
}

static void test_no_quorum(void) {
    shard_harness_begin(3);
    node_trust_gone(&harness.shard, 0, NODE_STATE_FAILED, "refused", harness.now_ns);
    node_trust_gone(&harness.shard, 1, NODE_STATE_FAILED, "refused", harness.now_ns);
    query(1);
    ok(last_report(REPORT_FAILED) && last_report(REPORT_FAILED)->failure == FAILURE_NO_QUORUM,
       "without a quorum a query fails at once");
    is_int(count_sent(OPERATION_QUERY), 0, "and no node is asked");
    is_int(count_reports(REPORT_FAILED), 1, "once");
    is_string(harness.texts[harness.n_reports - 1], "0 of 3 nodes voted, 2 are needed; a, b: refused",
              "the text does not blame the node that works, and was not asked");
}

static void vote_value(unsigned node, const struct sent *sent, const char *value, int64_t token) {
    vote_with(node, sent->ticket,
              &(struct vote){.kind = VOTE_FOREIGN,
                             .text = value,
                             .text_length = strlen(value),
                             .ttl_left_ms = 0,
                             .token = token});
}

/* After the time-out: a value may have a majority with the silent nodes, or not. */
static void test_silent_nodes(void) {
#define FIRST "00112233445566778899aabbccddeeff0011"
#define SECOND "ffeeddccbbaa99887766554433221100ffee"
    static const struct {
        const char *values[5]; /* "": free; NULL: silent */
        bool undecided, changing;
        const char *what;
    } cases[] = {
        {{"one", "", "", NULL, NULL}, true, true, "one key and two silent nodes of five may be a majority"},
        {{"one", "two", "", "", NULL}, false, false, "two values, and one silent node, are none"},
        {{"one", "one", "two", "", NULL}, true, true, "two keys of one value may be one with a silent node"},
        {{"", "", "", NULL, NULL}, false, false, "nor can two silent nodes be one alone"},
        {{FIRST "0001:web1:0badcafe:4:0:", FIRST "0001:web1:0badcafe:4:0:", SECOND "0001:web1:0badcafe:5:0:",
          "", NULL},
         true,
         true,
         "a value that has two nodes, with another of its agent"},
        {{FIRST "0001:web1:0badcafe:4:0:", FIRST "0001:web1:0badcafe:4:0:", SECOND "0001:web1:0badcafe:5:0:",
          "", ""},
         false,
         true,
         "two values of one agent have a majority together"},
        {{FIRST "0001:web1:0badcafe:4:0:", FIRST "0001:web1:0badcafe:4:0:", FIRST "0002:web2:cafe0bad:4:0:",
          "", ""},
         false,
         true,
         "two values of one lease, which another agent resumes, have one together"},
        {{FIRST "0001:web1:0badcafe:4:0:", FIRST "0001:web1:0badcafe:4:0:", SECOND "0001:web1:cafe0bad:4:0:",
          "", ""},
         false,
         false,
         "the values of two agents of a host don't count as one"},
        {{"one:web1:0badcafe:4:0:", "one:web1:0badcafe:4:0:", "two:web1:0badcafe:4:0:", "", ""},
         false,
         false,
         "nor do two values of another program"},
    };
#undef FIRST
#undef SECOND

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        shard_harness_begin(5);
        query(1);
        const struct sent sent = *last_sent(OPERATION_QUERY);
        for (unsigned node = 0; node < 5; node++) {
            const char *value = cases[i].values[node];
            if (value && *value)
                vote_value(node, &sent, value, 0);
            else if (value)
                vote(node, &sent, VOTE_FREE);
        }
        pass_ms(200);
        ok(last_report(REPORT_LEADER) && !last_report(REPORT_LEADER)->text &&
               last_report(REPORT_LEADER)->undecided == cases[i].undecided &&
               last_report(REPORT_LEADER)->changing == cases[i].changing,
           "%s", cases[i].what);
    }
}

/* The token that a majority of the nodes with the holder's key has. */
static void test_token(void) {
    shard_harness_begin(5);
    query(1);
    struct sent sent = *last_sent(OPERATION_QUERY);
    vote_value(0, &sent, "one", 7);
    vote_value(1, &sent, "two", 9);
    vote_value(2, &sent, "one", 7);
    vote_value(3, &sent, "one", 7);
    is_int(last_report(REPORT_LEADER)->token, 7, "three nodes with one token");
    is_int(last_report(REPORT_LEADER)->validity_ms, 0, "a key that ends now");
    query(2);
    sent = *last_sent(OPERATION_QUERY);
    vote_value(0, &sent, "one", 7);
    vote_value(1, &sent, "one", 9);
    vote_value(2, &sent, "one", 7);
    is_int(last_report(REPORT_LEADER)->token, 0, "two are too few");
    query(3);
    sent = *last_sent(OPERATION_QUERY);
    vote_value(0, &sent, "one", 7);
    vote_value(1, &sent, "two", 7);
    vote_value(2, &sent, "two", 7);
    vote(3, &sent, VOTE_CUT);
    is_int(last_report(REPORT_LEADER)->request, 2, "two of five nodes are silent or cut off");
    vote(4, &sent, VOTE_CUT);
    ok(last_report(REPORT_LEADER)->request == 3 && last_report(REPORT_LEADER)->undecided,
       "a value of two nodes may have a majority with two silent ones");
    query(4);
    sent = *last_sent(OPERATION_QUERY);
    vote_value(0, &sent, "one", 7);
    vote(1, &sent, VOTE_FREE);
    vote(2, &sent, VOTE_FREE);
    vote(4, &sent, VOTE_FREE);
    ok(last_report(REPORT_LEADER)->request == 4 && !last_report(REPORT_LEADER)->undecided,
       "a value of one may not, with one");
    query(5);
    sent = *last_sent(OPERATION_QUERY);
    vote_value(0, &sent, "one", 7);
    vote_value(1, &sent, "two", 7);
    vote(2, &sent, VOTE_FREE);
    vote(3, &sent, VOTE_FREE);
    vote(4, &sent, VOTE_CUT);
    ok(last_report(REPORT_LEADER)->request == 5 && !last_report(REPORT_LEADER)->undecided,
       "nor may two values, each of one node");
}

static void test_long_value(void) {
    static char value[SHARED_STRING_BYTES_MAX + 2];

    memset(value, 'v', sizeof(value) - 1);
    shard_harness_begin(1);
    for (unsigned i = 0; i < 3; i++) {
        query(1 + i);
        const struct sent sent = *last_sent(OPERATION_QUERY);
        vote_with(0, sent.ticket,
                  &(struct vote){
                      .kind = VOTE_FOREIGN, .text = value, .text_length = SHARED_STRING_BYTES_MAX - 1 + i});
        is_int(last_report(REPORT_LEADER)->text_length, SHARED_STRING_BYTES_MAX - (i == 0),
               "a value of any length is reported, as far as there is room");
    }
}

int main(void) {
    test_look();
    test_late_answer();
    test_full();
    test_start();
    test_node_hangs();
    test_held_back();
    test_node_comes_back();
    test_no_quorum();
    test_silent_nodes();
    test_token();
    test_long_value();
    return done_testing();
}
