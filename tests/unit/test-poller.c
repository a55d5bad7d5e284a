/* A thread's turns: when it looks for work, and when it sleeps. The clock is ours: time passes only where
 * the core is yielded, and asleep. What yielding does is given: it finds somebody who works for himself, or
 * who has something for us. */

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

enum { LEADER_QUERIES_MAX = 20 /* within 100 us */ };

static struct world {
    int fd;
    struct poller *poller;
    struct poller_target target;
    unsigned turns, sleeps, yields, wanted;
    bool brings;      /* a yield comes back with an event, */
    int64_t yield_ns; /* after so long */
    int64_t sleep_ns; /* until who sleeps is woken */
    instant_ns now_ns;
} world = {.yield_ns = YIELD_NS, .sleep_ns = SLEEP_NS, .now_ns = NS_PER_S};

static void bring(void) {
    const uint64_t one = 1;
    assert(write(world.fd, &one, sizeof(one)) == sizeof(one));
}

/* --- in the C library's place --- */

int clock_gettime(clockid_t clock, struct timespec *ret) {
    (void) clock;
    *ret = (struct timespec){.tv_sec = world.now_ns / NS_PER_S, .tv_nsec = world.now_ns % NS_PER_S};
    return 0;
}

int sched_yield(void) {
    world.yields++;
    world.now_ns += world.yield_ns;
    if (world.brings)
        bring();
    return 0;
}

/* --- the thread's work --- */

static void on_events(struct poller_target *target, uint32_t events) {
    uint64_t count;

    (void) target;
    (void) events;
    assert(read(world.fd, &count, sizeof(count)) == sizeof(count));
    world.turns++;
}

static void mail(void *userdata) {
    (void) userdata;
}

static bool mail_waits(void *userdata, bool sleeping) {
    (void) userdata;
    if (sleeping) {
        world.sleeps++;
        world.now_ns += world.sleep_ns;
        bring();
    }
    return false;
}

static int settle(void *userdata) {
    (void) userdata;
    return world.turns >= world.wanted ? -ECANCELED : 0;
}

/* So many turns are taken. */
static void run(unsigned turns) {
    world.wanted = turns;
    world.turns = world.sleeps = world.yields = 0;
    is_int(poller_run(world.poller), -ECANCELED, "turns are taken until that is over");
}

static void test_looks(void) {
    world.brings = true;
    run(1);
    is_int(world.sleeps, 1, "at first it sleeps");
    is_int(world.yields, 0, "and looks for nothing");
    run(5);
    is_int(world.sleeps, 0, "that was short: from then on events are found awake");
    is_int(world.yields, 5, "while others run");
}

static void test_looks_in_vain(void) {
    world.brings = false;
    run(1);
    is_int(world.yields, LEADER_QUERIES_MAX, "if nothing comes it looks for 100 us");
    is_int(world.sleeps, 1, "and sleeps after all");
    run(1);
    is_int(world.yields, 0, "after a long wait it sleeps at once");
    world.sleep_ns = 200 * NS_PER_US;
    run(2);
    is_int(world.yields, LEADER_QUERIES_MAX, "after a short one it looks again");
    is_int(world.sleeps, 2, "after a long sleep, not");
    world.sleep_ns = SLEEP_NS;
    world.brings = true;
    run(1);
}

/* The core is lost for so long by one yield. */
static void lose(int64_t lost_ns) {
    run(1); /* a short wait, so that the next one is begun awake */
    world.yield_ns = lost_ns;
    run(1);
    world.yield_ns = YIELD_NS;
}

static void test_brief_losses(void) {
    for (unsigned i = 0; i < 100; i++)
        lose(400 * NS_PER_US);
    is_int(world.yields, 1, "that others work for less than half a millisecond is what yielding is for");
    for (unsigned i = 0; i < 4; i++) {
        lose(2 * NS_PER_MS);
        is_int(world.yields, 1, "it happens that the core is lost for longer: it goes on looking");
    }
    world.now_ns += NS_PER_S;
}

static void test_busy_neighbour(void) {
    lose(9 * NS_PER_MS);
    lose(9 * NS_PER_MS);
    is_int(world.yields, 1, "the core is lost twice for 9 ms");
    run(20);
    is_int(world.yields, 0, "together that is too long");
    is_int(world.sleeps, 20, "events are slept for");
    world.now_ns += 750 * NS_PER_MS;
    run(2);
    is_int(world.yields, 0, "for three quarters of a second");
    world.now_ns += 50 * NS_PER_MS;
    run(2);
    is_int(world.yields, 2, "after that it looks again");
    world.now_ns += 10 * NS_PER_S;
}

static void test_stop(void) {
    lose(3600 * NS_PER_S);
    is_int(world.yields, 1, "all stops for an hour");
    world.now_ns += 98 * NS_PER_S;
    run(2);
    is_int(world.yields, 0, "which is as good as a second");
    world.now_ns += 2 * NS_PER_S;
    run(2);
    is_int(world.yields, 2, "it is over");
}

int main(void) {
    const struct poller_hooks hooks = {.mail = mail, .mail_waits = mail_waits, .settle = settle};
    sd_event *event = NULL;

    world.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    world.target.on_events = on_events;
    if (world.fd < 0 || sd_event_new(&event) < 0 || poller_new(event, &hooks, NULL, &world.poller) < 0 ||
        poller_add(world.poller, world.fd, EPOLLIN, &world.target) < 0)
        return EXIT_FAILURE;
    test_looks();
    test_looks_in_vain();
    test_brief_losses();
    test_busy_neighbour();
    test_stop();
    world.poller = poller_free(world.poller);
    (void) sd_event_unref(event);
    (void) close(world.fd);
    return done_testing();
}
