/* libredlock across restarts of its agent. Whoever runs this kills and starts the agent as the lines "#
 * kill" and
 * "# start" on standard output want it, and writes a line when that is done. */

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../unit/tap.h"
#include "redlock.h"

enum { LEASES = 5, TTL_MS = 3000 };

static const char *socket_path;

static int64_t now_ms(clockid_t clock) {
    struct timespec now;
    (void) clock_gettime(clock, &now);
    return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* "kill" or "start". */
static void agent(const char *what) {
    (void) printf("# %s\n", what);
    (void) fflush(stdout);
    while (getchar() != '\n')
        ;
}

static struct redlock *connection_new(void) {
    struct redlock *connection = NULL;
    if (redlock_connect(socket_path, &connection) != REDLOCK_OK)
        abort();
    return connection;
}

static struct redlock_options options_of(int64_t ttl_ms, int64_t wait_ms) {
    struct redlock_options options = REDLOCK_OPTIONS_INIT;
    options.ttl_ms = ttl_ms;
    options.wait_ms = wait_ms;
    return options;
}

struct heard {
    unsigned granted, failed, at_risk, extended, lost, disconnected;
    int error;
    int64_t lost_ms;
};

static void on_granted(struct redlock_lease *lease, void *userdata) {
    (void) lease;
    ((struct heard *) userdata)->granted++;
}

static void on_failed(struct redlock_lease *lease, enum redlock_error error, const char *text,
                      void *userdata) {
    struct heard *heard = userdata;
    (void) lease;
    (void) text;
    heard->failed++;
    heard->error = error;
}

static void on_at_risk(struct redlock_lease *lease, int64_t left_ms, const char *reason, void *userdata) {
    (void) lease;
    (void) left_ms;
    (void) reason;
    ((struct heard *) userdata)->at_risk++;
}

static void on_extended(struct redlock_lease *lease, void *userdata) {
    (void) lease;
    ((struct heard *) userdata)->extended++;
}

static void on_lost(struct redlock_lease *lease, const char *reason, const char *text, void *userdata) {
    struct heard *heard = userdata;
    (void) lease;
    (void) reason;
    (void) text;
    heard->lost++;
    heard->lost_ms = now_ms(CLOCK_BOOTTIME);
}

static void on_disconnected(struct redlock *connection, void *userdata) {
    (void) connection;
    ((struct heard *) userdata)->disconnected++;
}

static struct redlock *loop_new(struct heard *heard) {
    const struct redlock_callbacks callbacks = {
        .size = sizeof(callbacks),
        .granted = on_granted,
        .failed = on_failed,
        .at_risk = on_at_risk,
        .extended = on_extended,
        .lost = on_lost,
        .disconnected = on_disconnected,
    };
    struct redlock *connection = connection_new();

    *heard = (struct heard){0};
    redlock_set_callbacks(connection, &callbacks, heard);
    return connection;
}

/* Until the counter is there, or the time is over; which? */
static bool dispatch(struct redlock *connection, int64_t ms, const unsigned *counter, unsigned wanted) {
    int64_t until_ms = now_ms(CLOCK_BOOTTIME) + ms;

    while (now_ms(CLOCK_BOOTTIME) < until_ms && (!counter || *counter < wanted)) {
        struct pollfd fd = {.fd = redlock_fd(connection), .events = (short) redlock_events(connection)};
        (void) poll(&fd, 1, 100);
        (void) redlock_dispatch(connection);
    }
    return counter && *counter >= wanted;
}

static void test_blocking(void) {
    struct redlock *connection = connection_new();
    struct redlock_options options = options_of(TTL_MS, 0);
    struct redlock_lease *lease = NULL, *second = NULL;

    is_int(redlock_acquire(connection, "blocking", &options, &lease), REDLOCK_OK, "a lease");
    agent("kill");
    agent("start");
    ok(redlock_check(lease) > 0, "after a restart the next question is answered by the new agent");
    agent("kill");
    agent("start");
    is_int(redlock_acquire(connection, "second", &options, &second), REDLOCK_OK,
           "and the next request, though it finds the connection broken");
    ok(redlock_check(lease) > 0, "the first lease is held on");
    agent("kill");
    agent("start");
    is_int(redlock_release(lease), 1, "it is released at the new agent");
    is_int(redlock_release(second), 1, "and so is the other");
    struct redlock *other = connection_new();
    is_int(redlock_acquire(other, "blocking", &options, &lease), REDLOCK_OK, "which are free at once");
    redlock_close(other);
    redlock_close(connection);
}

static void test_event_loop(void) {
    struct heard heard;
    struct redlock *blocker = connection_new(), *loop = loop_new(&heard);
    struct redlock_options options = options_of(TTL_MS, 0), patient = options_of(TTL_MS, -1);
    struct redlock_lease *leases[LEASES], *blocking = NULL, *waiting = NULL;
    char name[16];

    is_int(redlock_acquire(blocker, "blocked", &options, &blocking), REDLOCK_OK, "a name is taken");
    for (unsigned i = 0; i < LEASES; i++) {
        (void) snprintf(name, sizeof(name), "loop-%u", i);
        (void) redlock_acquire_async(loop, name, &options, &leases[i]);
    }
    (void) redlock_acquire_async(loop, "blocked", &patient, &waiting);
    ok(dispatch(loop, 20000, &heard.granted, LEASES), "an event loop has %u leases and waits for one",
       LEASES);
    for (unsigned turn = 0; turn < 2; turn++) {
        agent("kill");
        (void) dispatch(loop, 50, NULL, 0);
        agent("start");
        ok(redlock_check(blocking) > 0, "its holder resumes the one that it waits for");
        (void) dispatch(loop, 700, NULL, 0);
    }
    (void) dispatch(loop, TTL_MS + 500, NULL, 0);
    ok(redlock_check(blocking) > 0, "and holds it on");
    is_int(heard.lost + heard.failed + heard.disconnected + heard.at_risk, 0,
           "it hears nothing of restarts");
    is_int(heard.granted, LEASES, "and nothing is granted twice");
    unsigned held = 0;
    for (unsigned i = 0; i < LEASES; i++)
        held += redlock_remaining_ns(leases[i]) > 0;
    is_int(held, LEASES, "all leases have outlived their ttl");
    is_int(redlock_release(blocking), 1, "when the name becomes free");
    ok(dispatch(loop, 20000, &heard.granted, LEASES + 1), "who waited for it through the restarts has it");
    redlock_close(blocker);
    redlock_close(loop);
}

static void test_agent_stays_away(void) {
    struct heard heard;
    struct redlock *loop = loop_new(&heard), *waiter = NULL;
    struct redlock_options options = options_of(1000, 0), patient = options_of(TTL_MS, -1);
    struct redlock_lease *lease = NULL, *waiting = NULL;
    struct heard waiter_heard;

    (void) redlock_acquire_async(loop, "away", &options, &lease);
    (void) dispatch(loop, 20000, &heard.granted, 1);
    waiter = loop_new(&waiter_heard);
    redlock_set_answer_timeout(waiter, 300);
    (void) redlock_acquire_async(waiter, "away", &patient, &waiting);
    (void) dispatch(waiter, 100, NULL, 0);
    agent("kill");
    int64_t deadline_ms = now_ms(CLOCK_BOOTTIME) + redlock_remaining_ns(lease) / 1000000;
    int64_t cpu_ms = now_ms(CLOCK_PROCESS_CPUTIME_ID);
    ok(dispatch(loop, 20000, &heard.lost, 1), "an agent that stays away: the lease is lost");
    ok(heard.lost_ms <= deadline_ms + 250, "which is told at the deadline (%lld ms after it)",
       (long long) (heard.lost_ms - deadline_ms));
    is_int(heard.at_risk, 1, "and that it is at risk before");
    ok(dispatch(loop, 20000, &heard.disconnected, 1), "with nothing left to hold the connection is over");
    ok(dispatch(waiter, 20000, &waiter_heard.failed, 1), "who waits does so for the answer time-out only");
    is_int(waiter_heard.error, REDLOCK_AGENT_AWAY, "and is told why");
    cpu_ms = now_ms(CLOCK_PROCESS_CPUTIME_ID) - cpu_ms;
    ok(cpu_ms < 200, "meanwhile nobody spins (%lld ms of CPU time)", (long long) cpu_ms);
    agent("start");
    is_int(redlock_dispatch(loop), REDLOCK_AGENT_AWAY, "a connection that is over stays so");
    redlock_close(loop);
    redlock_close(waiter);
}

static void test_at_risk(void) {
    struct heard heard;
    struct redlock *loop = loop_new(&heard);
    struct redlock_options options = options_of(TTL_MS, 0);
    struct redlock_lease *lease = NULL;

    (void) redlock_acquire_async(loop, "nearly", &options, &lease);
    (void) dispatch(loop, 20000, &heard.granted, 1);
    agent("kill");
    ok(dispatch(loop, 20000, &heard.at_risk, 1), "a lease that nobody extends for a while is at risk");
    agent("start");
    ok(dispatch(loop, 20000, &heard.extended, 1), "and when it was resumed no longer");
    ok(redlock_remaining_ns(lease) > 0 && heard.lost == 0, "it was held all the while");
    is_int(redlock_release_async(lease), REDLOCK_OK, "it is released like any other");
    redlock_close(loop);
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 64;
    socket_path = argv[1];
    test_blocking();
    test_event_loop();
    test_agent_stays_away();
    test_at_risk();
    return done_testing();
}
