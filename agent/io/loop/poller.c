#include "io/loop/poller.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/instant.h"
#include "io/loop/clock.h"
#include "io/loop/loop.h"
#include "spin-budget.h"

/* Without SPIN_NS one client's acquire takes 1.1 times as long, and 8 processes reach 0.7 of the hand-
 * offs. */
enum {
    BATCH = 64,
    SPIN_NS = 100 * 1000,  /* a wake-up costs some 10 to 50 µs */
    SETTLE_ROUNDS_MAX = 8, /* of a turn */
};

struct poller {
    int epoll_fd;
    sd_event *event;
    bool spins; /* before it sleeps */
    struct spin_budget spin_budget;
    bool unsettled; /* settle() has more to do */
    struct poller_hooks hooks;
    void *userdata;
};

int poller_new(sd_event *event, const struct poller_hooks *hooks, void *userdata, struct poller **ret) {
    struct poller *poller = calloc(1, sizeof(*poller));

    if (!poller)
        return -ENOMEM;
    *poller = (struct poller){.event = sd_event_ref(event), .hooks = *hooks, .userdata = userdata};
    poller->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int r = poller->epoll_fd < 0 ? -errno : sd_event_get_fd(event);
    if (r >= 0)
        r = poller_add(poller, r, EPOLLIN, NULL);
    if (r < 0) {
        poller_free(poller);
        return r;
    }
    *ret = poller;
    return 0;
}

struct poller *poller_free(struct poller *poller) {
    if (!poller)
        return NULL;
    sd_event_unref(poller->event);
    if (poller->epoll_fd >= 0)
        (void) close(poller->epoll_fd);
    free(poller);
    return NULL;
}

/* Dispatches what sd-event has ready, and leaves it armed: its descriptor becomes readable for the next
 * event. 1 if nothing was ready, 2 if something was; or, when sd-event has finished, 0 or its negative exit
 * code. */
static int serve_event(sd_event *event) {
    int outcome = 1, code;

    for (;;) {
        bool armed = sd_event_get_state(event) == SD_EVENT_ARMED;
        if (!armed)
            (void) loop_touched(); /* sd_event_prepare() takes all changes */
        int r = armed ? sd_event_wait(event, 0) : sd_event_prepare(event);
        if (r < 0)
            return r;
        if (r > 0) {
            outcome = 2;
            r = sd_event_dispatch(event);
            if (r < 0)
                return r;
        }
        switch (sd_event_get_state(event)) {
        case SD_EVENT_ARMED:
            return outcome;
        case SD_EVENT_FINISHED:
            return sd_event_get_exit_code(event, &code) >= 0 && code < 0 ? code : 0;
        default:
            break;
        }
    }
}

/* Settles and dispatches sd-event until nothing new follows. The rounds are limited, so that mailboxes and
 * sockets get their turn. */
static int settle(struct poller *poller) {
    for (unsigned round = 0; round < SETTLE_ROUNDS_MAX; round++) {
        int r = poller->hooks.settle(poller->userdata);
        poller->unsettled = r > 0;
        if (r >= 0)
            r = loop_touched() ? serve_event(poller->event) : 1;
        if (r <= 1 || poller->unsettled)
            return r;
    }
    poller->unsettled = true;
    return 1;
}

static int turn(struct poller *poller, const struct epoll_event *events, int n) {
    bool event_ready = false;

    for (int i = 0; i < n; i++)
        event_ready |= !events[i].data.ptr;
    /* Deadlines first, then messages, then sockets. settle() comes last, because it may free targets. */
    if (event_ready) {
        int r = serve_event(poller->event);
        if (r <= 0)
            return r;
    }
    poller->hooks.mail(poller->userdata);
    for (int i = 0; i < n; i++) {
        struct poller_target *target = events[i].data.ptr;
        if (target)
            target->on_events(target, events[i].events);
    }
    return settle(poller);
}

/* Polls for a while, and yields to other threads in between. The number of events (0 also if mail waits), or
 * -1. */
static int look_for_work(struct poller *poller, struct epoll_event *events, instant_ns begun_ns) {
    instant_ns now_ns = begun_ns;

    for (;;) {
        if (poller->hooks.mail_waits(poller->userdata, false))
            return 0;
        int n = epoll_wait(poller->epoll_fd, events, BATCH, 0);
        if (n != 0 || now_ns - begun_ns >= SPIN_NS)
            return n;
        (void) sched_yield();
        instant_ns back_ns = clock_now_ns();
        spin_budget_note(&poller->spin_budget, back_ns, back_ns - now_ns);
        now_ns = back_ns;
    }
}

static int wait_for_work(struct poller *poller, struct epoll_event *events) {
    instant_ns begun_ns = clock_now_ns();
    int n = 0;

    if (poller->unsettled)
        return epoll_wait(poller->epoll_fd, events, BATCH, 0);
    if (poller->spins && spin_budget_may(&poller->spin_budget, begun_ns))
        n = look_for_work(poller, events, begun_ns);
    if (n == 0 && !poller->hooks.mail_waits(poller->userdata, true))
        n = epoll_wait(poller->epoll_fd, events, BATCH, -1);
    /* Spinning pays where the sleep would be short. */
    poller->spins = clock_now_ns() - begun_ns <= SPIN_NS;
    return n;
}

int poller_run(struct poller *poller) {
    struct epoll_event events[BATCH];

    int r = serve_event(poller->event);
    if (r > 0)
        r = settle(poller);
    while (r > 0) {
        int n = wait_for_work(poller, events);
        if (n < 0 && errno != EINTR)
            return -errno;
        r = turn(poller, events, n);
    }
    return r;
}

static int control(struct poller *poller, int operation, int fd, uint32_t events,
                   struct poller_target *target) {
    struct epoll_event event = {.events = events, .data.ptr = target};
    return epoll_ctl(poller->epoll_fd, operation, fd, &event) < 0 ? -errno : 0;
}

int poller_add(struct poller *poller, int fd, uint32_t events, struct poller_target *target) {
    return control(poller, EPOLL_CTL_ADD, fd, events, target);
}

int poller_modify(struct poller *poller, int fd, uint32_t events, struct poller_target *target) {
    return control(poller, EPOLL_CTL_MOD, fd, events, target);
}

void poller_remove(struct poller *poller, int fd) {
    (void) control(poller, EPOLL_CTL_DEL, fd, 0, NULL);
}
