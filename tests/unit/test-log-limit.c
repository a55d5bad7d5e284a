/* Log lines that others can cause: some are written, the others are counted. */
#include <fcntl.h>
#include <unistd.h>

#include "io/loop/log-limit.h"
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
    is_int(lines(written()), LOG_LIMIT_LINES, "of 22,522 lines within a window some are written");
    ok(strncmp(got, "<5>ended 0\n<5>ended 1\n", 22) == 0, "the first ones, at their level");
    is_int(log_limit_settle(&limit, end_ns - 1), end_ns, "the count is due at the window's end");
    is_string(written(), "", "not before");
    is_int(log_limit_settle(&limit, end_ns), INSTANT_NEVER, "then it is told");
    is_string(written(), "<5>22512 more messages about sessions that were ended were left out in 10 s\n",
              "with what was left out");
    is_int(log_limit_settle(&limit, 2 * end_ns), INSTANT_NEVER, "once");
    is_string(written(), "", "and nothing is made up");
}

static void test_a_line_before_the_count(void) {
    struct log_limit limit = {.kind = "things", .level = LOG_LEVEL_WARNING};

    for (unsigned i = 0; i < LOG_LIMIT_LINES + 3; i++)
        log_limit_write(&limit, NS_PER_S, "x");
    (void) written();
    log_limit_write(&limit, 60 * NS_PER_S, "y");
    is_string(written(), "<4>3 more messages about things were left out in 59 s\n<4>y\n",
              "the count comes before the next line, if nobody asked for it");
}

static void test_few(void) {
    struct log_limit limit = {.kind = "things", .level = LOG_LEVEL_WARNING};

    for (unsigned i = 0; i < 100; i++) {
        log_limit_write(&limit, (i + 1) * 2 * NS_PER_S, "x");
        is_int(log_limit_settle(&limit, (i + 1) * 2 * NS_PER_S), INSTANT_NEVER, "few lines are all written");
    }
    is_int(lines(written()), 100, "each of them");
}

int main(void) {
    int fds[2];

    if (pipe2(fds, O_NONBLOCK) < 0 || dup2(fds[1], STDERR_FILENO) < 0)
        return EXIT_FAILURE;
    read_fd = fds[0];
    test_flood();
    test_a_line_before_the_count();
    test_few();
    (void) close(fds[0]);
    return done_testing();
}
