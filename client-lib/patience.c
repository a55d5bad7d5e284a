#include "patience.h"

#include <sched.h>
#include <stddef.h>
#include <time.h>

#define NS_PER_S INT64_C(1000000000)
#define PATIENCE_NS INT64_C(50000) /* about what it takes two processes to wake each other */

static int64_t monotonic_ns(void) {
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * NS_PER_S + now.tv_nsec;
}

static int look(struct pollfd *poll_fd, int64_t until_ns) {
    for (;;) {
        int n = poll(poll_fd, 1, 0);
        if (n != 0 || monotonic_ns() >= until_ns)
            return n;
        (void) sched_yield();
    }
}

static int sleep_for(struct pollfd *poll_fd, int64_t left_ns) {
    const struct timespec timeout = {.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S};
    return ppoll(poll_fd, 1, left_ns < INT64_MAX ? &timeout : NULL, NULL);
}

int patience_poll(struct patience *patience, struct pollfd *poll_fd, int64_t left_ns) {
    if (!patience)
        return sleep_for(poll_fd, left_ns);
    int64_t begun_ns = monotonic_ns();
    int n = patience->pays ? look(poll_fd, begun_ns + PATIENCE_NS) : 0;
    if (n == 0)
        n = sleep_for(poll_fd, left_ns);
    patience->pays = n > 0 && monotonic_ns() - begun_ns <= PATIENCE_NS;
    return n;
}
