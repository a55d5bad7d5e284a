#include "patience.h"

#include <sched.h>
#include <stddef.h>
#include <time.h>

#define NS_PER_US INT64_C(1000)
#define NS_PER_S INT64_C(1000000000)
#define PATIENCE_NS (50 * NS_PER_US) /* about what it takes two processes to wake each other */
#define TAKEN_NS (500 * NS_PER_US)   /* who has the core for longer than this works for himself */
#define TAKEN_SHARE 100              /* one in so many of the time may be lost to him */

static int64_t now_ns(void) {
    struct timespec now;

    (void) clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t) now.tv_sec * NS_PER_S + now.tv_nsec;
}

static int look(struct patience *patience, struct pollfd *poll_fd, int64_t begun_ns) {
    int64_t at_ns = begun_ns;

    for (;;) {
        int n = poll(poll_fd, 1, 0);
        if (n != 0 || at_ns - begun_ns >= PATIENCE_NS)
            return n;
        (void) sched_yield();
        int64_t back_ns = now_ns();
        if (back_ns - at_ns > TAKEN_NS)
            patience->from_ns = back_ns + (back_ns - at_ns) * TAKEN_SHARE;
        at_ns = back_ns;
    }
}

static int sleep_for(struct pollfd *poll_fd, int64_t left_ns) {
    const struct timespec timeout = {.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S};
    return ppoll(poll_fd, 1, left_ns < INT64_MAX ? &timeout : NULL, NULL);
}

int patience_poll(struct patience *patience, struct pollfd *poll_fd, int64_t left_ns) {
    if (!patience)
        return sleep_for(poll_fd, left_ns);
    int64_t begun_ns = now_ns();
    int n = patience->pays && begun_ns >= patience->from_ns ? look(patience, poll_fd, begun_ns) : 0;
    if (n == 0)
        n = sleep_for(poll_fd, left_ns);
    patience->pays = n > 0 && now_ns() - begun_ns <= PATIENCE_NS;
    return n;
}
