/* When a thread spins, and when it sleeps. The test has the clock: time passes only in yields and in sleep.
 * A yield runs another thread, with or without an event for this one. */

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "io/loop/clock.h"
#include "io/loop/poller.h"
#include "tap.h"

#define NS_PER_US INT64_C(1000)
#define YIELD_NS (5 * NS_PER_US)
#define SLEEP_NS (20 * NS_PER_US)

enum { YIELDS_MAX = 20 /* within 100 us */ };

static struct thread {
    int fd;
    struct poller *poller;
    struct poller_target target;
    unsigned turns, sleeps, yields, wanted;
    bool brings;      /* a yield returns with an event */
    int64_t yield_ns; /* duration of a yield */
    int64_t sleep_ns; /* duration of a sleep */
    instant_ns now_ns;
} thread = {.yield_ns = YIELD_NS, .sleep_ns = SLEEP_NS, .now_ns = NS_PER_S};

static void bring(void) {
    const uint64_t one = 1;
    assert(write(thread.fd, &one, sizeof(one)) == sizeof(one));
}

/* --- in place of the C library --- */

int clock_gettime(clockid_t clock, struct timespec *ret) {
    (void) clock;
    *ret = (struct timespec){.tv_sec = thread.now_ns / NS_PER_S, .tv_nsec = thread.now_ns % NS_PER_S};
    return 0;
}

int sched_yield(void) {
    thread.yields++;
    thread.now_ns += thread.yield_ns;
    if (thread.brings)
        bring();
    return 0;
}

/* --- the thread's work --- */

static void on_events(struct poller_target *target, uint32_t events) {
    uint64_t count;

    (void) target;
    (void) events;
    assert(read(thread.fd, &count, sizeof(count)) == sizeof(count));
    thread.turns++;
}

static void mail(void *userdata) {
    (void) userdata;
}

static bool mail_waits(void *userdata, bool sleeping) {
    (void) userdata;
    if (sleeping) {
        thread.sleeps++;
        thread.now_ns += thread.sleep_ns;
        bring();
    }
    return false;
}

static int settle(void *userdata) {
    (void) userdata;
    return thread.turns >= thread.wanted ? -ECANCELED : 0;
}

/* Takes this number of turns. */
static void run(unsigned turns) {
    thread.wanted = turns;
    thread.turns = thread.sleeps = thread.yields = 0;
    is_int(poller_run(thread.poller), -ECANCELED, "the poller runs until its hook ends it");
}

static void test_spin(void) {
    thread.brings = true;
    run(1);
    is_int(thread.sleeps, 1, "the first turn sleeps");
    is_int(thread.yields, 0, "and does not spin");
    run(5);
    is_int(thread.sleeps, 0, "after a short sleep, events are found by spinning");
    is_int(thread.yields, 5, "with a yield each");
}

static void test_spin_in_vain(void) {
    thread.brings = false;
    run(1);
    is_int(thread.yields, YIELDS_MAX, "without events the thread spins for 100 us");
    is_int(thread.sleeps, 1, "and then sleeps");
    run(1);
    is_int(thread.yields, 0, "after a long wait the thread sleeps at once");
    thread.sleep_ns = 200 * NS_PER_US;
    run(2);
    is_int(thread.yields, YIELDS_MAX, "after a short wait it spins again");
    is_int(thread.sleeps, 2, "after a long sleep it doesn't");
    thread.sleep_ns = SLEEP_NS;
    thread.brings = true;
    run(1);
}

/* One yield takes this long. */
static void lose(int64_t lost_ns) {
    run(1); /* a short wait, so that the next one spins */
    thread.yield_ns = lost_ns;
    run(1);
    thread.yield_ns = YIELD_NS;
}

static void test_brief_losses(void) {
    for (unsigned i = 0; i < 100; i++)
        lose(400 * NS_PER_US);
    is_int(thread.yields, 1, "yields of less than half a millisecond cost nothing");
    for (unsigned i = 0; i < 4; i++) {
        lose(2 * NS_PER_MS);
        is_int(thread.yields, 1, "a few longer yields: the thread still spins");
    }
    thread.now_ns += NS_PER_S;
}

static void test_busy_neighbour(void) {
    lose(9 * NS_PER_MS);
    lose(9 * NS_PER_MS);
    is_int(thread.yields, 1, "two yields take 9 ms each");
    run(20);
    is_int(thread.yields, 0, "together they exceed the budget: no spinning");
    is_int(thread.sleeps, 20, "the thread sleeps for events");
    thread.now_ns += 750 * NS_PER_MS;
    run(2);
    is_int(thread.yields, 0, "after three quarters of a second");
    thread.now_ns += 50 * NS_PER_MS;
    run(2);
    is_int(thread.yields, 2, "after that the thread spins again");
    thread.now_ns += 10 * NS_PER_S;
}

static void test_stop(void) {
    lose(3600 * NS_PER_S);
    is_int(thread.yields, 1, "the machine stops for an hour");
    thread.now_ns += 98 * NS_PER_S;
    run(2);
    is_int(thread.yields, 0, "an hour's yield counts as a second");
    thread.now_ns += 2 * NS_PER_S;
    run(2);
    is_int(thread.yields, 2, "then the thread spins again");
}

int main(void) {
    const struct poller_hooks hooks = {.mail = mail, .mail_waits = mail_waits, .settle = settle};
    sd_event *event = NULL;

    thread.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    thread.target.on_events = on_events;
    if (thread.fd < 0 || sd_event_new(&event) < 0 || poller_new(event, &hooks, NULL, &thread.poller) < 0 ||
        poller_add(thread.poller, thread.fd, EPOLLIN, &thread.target) < 0)
        return EXIT_FAILURE;
    test_spin();
    test_spin_in_vain();
    test_brief_losses();
    test_busy_neighbour();
    test_stop();
    thread.poller = poller_free(thread.poller);
    (void) sd_event_unref(event);
    (void) close(thread.fd);
    return done_testing();
}
