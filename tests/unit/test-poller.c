/* A thread's turns: when it looks for work, and when it sleeps. What yielding the core does is given: it
 * finds somebody who works for himself, or who has something for us. */

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/poller.h"
#include "tap.h"

enum { TURNS_MAX = 100000 };

static struct world {
    int fd;
    struct poller *poller;
    struct poll_target target;
    unsigned turns, sleeps, yields;
    bool brings;     /* a yield comes back with an event */
    int64_t lost_ns; /* and after so long */
    bool (*step)(void);
} world;

static void bring(void) {
    const uint64_t one = 1;
    assert(write(world.fd, &one, sizeof(one)) == sizeof(one));
}

/* In the C library's place. */
int sched_yield(void) {
    const struct timespec lost = {.tv_nsec = world.lost_ns};

    world.yields++;
    if (world.lost_ns > 0)
        (void) clock_nanosleep(CLOCK_MONOTONIC, 0, &lost, NULL);
    if (world.brings)
        bring();
    return 0;
}

static void on_events(struct poll_target *target, uint32_t events) {
    uint64_t count;

    (void) target;
    (void) events;
    assert(read(world.fd, &count, sizeof(count)) == sizeof(count));
    world.turns++;
}

static void mail(void *userdata) {
    (void) userdata;
}

/* Who sleeps is woken at once. */
static bool mail_waits(void *userdata, bool sleeping) {
    (void) userdata;
    if (sleeping) {
        world.sleeps++;
        bring();
    }
    return false;
}

static int settle(void *userdata) {
    (void) userdata;
    return world.turns >= TURNS_MAX || world.step() ? -ECANCELED : 0;
}

static void run(bool (*step)(void)) {
    world.step = step;
    world.turns = world.sleeps = world.yields = 0;
    is_int(poller_run(world.poller), -ECANCELED, "turns are taken until that is over");
    ok(world.turns < TURNS_MAX, "which it is");
}

/* Short sleeps may be long ones on a busy machine: until one was short. */
static bool has_found_awake(void) {
    return world.yields > 0 && world.turns > world.sleeps;
}

static void test_looks(void) {
    world.brings = true;
    run(has_found_awake);
    ok(world.sleeps > 0, "at first it sleeps; when that was short it looks, and finds the next event awake");
}

static bool has_slept_after_looking(void) {
    return world.yields > 0 && world.sleeps > 1;
}

static void test_looks_in_vain(void) {
    world.brings = false;
    run(has_slept_after_looking);
    ok(world.sleeps > 1, "if nothing comes it sleeps after all");
}

static bool has_yielded(void) {
    return world.yields > 0;
}

static unsigned wanted;
static instant_ns lost_ns;

static bool has_taken_turns(void) {
    return world.turns >= wanted;
}

static void test_busy_neighbour(void) {
    enum { TRIES = 10, TURNS = 20 };

    /* Unless we are stopped for a second ourselves. */
    for (unsigned i = 0; i == 0 || (i < TRIES && clock_now_ns() - lost_ns >= NS_PER_S); i++) {
        world.brings = true;
        world.lost_ns = 10 * NS_PER_MS;
        lost_ns = clock_now_ns();
        run(has_yielded);
        world.lost_ns = 0;
        wanted = TURNS;
        run(has_taken_turns);
    }
    is_int(world.yields, 0, "a core that was lost for 10 ms is not yielded for a second");
    is_int(world.sleeps, TURNS, "events are slept for");
    while (clock_now_ns() - lost_ns < 2 * NS_PER_S)
        (void) usleep(10000);
    run(has_yielded);
    ok(world.yields > 0, "after that it looks again");
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
    test_busy_neighbour();
    world.poller = poller_free(world.poller);
    (void) sd_event_unref(event);
    (void) close(world.fd);
    return done_testing();
}
