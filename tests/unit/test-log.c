/* Log messages: one line, one write, limited, printable, with the journal's prefix; errno unchanged. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "io/loop/log.h"
#include "tap.h"

static int read_fd;
static char got[4096];

/* The output of the last message. */
static const char *written(void) {
    ssize_t n = read(read_fd, got, sizeof got - 1);

    got[n > 0 ? n : 0] = 0;
    return got;
}

int main(void) {
    char large[3000];
    int fds[2];

    if (pipe2(fds, O_NONBLOCK) < 0 || dup2(fds[1], STDERR_FILENO) < 0)
        return EXIT_FAILURE;
    read_fd = fds[0];
    log_error("node %s: %d", "a", 5);
    is_string(written(), "<3>node a: 5\n", "an error");
    log_warning("w");
    is_string(written(), "<4>w\n", "a warning");
    log_notice("n");
    is_string(written(), "<5>n\n", "a notice");
    log_info("i");
    is_string(written(), "<6>i\n", "an informational message");
    log_info("one\ntwo\x1b[31m\x7f \xc3\xa4");
    is_string(written(), "<6>one?two?[31m? \xc3\xa4\n", "control characters are replaced");
    log_info("a\xc2\x9b[2Jb\xe2\x80\xae"
             "c\xe2\x80\xa9"
             "d\xff\xc3");
    is_string(
        written(), "<6>a?[2Jb?c?d??\n",
        "control characters of eight bits, changes of direction, line ends and invalid UTF-8 are replaced");
    const struct log_fields lost = {
        .event = LOG_EVENT_LEASE_LOST, .name = "a\nREDLOCK_EVENT=serving", .name_length = 23, .fence = 7};
    log_event(LOG_LEVEL_WARNING, &lost, "lease %s: lost", "a");
    is_string(written(), "<4>lease a: lost\n", "without the journal an event is a line like others");
    errno = ENOENT;
    log_info("%m");
    is_int(errno, ENOENT, "errno is unchanged");
    is_string(written(), "<6>No such file or directory\n", "and %m is its text");

    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = 0;
    log_info("%s", large);
    is_int(strlen(written()), 1024, "a long message is cut");
    is_int(got[1023], '\n', "and ends with a newline");
    large[1020] = 0;
    log_info("%s", large);
    is_int(strlen(written()), 1024, "a message of the maximal length is one line");
    memset(large, 'x', sizeof large - 1);
    memcpy(large + 1019, "\xc3\xa4", 2);
    log_info("%s", large);
    is_string(strlen(written()) == 1024 ? got + 1022 : got, "?\n", "a cut leaves no half of a character");
    (void) close(fds[0]);
    return done_testing();
}
