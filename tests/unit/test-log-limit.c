/* Limited log lines: the first are written, the others counted. */
#include <fcntl.h>
#include <unistd.h>

#include "io/loop/loss-log.h"
#include "tap.h"

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

static void test_flood(void) {
    struct log_limit limit = {.kind = "sessions that were ended", .level = LOG_LEVEL_NOTICE};
    instant_ns begin_ns = 5 * NS_PER_S, end_ns = begin_ns + LOG_LIMIT_WINDOW_MS * NS_PER_MS;

    for (unsigned i = 0; i < 22522; i++)
        log_limit_write(&limit, begin_ns + i * NS_PER_US, "ended %u", i);
    is_int(lines(written()), LOG_LIMIT_LINES, "of 22,522 lines in a window, the first are written");
    ok(strncmp(got, "<5>ended 0\n<5>ended 1\n", 22) == 0, "with their level");
    is_int(log_limit_settle(&limit, end_ns - 1), end_ns, "the count is due at the end of the window");
    is_string(written(), "", "and not written before");
    is_int(log_limit_settle(&limit, end_ns), INSTANT_NEVER, "then the count is written");
    is_string(written(), "<5>22512 more messages about sessions that were ended were suppressed in 10 s\n",
              "with the number of suppressed lines");
    is_int(log_limit_settle(&limit, 2 * end_ns), INSTANT_NEVER, "only once");
    is_string(written(), "", "no line follows");
}

static void test_a_line_before_the_count(void) {
    struct log_limit limit = {.kind = "things", .level = LOG_LEVEL_WARNING};

    for (unsigned i = 0; i < LOG_LIMIT_LINES + 3; i++)
        log_limit_write(&limit, NS_PER_S, "x");
    (void) written();
    log_limit_write(&limit, 60 * NS_PER_S, "y");
    is_string(written(), "<4>3 more messages about things were suppressed in 59 s\n<4>y\n",
              "the count precedes the next line");
}

static void test_few(void) {
    struct log_limit limit = {.kind = "things", .level = LOG_LEVEL_WARNING};

    for (unsigned i = 0; i < 100; i++) {
        log_limit_write(&limit, (i + 1) * 2 * NS_PER_S, "x");
        is_int(log_limit_settle(&limit, (i + 1) * 2 * NS_PER_S), INSTANT_NEVER,
               "few lines: none is suppressed");
    }
    is_int(lines(written()), 100, "and all are written");
}

static void lose(struct loss_log *log, enum reason reason, unsigned times) {
    for (unsigned i = 0; i < times; i++)
        loss_log_write(log, "name", 4, reason, 7);
}

/* What clients do to themselves hides no loss that happens to them, nor the other way round. */
static void test_losses(void) {
    static const enum reason by_holders[] = {REASON_MAX_HOLD, REASON_HEARTBEAT, REASON_CLOSED,
                                             REASON_UNREAD},
                             others[] = {REASON_TAKEN, REASON_NO_QUORUM, REASON_PAUSED};
    struct loss_log log;

    for (unsigned i = 0; i < 4; i++) {
        loss_log_init(&log);
        lose(&log, by_holders[i], 1000);
        is_int(lines(written()), LOG_LIMIT_LINES, "a flood of losses by a holder");
        lose(&log, by_holders[(i + 1) % 4], 1);
        is_string(written(), "", "leaves no line for another one");
        lose(&log, others[0], 1);
        is_string(written(), "<4>lease name: lost: taken; its fencing token was 7\n",
                  "but for a loss that a holder does not cause");
        lose(&log, others[1], 1);
        lose(&log, others[2], 1);
        is_int(lines(written()), 2, "whatever its reason");
    }
    loss_log_init(&log);
    lose(&log, others[0], 1000);
    (void) written();
    is_int(loss_log_settle(&log, log.others.window_ns),
           log.others.window_ns + LOG_LIMIT_WINDOW_MS * NS_PER_MS, "their count is due, too");
    lose(&log, by_holders[0], 1);
    is_int(lines(written()), 1, "a flood of such losses leaves the lines of the others");
}

int main(void) {
    int fds[2];

    if (pipe2(fds, O_NONBLOCK) < 0 || dup2(fds[1], STDERR_FILENO) < 0)
        return EXIT_FAILURE;
    read_fd = fds[0];
    test_flood();
    test_a_line_before_the_count();
    test_few();
    test_losses();
    (void) close(fds[0]);
    return done_testing();
}
