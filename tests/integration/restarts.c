/* libredlock across restarts of its agent; prints TAP. Started by test_restarts.py, which kills and starts
 * the agent when this program prints "# kill" and "# start", and then writes a line. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "app.h"

enum { LEASES = 5, TTL_MS = 5000 };

/* "kill" or "start". */
static void agent(const char *what) {
    (void) printf("# %s\n", what);
    (void) fflush(stdout);
    while (getchar() != '\n')
        ;
}

static struct redlock *loop_new(struct events *events) {
    struct redlock *connection = connection_new();

    count_events(connection, events);
    return connection;
}

static void test_blocking(void) {
    struct redlock *connection = connection_new();
    struct redlock_options options = options_of(TTL_MS, 0);
    struct redlock_lease *lease = NULL, *second = NULL;

    is_int(redlock_acquire(connection, "blocking", &options, &lease), REDLOCK_OK, "the lease is acquired");
    agent("kill");
    agent("start");
    ok(redlock_check(lease) > 0, "after a restart the new agent replies to the next request");
    agent("kill");
    agent("start");
    is_int(redlock_acquire(connection, "second", &options, &second), REDLOCK_OK,
           "a new lease is acquired although the connection broke");
    ok(redlock_check(lease) > 0, "the first lease is still held");
    agent("kill");
    agent("start");
    is_int(redlock_release(lease), 1, "the new agent releases it");
    is_int(redlock_release(second), 1, "and the other lease");
    struct redlock *other = connection_new();
    is_int(redlock_acquire(other, "blocking", &options, &lease), REDLOCK_OK, "the name is free at once");
    redlock_close(other);
    redlock_close(connection);
}

static void test_event_loop(void) {
    struct events events;
    struct redlock *blocker = connection_new(), *loop = loop_new(&events);
    struct redlock_options options = options_of(TTL_MS, 0), waiting_options = options_of(TTL_MS, -1);
    struct redlock_lease *leases[LEASES], *blocking = NULL, *waiting = NULL;
    char name[16];

    is_int(redlock_acquire(blocker, "blocked", &options, &blocking), REDLOCK_OK,
           "the first lease is acquired");
    for (unsigned i = 0; i < LEASES; i++) {
        (void) snprintf(name, sizeof(name), "loop-%u", i);
        (void) redlock_acquire_async(loop, name, &options, &leases[i]);
    }
    (void) redlock_acquire_async(loop, "blocked", &waiting_options, &waiting);
    ok(dispatch_until(loop, &events.granted, LEASES), "an event loop has %u leases and waits for one",
       LEASES);
    for (unsigned turn = 0; turn < 2; turn++) {
        agent("kill");
        dispatch_for(loop, 50);
        agent("start");
        ok(redlock_check(blocking) > 0, "the holder resumes the lease that the event loop waits for");
        dispatch_for(loop, 700);
    }
    dispatch_for(loop, TTL_MS + 500);
    ok(redlock_check(blocking) > 0, "and still holds it");
    is_int(events.lost + events.failed + events.disconnected + events.at_risk, 0,
           "no callback reports the restarts");
    is_int(events.granted, LEASES, "no lease is granted twice");
    unsigned held = 0;
    for (unsigned i = 0; i < LEASES; i++)
        held += redlock_remaining_ns(leases[i]) > 0;
    is_int(held, LEASES, "all leases have outlived their ttl");
    is_int(redlock_release(blocking), 1, "the name becomes free");
    ok(dispatch_until(loop, &events.granted, LEASES + 1),
       "the request that waited through the restarts is granted");
    redlock_close(blocker);
    redlock_close(loop);
}

static void test_agent_stays_away(void) {
    struct events events;
    struct redlock *loop = loop_new(&events), *waiter = NULL;
    struct redlock_options options = options_of(3000, 0), waiting_options = options_of(TTL_MS, -1);
    struct redlock_lease *lease = NULL, *waiting = NULL, *impatient = NULL;
    struct events waiter_heard;

    (void) redlock_acquire_async(loop, "away", &options, &lease);
    (void) dispatch_until(loop, &events.granted, 1);
    waiter = loop_new(&waiter_heard);
    redlock_set_answer_timeout(waiter, 300);
    (void) redlock_acquire_async(waiter, "away", &waiting_options, &waiting);
    dispatch_for(waiter, 100);
    agent("kill");
    int64_t deadline_ms = now_ms() + redlock_remaining_ns(lease) / 1000000;
    int64_t begun_ms = now_ms(), cpu_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    ok(dispatch_until(loop, &events.at_risk, 1), "without an agent the lease is at risk");
    is_int(redlock_acquire_async(loop, "no agent", &options, &impatient), REDLOCK_AGENT_AWAY,
           "a request that does not wait fails at once");
    ok(dispatch_until(loop, &events.lost, 1), "and then lost");
    ok(events.lost_ms <= deadline_ms + 250, "at the deadline (%lld ms after it)",
       (long long) (events.lost_ms - deadline_ms));
    is_int(events.at_risk, 1, "after one report at risk");
    ok(dispatch_until(loop, &events.disconnected, 1), "without a lease the connection is over");
    ok(dispatch_until(waiter, &waiter_heard.failed, 1), "a waiting request fails after the answer time-out");
    is_int(waiter_heard.error, REDLOCK_AGENT_AWAY, "with REDLOCK_AGENT_AWAY");
    int64_t cpu_ms = (now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns) / 1000000;
    int64_t took_ms = now_ms() - begun_ms;
    ok(cpu_ms < 100 + took_ms / 20, "reconnecting does not spin (%lld ms of CPU time in %lld)",
       (long long) cpu_ms, (long long) took_ms);
    agent("start");
    is_int(redlock_dispatch(loop), REDLOCK_AGENT_AWAY, "a connection that is over stays over");
    redlock_close(loop);
    redlock_close(waiter);
}

static void test_at_risk(void) {
    struct events events;
    struct redlock *loop = loop_new(&events);
    struct redlock_options options = options_of(TTL_MS, 0);
    struct redlock_lease *lease = NULL;

    (void) redlock_acquire_async(loop, "nearly", &options, &lease);
    (void) dispatch_until(loop, &events.granted, 1);
    agent("kill");
    ok(dispatch_until(loop, &events.at_risk, 1), "a lease without an agent is reported at risk");
    agent("start");
    ok(dispatch_until(loop, &events.extended, 1), "and extended when resumed");
    ok(redlock_remaining_ns(lease) > 0 && events.lost == 0, "it was held throughout");
    is_int(redlock_release_async(lease), REDLOCK_OK, "it is released");
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
