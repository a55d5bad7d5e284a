/* STATUS, NODES, LEASES and INFO. */

#include <assert.h>

#include "scripted-keeper.h"
#include "tap.h"

static void test_listings(void) {
    char line[64];

    begin(512);
    for (unsigned i = 0; i < 300; i++) {
        (void) snprintf(line, sizeof(line), "ACQUIRE name%u ASYNC", i);
        ask(0, line);
        keeper.n_commands = 0;
    }
    ask(1, "LEASES");
    ok(begins(1, "*256\r\n"), "a page of LEASES has 256 entries");
    ask(1, "LEASES AFTER 1048831");
    ok(begins(1, "*44\r\n"), "the next page has the rest");
    ask(1, "STATUS");
    is_string(got(1), "", "STATUS waits for the keepers");
    is_int(keeper.surveys, 1, "and asks them for their counters");
    local_harness_counted();
    ok(begins(1, "*46\r\n") && strstr(got(1), "$7\r\nwaiters\r\n:300\r\n"), "then it shows the numbers");
}

/* The number of turns until the session gets its reply. */
static unsigned turns_until_reply(unsigned number) {
    unsigned turns = 0;

    for (; got(number)[0] == '\0' && turns < 100; turns++) {
        harness.now_ns += NS_PER_US;
        listing_turn(&harness.front, harness.now_ns);
    }
    return turns;
}

static bool listing_waits(void) {
    return listing_due_ns(&harness.front, harness.now_ns) != INSTANT_NEVER;
}

static void crowd(unsigned session, unsigned requests) {
    char line[64];

    for (unsigned i = 0; i < requests; i++) {
        (void) snprintf(line, sizeof(line), "ACQUIRE name%u ASYNC", i);
        ask(session, line);
        keeper.n_commands = 0;
    }
}

/* Others' leases are no reason to keep the agent busy: the search takes further turns. */
static void test_others(void) {
    enum { OTHERS = 1800, TURN = 512 };

    begin(4096);
    local_harness_set_user(1, 1001);
    local_harness_set_user(2, 1002);
    crowd(0, OTHERS);
    ask(1, "LEASES");
    is_string(got(1), "", "1,800 leases of another user: LEASES takes several turns");
    ok(!session_ready(&harness.sessions[1]), "and the session's next request waits");
    is_int(turns_until_reply(1), OTHERS / TURN, "each turn examines 512 leases");
    is_string(got(1), "*0\r\n", "the user sees no lease of another user");
    ok(session_ready(&harness.sessions[1]) && !listing_waits(),
       "after the reply the session takes requests again");
    ask(1, "ACQUIRE own ASYNC");
    ask(1, "LEASES");
    ask(3, "LEASES");
    ok(begins(3, "*256\r\n"), "meanwhile another user's listing is not kept waiting");
    ask(2, "LEASES");
    is_int(turns_until_reply(1), 2 * (OTHERS / TURN) - 1, "two users' searches take turns");
    ok(begins(1, "*1\r\n") && strstr(got(1), "$3\r\nown"), "a lease behind all others is found");
    is_int(turns_until_reply(2), 1, "and the other search ends after it");
    ask(2, "LEASES");
    disconnect_end(&harness.sessions[2], harness.now_ns);
    ok(!listing_waits(), "a session that ends searches no more");
}

/* Beside another user, a search for leases that the user may not see takes what its share allows. */
static void test_paced(void) {
    enum { UNITS_PER_S = 20000, OTHERS = 2500, ALL_TURNS = 4 };
    enum { TURNS = 1 + (WORK_SHARE_BURST - WORK_SHARE_LEASES) / WORK_SHARE_LISTING };
    const instant_ns pause_ns = (WORK_SHARE_LISTING + WORK_SHARE_BURST) * (NS_PER_S / UNITS_PER_S);
    unsigned turns = 0;

    begin(4096);
    local_harness_set_user(1, 1001);
    crowd(0, OTHERS);
    harness.front.work.units_per_s = UNITS_PER_S;
    session_note_work(&harness.sessions[0], WORK_SHARE_LEASE, harness.now_ns);
    ask(1, "LEASES");
    session_note_work(&harness.sessions[1], harness.units, harness.now_ns);
    for (; listing_due_ns(&harness.front, harness.now_ns) <= harness.now_ns && turns < 100; turns++)
        listing_turn(&harness.front, harness.now_ns);
    is_int(turns, TURNS, "a search pauses when its user has had its share");
    is_string(got(1), "", "before its end,");
    is_int(listing_due_ns(&harness.front, harness.now_ns) - harness.now_ns, pause_ns,
           "until the share covers the last turn, and a burst");
    harness.now_ns += pause_ns;
    is_int(turns_until_reply(1), ALL_TURNS - TURNS, "then it goes on");
    is_string(got(1), "*0\r\n", "and finds nothing");
}

/* The value of the first such key in the reply. */
static const char *integer_of(const char *key) {
    static char value[32];
    char mark[64];

    (void) snprintf(mark, sizeof(mark), "\r\n%s\r\n:", key);
    const char *at = strstr(harness.output[0], mark);
    (void) snprintf(value, sizeof(value), "%.*s", at ? (int) strcspn(at + strlen(mark), "\r") : 0,
                    at ? at + strlen(mark) : "");
    return value;
}

static void nodes_reply(void) {
    ask(0, "NODES");
    local_harness_counted();
}

static void test_nodes(void) {
    const struct report quarantined = {
        .kind = REPORT_NODE, .node_state = NODE_STATE_QUARANTINED, .text = "is new", .text_length = 6};

    begin(8);
    nodes_reply();
    is_string(integer_of("until"), "-1", "NODES: without a quarantine, its end is unknown");
    is_string(integer_of("rtt_p99"), "0", "and so are round trips");
    front_state_node_report(&harness.front, 0, &quarantined, harness.now_ns);
    nodes_reply();
    is_string(integer_of("until"), "-1", "the end of a quarantine is unknown before the mark is set");
    harness.front.keepers[0].times[0] = (struct front_state_node_times){
        .until_ns = harness.now_ns + 61 * NS_PER_S, .rtt_p50_us = 200, .rtt_p99_us = 900, .evicted_keys = 7};
    nodes_reply();
    is_string(integer_of("until"), "61000", "then it is shown");
    is_string(integer_of("rtt_p50"), "200", "p50");
    is_string(integer_of("rtt_p99"), "900", "p99");
    is_string(integer_of("evicted"), "7", "evictions");
    harness.now_ns += 62 * NS_PER_S;
    nodes_reply();
    is_string(integer_of("until"), "0", "it never goes below 0");
}

/* The states, or names, of the listed grants. */
static const char *column(const char *key) {
    static char values[1024];
    char mark[64];
    const char *at = harness.output[0];

    values[0] = '\0';
    (void) snprintf(mark, sizeof(mark), "\r\n%s\r\n$", key);
    while ((at = strstr(at, mark))) {
        at = strchr(at + strlen(mark), '\n') + 1;
        (void) snprintf(values + strlen(values), sizeof(values) - strlen(values), "%.*s ",
                        (int) strcspn(at, "\r"), at);
    }
    return values;
}

static void test_latest(void) {
    char line[64];

    begin(512);
    ask(0, "LEASES LATEST 10");
    is_string(got(0), "*0\r\n", "LEASES LATEST: no grants yet");
    uint64_t first = hold(0, "ACQUIRE first ASYNC");
    harness.now_ns += NS_PER_MS;
    (void) hold(0, "ACQUIRE second ASYNC");
    harness.now_ns += 5 * NS_PER_MS;
    ask(0, "LEASES LATEST 10");
    is_string(column("name"), "second first ", "the latest first");
    is_string(integer_of("since"), "5", "and how long ago that was");
    ask(0, "RELEASE 1048576");
    report(first, REPORT_RELEASED);
    ask(0, "LEASES LATEST 10");
    is_string(column("state"), "held ended ", "a lease that has ended stays in the list");
    (void) hold(0, "ACQUIRE first ASYNC");
    ask(0, "LEASES LATEST 10");
    is_string(column("name"), "first second ", "a name is there once, with its latest grant");
    is_string(column("state"), "held held ", "which is held");
    ask(0, "LEASES LATEST 1");
    is_string(column("name"), "first ", "as many as wanted");
    for (unsigned i = 0; i < LATEST_GRANTS_MAX; i++) {
        harness.now_ns += NS_PER_MS;
        (void) snprintf(line, sizeof(line), "ACQUIRE name%u ASYNC", i);
        (void) hold(0, line);
        keeper.n_commands = 0;
    }
    ask(0, "LEASES LATEST 64");
    ok(begins(0, "*64\r\n") && !strstr(got(0), "first") && !strstr(got(0), "second"),
       "names that were granted longest ago give way");
    ask(0, "LEASES LATEST 65");
    ok(begins(0, "-BADARG LEASES takes"), "no more than are kept");
}

/* What a reload with a smaller max_ttl warns of. */
static void test_longer(void) {
    const struct registry *registry = &harness.front.registry;

    begin(8);
    (void) hold(0, "ACQUIRE first TTL 3000 ASYNC");
    ask(0, "ACQUIRE first TTL 4000 WAIT -1 ASYNC");
    (void) hold(0, "ACQUIRE second TTL 5000 ASYNC");
    (void) hold(1, "ACQUIRE third TTL 5000 ASYNC");
    disconnect_end(&harness.sessions[1], harness.now_ns);
    is_int(registry_count_longer(registry, 3999), 2, "leases and waiting requests with a longer ttl");
    is_int(registry_count_longer(registry, 4000), 1, "not those with this ttl, nor what is being released");
}

static void test_info(void) {
    begin(8);
    (void) hold(0, "ACQUIRE first ASYNC");
    ask(1, "INFO");
    local_harness_counted();
    ok(strstr(got(1), "\r\nstate:no-quorum\r\nrole:master\r\npid:42\r\n"), "INFO has lines");
    ok(strstr(got(1), "\r\nleases:1\r\n") && strstr(got(1), "\r\nextension_margin:100\r\n"),
       "of all numbers");
    ask(1, "HELLO 3");
    ask(1, "LEASES");
    ok(begins(1, "*1\r\n%10\r\n$2\r\nid\r\n"), "a lease is a map in RESP3");
    ask(1, "LEASES LATEST 1");
    ok(begins(1, "*1\r\n%11\r\n$2\r\nid\r\n"), "with the age of its grant among the latest");
    ask(1, "STATUS");
    local_harness_counted();
    ok(begins(1, "%23\r\n"), "STATUS is a map");
}

int main(void) {
    test_listings();
    test_others();
    test_paced();
    test_latest();
    test_nodes();
    test_longer();
    test_info();
    return done_testing();
}
