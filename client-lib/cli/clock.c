/* The clock of deadlines, and waiting by it. */

#include <poll.h>
#include <time.h>

#include "cli.h"

int64_t cli_now_ns(void) {
    struct timespec now;

    (void) clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t) now.tv_sec * NS_PER_S + now.tv_nsec;
}

int cli_poll(struct pollfd *fds, unsigned long n_fds, int64_t until_ns) {
    int64_t left_ns = until_ns == INT64_MAX ? INT64_MAX : until_ns - cli_now_ns();

    left_ns = left_ns > 0 ? left_ns : 0;
    const struct timespec timeout = {.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S};
    return ppoll(fds, n_fds, until_ns == INT64_MAX ? NULL : &timeout, NULL);
}
