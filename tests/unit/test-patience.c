/* Waiting for an answer, awake or asleep: the library's. What is soon enough depends on the machine, so that
 * is tried until it was. */

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "patience.h"
#include "tap.h"

enum { TRIES = 10000, LATE_TRIES = 1000 };

#define NS_PER_MS INT64_C(1000000)

static int ends[2];

static struct {
    unsigned count;
    bool brings;
    int64_t lost_ns;
    int64_t last_ns;
} yields;

static int64_t now_ns(void) {
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000 * NS_PER_MS + now.tv_nsec;
}

/* In the C library's place. */
int sched_yield(void) {
    const struct timespec lost = {.tv_nsec = yields.lost_ns};

    yields.count++;
    yields.last_ns = now_ns();
    if (yields.lost_ns > 0)
        (void) clock_nanosleep(CLOCK_MONOTONIC, 0, &lost, NULL);
    if (yields.brings && write(ends[1], "x", 1) != 1)
        abort();
    return 0;
}

static int wait_with(struct patience *patience, int64_t left_ns) {
    struct pollfd poll_fd = {.fd = ends[0], .events = POLLIN};
    return patience_poll(patience, &poll_fd, left_ns);
}

static void say(void) {
    ok(write(ends[1], "x", 1) == 1, "an answer is there");
}

static void hear(void) {
    char byte;
    ok(read(ends[0], &byte, 1) == 1, "and is read");
}

static void test_answers(void) {
    struct patience patience = {.pays = false};

    say();
    is_int(wait_with(NULL, INT64_MAX), 1, "asleep: an answer that is there");
    is_int(wait_with(&patience, INT64_MAX), 1, "with patience: the same");
    for (unsigned i = 0; i < TRIES && !patience.pays; i++)
        (void) wait_with(&patience, INT64_MAX);
    ok(patience.pays, "it came soon: looking for the next one pays");
    is_int(wait_with(&patience, 0), 1, "which is found so");
    hear();
}

static void test_time_outs(void) {
    for (unsigned i = 0; i < 3; i++) {
        struct patience patience = {.pays = i == 2};
        int64_t begun_ns = now_ns();
        is_int(wait_with(i == 0 ? NULL : &patience, 3 * NS_PER_MS), 0, "none comes: the time is over");
        ok(now_ns() - begun_ns >= 3 * NS_PER_MS, "and not before");
        ok(!patience.pays, "looking for one would not have paid");
    }
    is_int(wait_with(NULL, 0), 0, "no time: at once");
}

static void *say_later(void *unused) {
    (void) poll(NULL, 0, 5);
    return write(ends[1], "x", 1) == 1 ? unused : NULL;
}

/* True if it was slept for: we may be stopped until it is there already. */
static bool answered_late(void) {
    struct patience patience = {.pays = true};
    void *said = NULL;
    pthread_t thread;

    ok(pthread_create(&thread, NULL, say_later, ends) == 0, "somebody will answer");
    is_int(wait_with(&patience, INT64_MAX), 1, "which is waited for");
    ok(pthread_join(thread, &said) == 0 && said, "it was said");
    hear();
    return !patience.pays;
}

static void test_late_answer(void) {
    bool late = false;

    for (unsigned i = 0; i < LATE_TRIES && !late; i++)
        late = answered_late();
    ok(late, "after one that comes late the next one is slept for");
}

static void test_looks(void) {
    struct patience patience = {.pays = false};

    yields.count = 0;
    is_int(wait_with(&patience, NS_PER_MS), 0, "no answer came soon before");
    is_int(yields.count, 0, "so the next one is not looked for");
    patience.pays = true;
    yields.brings = true;
    is_int(wait_with(&patience, INT64_MAX), 1, "if one did it is");
    ok(yields.count > 0, "and others run meanwhile");
    yields.brings = false;
    hear();
}

/* How long it looked. */
static int64_t looks_ns(void) {
    struct patience patience = {.pays = true};
    int64_t begun_ns = now_ns();

    yields.last_ns = begun_ns;
    (void) wait_with(&patience, 3 * NS_PER_MS);
    return yields.last_ns - begun_ns;
}

static void test_looks_in_vain(void) {
    int64_t least_ns = looks_ns();

    for (unsigned i = 0; i < LATE_TRIES && least_ns > NS_PER_MS / 10; i++)
        least_ns = looks_ns();
    ok(least_ns <= NS_PER_MS / 10, "if none comes it sleeps after 50 us");
}

static void test_busy_neighbour(void) {
    struct patience patience = {.pays = true};

    yields.brings = true;
    yields.lost_ns = 50 * NS_PER_MS;
    is_int(wait_with(&patience, INT64_MAX), 1, "the core is lost for 50 ms");
    hear();
    yields.brings = false;
    yields.lost_ns = 0;
    yields.count = 0;
    patience.pays = true;
    is_int(wait_with(&patience, NS_PER_MS), 0, "so the next answer");
    is_int(yields.count, 0, "is not looked for, if the last one was never so soon");
    patience.from_ns -= 10000 * NS_PER_MS;
    patience.pays = true;
    is_int(wait_with(&patience, NS_PER_MS), 0, "ten seconds later");
    ok(yields.count > 0, "it is");
}

static void on_alarm(int number) {
    (void) number;
}

static void test_signal(void) {
    const struct sigaction action = {.sa_handler = on_alarm};
    const struct itimerval often = {.it_value = {.tv_usec = 5000}, .it_interval = {.tv_usec = 5000}};
    const struct itimerval never = {.it_value = {0}};
    struct patience patience = {.pays = true};

    ok(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0,
       "signals will come");
    errno = 0;
    is_int(wait_with(&patience, INT64_MAX), -1, "one ends the wait");
    is_int(errno, EINTR, "as it ends poll(2)");
    ok(setitimer(ITIMER_REAL, &never, NULL) == 0, "no more of them");
}

int main(void) {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return EXIT_FAILURE;
    test_answers();
    test_time_outs();
    test_late_answer();
    test_looks();
    test_looks_in_vain();
    test_busy_neighbour();
    test_signal();
    return done_testing();
}
