/* Limited log lines: the first are written, the others counted. */
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
