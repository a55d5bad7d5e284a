/* bench hold SOCKET NAME LEASES CONNECTIONS TTL-MS LOOK-MS [AT-ONCE]: holds leases until its standard input
 * ends, requested so many at once (256); reads each one's redlock_remaining_ns() that often (0: never), and
 * prints the least validity found. bench await SOCKET NAME TTL-MS: waits for one name, and prints the time
 * of the grant. bench idle SOCKET CONNECTIONS: keeps idle connections until its standard input ends.
 *
 * Each prints a line of JSON when it has begun, and one at its end. */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "redlock.h"

enum { CONNECTIONS_MAX = 10000, LEASES_MAX = 1 << 17 };

static struct redlock *connections[CONNECTIONS_MAX];
static unsigned n_connections;
static struct redlock_lease *leases[LEASES_MAX];
static unsigned granted, lost, at_risk;

static void on_granted(struct redlock_lease *lease, void *userdata) {
    (void) lease;
    (void) userdata;
    granted++;
}

static void on_failed(struct redlock_lease *lease, enum redlock_error error, const char *text,
                      void *userdata) {
    (void) lease;
    (void) error;
    (void) userdata;
    fail("a request", text);
}

static void on_lost(struct redlock_lease *lease, const char *reason, const char *text, void *userdata) {
    (void) lease;
    (void) reason;
    (void) text;
    (void) userdata;
    lost++;
}

static void on_at_risk(struct redlock_lease *lease, int64_t left_ms, const char *reason, void *userdata) {
    (void) lease;
    (void) left_ms;
    (void) reason;
    (void) userdata;
    at_risk++;
}

static void connect_all(const char *place, unsigned count) {
    const struct redlock_callbacks callbacks = {.size = sizeof(callbacks),
                                                .granted = on_granted,
                                                .failed = on_failed,
                                                .at_risk = on_at_risk,
                                                .lost = on_lost};

    for (n_connections = 0; n_connections < count; n_connections++) {
        if (redlock_connect(place, &connections[n_connections]) != REDLOCK_OK)
            fail(place, "can't connect");
        redlock_set_callbacks(connections[n_connections], &callbacks, NULL);
    }
}

static void say(const char *line) {
    (void) printf("%s\n", line);
    (void) fflush(stdout);
}

/* false: standard input has ended. */
static bool turn(int wait_ms) {
    static struct pollfd polls[CONNECTIONS_MAX + 1];

    polls[n_connections] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    for (unsigned i = 0; i < n_connections; i++)
        polls[i] = (struct pollfd){.fd = redlock_fd(connections[i]), .events = POLLIN};
    if (poll(polls, n_connections + 1, wait_ms) < 0)
        fail("poll", strerror(errno));
    for (unsigned i = 0; i < n_connections; i++)
        if (polls[i].revents && redlock_dispatch(connections[i]) != REDLOCK_OK) {
            if (lost == 0)
                fail("redlock_dispatch", redlock_error_text(connections[i]));
            return false; /* the agent has ended, and the leases with it */
        }
    return !polls[n_connections].revents;
}

static void acquire_all(const char *prefix, unsigned count, unsigned ttl_ms, unsigned at_once) {
    struct redlock_options options = {.size = sizeof(options), .ttl_ms = ttl_ms, .wait_ms = 60000};
    char name[64];

    for (unsigned i = 0; i < count; i++) {
        struct redlock *connection = connections[i % n_connections];
        (void) snprintf(name, sizeof(name), "%s-%u", prefix, i);
        if (redlock_acquire_async(connection, name, &options, &leases[i]) != REDLOCK_OK)
            fail("redlock_acquire_async", redlock_error_text(connection));
        while (i - granted >= at_once && i > granted)
            (void) turn(-1);
    }
    while (granted < count)
        (void) turn(-1);
}

static double least_percent(unsigned count, unsigned ttl_ms) {
    int64_t least_ns = INT64_MAX;

    for (unsigned i = 0; i < count; i++) {
        int64_t left_ns = redlock_remaining_ns(leases[i]);
        least_ns = left_ns < least_ns ? left_ns : least_ns;
    }
    return (double) least_ns / 1e4 / ttl_ms;
}

int run_hold(char **arguments) {
    for (unsigned i = 0; i < 6; i++)
        if (!arguments[i])
            fail("usage", "bench hold SOCKET NAME LEASES CONNECTIONS TTL-MS LOOK-MS [AT-ONCE]");
    unsigned count = number_of(arguments[2], 1, LEASES_MAX);
    unsigned ttl_ms = number_of(arguments[4], 1, 86400000), look_ms = number_of(arguments[5], 0, 1000000);
    double least = 100, looks = 0, next_us;

    connect_all(arguments[0], number_of(arguments[3], 1, CONNECTIONS_MAX));
    acquire_all(arguments[1], count, ttl_ms, arguments[6] ? number_of(arguments[6], 1, 1000) : 256);
    say("{\"holding\": true}");
    next_us = now_us();
    while (turn(look_ms ? (int) look_ms : -1)) {
        if (look_ms == 0 || now_us() < next_us)
            continue;
        double now_least = least_percent(count, ttl_ms);
        least = now_least < least ? now_least : least;
        looks++;
        next_us = now_us() + look_ms * 1e3;
    }
    (void) printf("{\"least_validity_percent\": %.2f, \"looks\": %.0f, \"lost\": %u, \"at_risk\": %u}\n",
                  least, looks, lost, at_risk);
    return 0;
}

int run_await(char **arguments) {
    if (!arguments[0] || !arguments[1] || !arguments[2])
        fail("usage", "bench await SOCKET NAME TTL-MS");
    const struct redlock_options options = {
        .size = sizeof(options), .ttl_ms = number_of(arguments[2], 1, 86400000), .wait_ms = -1};
    connect_all(arguments[0], 1);
    if (redlock_acquire_async(connections[0], arguments[1], &options, &leases[0]) != REDLOCK_OK)
        fail("redlock_acquire_async", redlock_error_text(connections[0]));
    say("{\"waiting\": true}");
    while (granted == 0)
        if (!turn(-1))
            return 1;
    double at_us = now_us();
    (void) printf("{\"at_us\": %.1f, \"fence\": %llu}\n", at_us,
                  (unsigned long long) redlock_fence(leases[0]));
    (void) fflush(stdout);
    (void) redlock_release(leases[0]);
    return 0;
}

int run_idle(char **arguments) {
    if (!arguments[0] || !arguments[1])
        fail("usage", "bench idle SOCKET CONNECTIONS");
    connect_all(arguments[0], number_of(arguments[1], 1, CONNECTIONS_MAX));
    say("{\"idle\": true}");
    while (turn(-1))
        ;
    return 0;
}
