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
    listing_counted(&harness.front, harness.now_ns);
    ok(begins(1, "*44\r\n") && strstr(got(1), "$7\r\nwaiters\r\n:300\r\n"), "then it shows the numbers");
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
    listing_counted(&harness.front, harness.now_ns);
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

int main(void) {
    test_listings();
    test_nodes();
    return done_testing();
}
