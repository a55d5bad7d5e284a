/* The log lines about a node's state: each trouble once, and limited when the node changes its state all the
 * time. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "io/loop/clock.h"
#include "io/node/node-log.h"
#include "tap.h"

static const char *const names[] = {"a", "b"};
static struct node_log node_log;
static int read_fd;
static char got[8192];

static const char *written(void) {
    ssize_t n = read(read_fd, got, sizeof(got) - 1);

    got[n > 0 ? n : 0] = 0;
    return got;
}

static unsigned lines(const char *text) {
    unsigned n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static void report(unsigned node, enum node_state node_state, const char *text) {
    const struct report report = {.kind = REPORT_NODE,
                                  .node = node,
                                  .node_state = node_state,
                                  .text = text,
                                  .text_length = (uint16_t) strlen(text)};

    node_log_report(&node_log, &report);
}

static void settle_after_ms(int64_t ms) {
    node_log_settle(&node_log, clock_now_ns() + ms * NS_PER_MS);
}

static void test_once(void) {
    node_log_init(&node_log, names, true);
    for (unsigned i = 0; i < 3; i++)
        report(0, NODE_STATE_FAILED, "connection refused");
    is_string(written(), "<4>node a: does not vote: connection refused\n", "a trouble is logged once");
    report(0, NODE_STATE_FAILED, "time-out");
    is_string(written(), "<4>node a: does not vote: time-out\n", "another one, too");
    report(0, NODE_STATE_PROBING, "");
    report(0, NODE_STATE_VOTING, "");
    is_string(written(), "<5>node a: voting\n", "and the end");
    report(0, NODE_STATE_VOTING, "slow");
    is_string(written(), "<4>node a: slow\n", "and a trouble of a node that votes");
    report(0, NODE_STATE_FAILED, "time-out");
    report(0, NODE_STATE_VOTING, "slow");
    (void) written();
    report(0, NODE_STATE_FAILED, "time-out");
    is_string(written(), "<4>node a: does not vote: time-out\n",
              "a trouble that has come back since the node voted is logged again");
    is_int(node_log.due_ns, INSTANT_NEVER, "no line was suppressed");
}

/* Two lines each time that the node votes and cuts the connection. */
static void flap(unsigned times) {
    for (unsigned i = 0; i < times; i++) {
        report(0, NODE_STATE_VOTING, "");
        report(0, NODE_STATE_CONNECTING, "connection closed");
    }
}

static void test_limit(void) {
    node_log_init(&node_log, names, true);
    flap(50);
    is_int(lines(written()), LOG_LIMIT_LINES, "of 100 lines about a node in a moment, ten are written");
    report(1, NODE_STATE_FAILED, "connection refused");
    is_string(written(), "<4>node b: does not vote: connection refused\n",
              "another node's line is not suppressed by these");
    ok(node_log.due_ns > clock_now_ns() && node_log.due_ns <= clock_now_ns() + 10 * NS_PER_S,
       "the count is due at the end of the window");
    settle_after_ms(5000);
    is_string(written(), "", "not before");
    settle_after_ms(11000);
    ok(strncmp(written(), "<4>90 more messages about the state of a node were suppressed in ", 65) == 0 &&
           strstr(got, " s\n<4>node a: does not vote: connection closed\n"),
       "after the count comes the state that the node is in");
    is_int(node_log.due_ns, INSTANT_NEVER, "and nothing follows");
    settle_after_ms(22000);
    is_string(written(), "", "it is written once");
}

static void test_last_state(void) {
    node_log_init(&node_log, names, true);
    flap(5);
    report(0, NODE_STATE_VOTING, "");
    (void) written();
    settle_after_ms(11000);
    ok(strstr(written(), "\n<5>node a: voting\n"), "a suppressed line of a node that votes follows, too");
}

static void test_other_keepers(void) {
    node_log_init(&node_log, names, false);
    flap(50);
    is_string(written(), "", "the first keeper logs for all");
}

/* Each node may show another agent's settings, and each probe of a node finds them again. */
static void test_differences(void) {
    static const char line[] = "<4>agents of these nodes are configured differently: ";
    char text[32];

    node_log_init(&node_log, names, true);
    node_log_difference(&node_log, "");
    is_string(written(), "", "no difference, no line");
    for (unsigned i = 0; i < 100; i++)
        node_log_difference(&node_log, i % 2 ? "max_ttl" : "fencing");
    is_int(lines(written()), 2, "two differences, which take turns, are logged once each");
    ok(strncmp(got, line, strlen(line)) == 0 && strstr(got, ": fencing\n") && strstr(got, ": max_ttl\n"),
       "with their texts");
    for (unsigned i = 0; i < 10 * NODE_LOG_DIFFERENCES; i++) {
        (void) snprintf(text, sizeof(text), "%u", i % NODE_LOG_DIFFERENCES);
        node_log_difference(&node_log, text);
    }
    is_int(lines(written()), NODE_LOG_DIFFERENCES, "so are as many as are kept");
    node_log_difference(&node_log, "fencing");
    is_int(lines(written()), 1, "one of before all these is logged again");
    node_log_init(&node_log, names, false);
    node_log_difference(&node_log, "fencing");
    is_string(written(), "", "the first keeper logs for all");
}

static void test_losses(void) {
    node_log_init(&node_log, names, true);
    node_log_report(&node_log,
                    &(struct report){.kind = REPORT_LOST, .request = 1, .text = "job", .text_length = 3});
    is_string(written(), "", "a keeper logs no loss: the front does, and knows of all");
}

int main(void) {
    int fds[2];

    if (pipe2(fds, O_NONBLOCK) < 0 || dup2(fds[1], STDERR_FILENO) < 0)
        return EXIT_FAILURE;
    read_fd = fds[0];
    test_once();
    test_limit();
    test_last_state();
    test_other_keepers();
    test_differences();
    test_losses();
    (void) close(fds[0]);
    return done_testing();
}
