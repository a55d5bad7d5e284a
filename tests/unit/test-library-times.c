/* When the library acts: on a clock of this file, which only goes on while the library sleeps and no agent
 * is connected. */

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "connection-internal.h"
#include "library-harness.h"
#include "tap.h"

enum {
    TTL_MS = 60000 /* of the scripted agent's leases */,
    PING_MS = 3000 /* between those for observers */
};

static _Atomic int64_t now_ns = 1000 * NS_PER_S;
static struct redlock *connection; /* NULL: none yet */
static int64_t armed_ns; /* when the descriptor for event loops is ready; INT64_MAX: only by the socket */

/* --- replacements for calls of the C library --- */

int clock_gettime(clockid_t clock, struct timespec *ret) {
    int64_t at_ns = now_ns;

    (void) clock;
    *ret = (struct timespec){.tv_sec = at_ns / NS_PER_S, .tv_nsec = at_ns % NS_PER_S};
    return 0;
}

int ppoll(struct pollfd *fds, nfds_t n_fds, const struct timespec *timeout, const sigset_t *mask) {
    bool is_away = connection && connection->client.gone;
    int n = poll(fds, n_fds, is_away ? 0 : TIMEOUT_MS);

    (void) mask;
    if (n == 0 && timeout)
        now_ns += timeout->tv_sec * NS_PER_S + timeout->tv_nsec;
    return n;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *former) {
    (void) fd;
    (void) flags;
    (void) former;
    armed_ns = at->it_value.tv_sec * NS_PER_S + at->it_value.tv_nsec;
    return 0;
}

static void end(void) {
    redlock_close(connection);
    connection = NULL;
}

/* --- grants within blocking calls --- */

enum call { CALL_RELEASE, CALL_CHECK, CALL_BEAT, CALL_LEADER, CALL_OBSERVE, CALLS };

static const char *const names[CALLS] = {"redlock_release()", "redlock_check()", "redlock_beat()",
                                         "redlock_leader()", "redlock_observe()"};

static bool leader_is_known(void) {
    struct redlock_leader leader = REDLOCK_LEADER_INIT;

    return redlock_leader(connection, "x", &leader) == 1;
}

static bool succeeds(enum call which, struct redlock_lease *lease, struct redlock_lease *other) {
    switch (which) {
    case CALL_RELEASE:
        return redlock_release(other) == 1;
    case CALL_CHECK:
        return redlock_check(lease) == TTL_MS;
    case CALL_BEAT:
        return redlock_beat(lease) == 1;
    case CALL_LEADER:
        return leader_is_known();
    case CALL_OBSERVE:
    case CALLS:
        break;
    }
    return redlock_observe(connection, "z") == REDLOCK_OK;
}

/* The event loop wakes up for a lease whose grant a blocking call has read. */
static void test_grant_in_call(enum call which, bool with_page) {
    struct redlock_options options = REDLOCK_OPTIONS_INIT;
    struct redlock_lease *lease = NULL, *other = NULL;
    int64_t due_ms = which == CALL_OBSERVE ? PING_MS : TTL_MS / 2;

    options.wait_ms = TTL_MS;
    scripted_start();
    scripted.has_page = with_page;
    scripted.check_ms = TTL_MS;
    scripted.keeps_waiting = true;
    armed_ns = INT64_MAX;
    connection = connect_scripted();
    ok(redlock_fd(connection) >= 0, "an event loop");
    is(redlock_acquire_async(connection, "y", &options, &other), REDLOCK_OK);
    is(redlock_acquire_async(connection, "x", &options, &lease), REDLOCK_OK);
    ok(leader_is_known(), "the requests wait");
    is(armed_ns, now_ns + (TTL_MS + TIMEOUT_MS) * NS_PER_MS); /* when the requests fail */
    scripted_grant();
    ok(succeeds(which, lease, other), "the grant arrives during %s", names[which]);
    is(events.granted, 1);
    is(armed_ns, now_ns + due_ms * NS_PER_MS);
    end();
}

/* --- an agent that is stopped --- */

static unsigned unknown, known;

static void on_leader(struct redlock *at, const struct redlock_sighting *sighting, void *userdata) {
    (void) at;
    (void) userdata;
    if (sighting->leadership == REDLOCK_LEADER_UNKNOWN)
        unknown++;
    else
        known++;
}

/* Its leader is unknown when the answer time-out has passed, and known again when the agent goes on. */
static void test_observer(void) {
    const struct redlock_callbacks callbacks = {.size = sizeof(callbacks), .leader = on_leader};

    scripted_start();
    scripted.pushes_leader = true;
    armed_ns = INT64_MAX;
    connection = connect_scripted();
    is(redlock_set_callbacks(connection, &callbacks, NULL), REDLOCK_OK);
    ok(redlock_fd(connection) >= 0, "an event loop");
    is(redlock_observe(connection, "job"), REDLOCK_OK);
    ok(dispatch_until(connection, &known, 1), "the leader is reported");
    is(armed_ns, now_ns + PING_MS * NS_PER_MS);
    scripted.is_silent = true;
    now_ns += PING_MS * NS_PER_MS;
    is(redlock_dispatch(connection), REDLOCK_OK);
    now_ns += TIMEOUT_MS * NS_PER_MS - 1;
    is(redlock_dispatch(connection), REDLOCK_OK);
    is(unknown, 0);
    now_ns++;
    is(redlock_dispatch(connection), REDLOCK_OK);
    is(unknown, 1);
    scripted.is_silent = false;
    ok(dispatch_until(connection, &known, 2), "and again when the agent goes on");
    is(unknown, 1);
    is(scripted.hang_ups, 0);
    end();
}

static struct redlock_lease *ask(int64_t wait_ms, bool with_id) {
    struct redlock_options options = REDLOCK_OPTIONS_INIT;
    struct redlock_lease *lease = NULL;

    options.wait_ms = wait_ms;
    scripted_start();
    scripted.keeps_waiting = true;
    armed_ns = INT64_MAX;
    connection = connect_scripted();
    ok(redlock_fd(connection) >= 0, "an event loop");
    scripted.is_silent = !with_id;
    is(redlock_acquire_async(connection, "x", &options, &lease), REDLOCK_OK);
    if (with_id)
        ok(leader_is_known(), "the agent has assigned an id");
    scripted.is_silent = true;
    return lease;
}

static unsigned failed_after(int64_t ns) {
    now_ns += ns;
    is(redlock_dispatch(connection), REDLOCK_OK);
    return events.failed;
}

/* What the agent grants when it goes on is released. */
static void await_release(void) {
    scripted_grant();
    scripted.is_silent = false;
    for (unsigned i = 0; i < 2000 && scripted.releases == 0; i++) {
        (void) redlock_dispatch(connection);
        (void) usleep(1000);
    }
    is(scripted.releases, 1);
    is(events.granted, 0);
}

static void test_no_outcome(int64_t wait_ms, bool with_id) {
    struct redlock_lease *lease = ask(wait_ms, with_id);
    int64_t most_ns = (wait_ms + TIMEOUT_MS) * NS_PER_MS;

    ok(lease != NULL, "a request that waits for %lld ms, with%s an id", (long long) wait_ms,
       with_id ? "" : "out");
    is(armed_ns, now_ns + most_ns);
    is(failed_after(most_ns - 1), 0);
    is(failed_after(1), 1);
    is(events.error, REDLOCK_NO_ANSWER);
    ok(strstr(events.text, "did not answer"), "with a text: %s", events.text);
    await_release();
    is(events.failed, 1);
    end();
}

/* The library has not said that the handle is gone. */
static void test_no_outcome_unreported(bool with_id) {
    struct redlock_lease *lease = ask(0, with_id);

    is(redlock_set_callbacks(connection, NULL, NULL), REDLOCK_OK);
    is(failed_after(TIMEOUT_MS * NS_PER_MS), 0);
    await_release();
    ok(!redlock_valid(lease), "the lease is never valid");
    is(redlock_release(lease), 0);
    end();
}

/* The outcome lies unread when its time is over. */
static void test_unread_outcome(void) {
    struct redlock_lease *lease = NULL;

    scripted_start();
    connection = connect_scripted();
    is(redlock_acquire_async(connection, "x", NULL, &lease), REDLOCK_OK);
    while (scripted.acquires == 0)
        (void) usleep(200);
    now_ns += TIMEOUT_MS * NS_PER_MS;
    ok(leader_is_known(), "a blocking call reads it first");
    is(events.granted, 1);
    is(events.failed, 0);
    is(redlock_release(lease), 1);
    end();
}

/* A program that only polls, without an event loop. */
static void test_polled_outcome(void) {
    struct redlock_lease *lease = ask(0, false);

    now_ns += TIMEOUT_MS * NS_PER_MS - 1;
    is(redlock_check(lease), 0);
    is(events.failed, 0);
    now_ns++;
    is(redlock_check(lease), 0);
    is(events.failed, 1);
    is(events.error, REDLOCK_NO_ANSWER);
    end();
}

static void test_endless_wait(void) {
    (void) ask(-1, true);
    is(armed_ns, INT64_MAX);
    is(failed_after(3600 * NS_PER_S), 0);
    end();
}

/* As long as the agent sends something, requests without an id are in its queue. */
static void test_busy_agent(void) {
    (void) ask(0, false);
    for (unsigned i = 0; i < 5; i++) {
        scripted_send(">2\r\n$4\r\nmore\r\n:1\r\n");
        is(failed_after(TIMEOUT_MS * NS_PER_MS), 0);
    }
    is(failed_after(TIMEOUT_MS * NS_PER_MS), 1);
    end();
}

/* --- without an agent --- */

/* One answer time-out, although the request is sent again when a connection breaks. */
static void test_observe_away(void) {
    const struct redlock_callbacks callbacks = {.size = sizeof(callbacks), .leader = on_leader};

    scripted_start();
    connection = connect_scripted();
    unknown = 0;
    is(redlock_set_callbacks(connection, &callbacks, NULL), REDLOCK_OK);
    is(redlock_observe(connection, "kept"), REDLOCK_OK);
    scripted_die();
    is(redlock_dispatch(connection), REDLOCK_OK); /* detects the break */
    int64_t begun_ns = now_ns;
    is(redlock_observe(connection, "job"), REDLOCK_AGENT_AWAY);
    is(now_ns - begun_ns, TIMEOUT_MS * NS_PER_MS);
    is(unknown, 1); /* of "kept" alone */
    end();
}

enum { WAIT_MS = 5000 /* less than the answer time-out */ };

static int64_t failed_ns;
static enum redlock_error failed_by;

static void on_failed(struct redlock_lease *lease, enum redlock_error error, const char *text,
                      void *userdata) {
    (void) lease;
    (void) userdata;
    failed_ns = now_ns;
    failed_by = error;
    if (error == REDLOCK_TIMED_OUT)
        is_string(text, "the wait ended while there was no agent", "with the reason");
}

/* A request that waits when the agent goes for good. */
static void test_wait_away(int64_t wait_ms, int64_t ends_ms, enum redlock_error error) {
    const struct redlock_callbacks callbacks = {.size = sizeof(callbacks), .failed = on_failed};
    struct redlock_options options = REDLOCK_OPTIONS_INIT;
    struct redlock_lease *lease = NULL;

    options.wait_ms = wait_ms;
    scripted_start();
    connection = connect_scripted();
    is(redlock_set_callbacks(connection, &callbacks, NULL), REDLOCK_OK);
    (void) acquire(connection);
    scripted.keeps_waiting = true;
    int64_t begun_ns = now_ns;
    is(redlock_acquire_async(connection, "y", &options, &lease), REDLOCK_OK);
    ok(leader_is_known(), "the request waits");
    scripted_die();
    failed_ns = 0;
    is(redlock_dispatch(connection), REDLOCK_OK); /* detects the break */
    ok(!leader_is_known(), "no agent comes");
    is(failed_by, error);
    is(failed_ns - begun_ns, ends_ms * NS_PER_MS);
    end();
}

/* A request that is made when the agent has been away for longer than the answer time-out. */
static void test_late_request(bool async, int64_t wait_ms, int64_t ends_ms, enum redlock_error error) {
    const struct redlock_callbacks callbacks = {.size = sizeof(callbacks), .failed = on_failed};
    struct redlock_options options = REDLOCK_OPTIONS_INIT;
    struct redlock_lease *lease = NULL;

    options.wait_ms = wait_ms;
    scripted_start();
    connection = connect_scripted();
    is(redlock_set_callbacks(connection, &callbacks, NULL), REDLOCK_OK);
    (void) acquire(connection);
    scripted_die();
    is(redlock_dispatch(connection), REDLOCK_OK); /* detects the break */
    now_ns += (TIMEOUT_MS + 1) * NS_PER_MS;
    int64_t begun_ns = now_ns;
    if (async) {
        is(redlock_acquire_async(connection, "y", &options, &lease), REDLOCK_OK);
        ok(!leader_is_known(), "no agent comes");
        is(failed_by, error);
        is(failed_ns - begun_ns, ends_ms * NS_PER_MS);
    } else {
        is(redlock_acquire(connection, "y", &options, &lease), error);
        is(now_ns - begun_ns, ends_ms * NS_PER_MS);
    }
    end();
}

/* The agent has returned, and the next attempt to connect would come after the end of a short wait. */
static void test_short_wait(void) {
    struct redlock_options options = REDLOCK_OPTIONS_INIT;
    struct redlock_lease *lease = NULL;

    options.wait_ms = 1;
    scripted_start();
    connection = connect_scripted();
    (void) acquire(connection);
    scripted_die();
    ok(!leader_is_known(), "the attempts become rare");
    scripted_again();
    is(redlock_acquire(connection, "y", &options, &lease), REDLOCK_OK);
    end();
}

/* An event loop; the agent returns before or after the end of the request's time. */
static void test_return_in_wait(bool is_late) {
    struct redlock_options options = REDLOCK_OPTIONS_INIT;
    struct redlock_lease *lease = NULL;

    options.wait_ms = WAIT_MS;
    scripted_start();
    armed_ns = INT64_MAX;
    connection = connect_scripted();
    ok(redlock_fd(connection) >= 0, "an event loop");
    (void) acquire(connection);
    scripted.keeps_waiting = true;
    int64_t until_ns = now_ns + WAIT_MS * NS_PER_MS;
    is(redlock_acquire_async(connection, "y", &options, &lease), REDLOCK_OK);
    ok(leader_is_known(), "the request waits");
    unsigned asked = scripted.acquires;
    scripted_die();
    is(redlock_dispatch(connection), REDLOCK_OK); /* detects the break */
    ok(armed_ns <= until_ns, "and is ready at the end of the request's time");
    now_ns = is_late ? until_ns : until_ns - NS_PER_S;
    scripted_again();
    is(redlock_dispatch(connection), REDLOCK_OK);
    ok(leader_is_known(), "the agent returns %s", is_late ? "too late" : "in time");
    is(events.failed, is_late);
    is(events.error, is_late ? REDLOCK_TIMED_OUT : REDLOCK_OK);
    is(scripted.acquires, asked + !is_late);
    end();
}

static struct reports {
    int64_t at_risk_ns, extended_ns, lost_ns; /* 0: not reported */
    char reason[32];
    bool brings_agent; /* the report of the risk does */
} reports;

static void on_at_risk(struct redlock_lease *lease, int64_t left_ms, const char *reason, void *userdata) {
    (void) lease;
    (void) userdata;
    is(reports.at_risk_ns, 0);
    is(left_ms, TTL_MS / 2);
    reports.at_risk_ns = now_ns;
    (void) snprintf(reports.reason, sizeof(reports.reason), "%s", reason);
    if (reports.brings_agent)
        scripted_again();
}

static void on_extended(struct redlock_lease *lease, void *userdata) {
    (void) lease;
    (void) userdata;
    reports.extended_ns = now_ns;
}

static void on_lost(struct redlock_lease *lease, const char *reason, const char *text, void *userdata) {
    (void) lease;
    (void) reason;
    (void) text;
    (void) userdata;
    reports.lost_ns = now_ns;
}

/* A lease whose agent has died. */
static struct redlock_lease *lose_agent(int64_t answer_ms) {
    const struct redlock_callbacks callbacks = {
        .size = sizeof(callbacks), .at_risk = on_at_risk, .extended = on_extended, .lost = on_lost};

    reports = (struct reports){0};
    scripted_start();
    connection = connect_scripted();
    is(redlock_set_callbacks(connection, &callbacks, NULL), REDLOCK_OK);
    redlock_set_answer_timeout(connection, answer_ms);
    struct redlock_lease *lease = acquire(connection);
    scripted_die();
    return lease;
}

static void test_risk_in_call(void) {
    struct redlock_lease *lease = lose_agent(TTL_MS / 2 - 1);
    int64_t begun_ns = now_ns, half_ns = TTL_MS * NS_PER_MS / 2;

    is(redlock_check(lease), REDLOCK_AGENT_AWAY);
    is(reports.at_risk_ns, 0);
    is(redlock_check(lease), REDLOCK_AGENT_AWAY);
    is(reports.at_risk_ns, begun_ns + half_ns);
    is_string(reports.reason, "agent-away", "`at_risk` is called when half of the validity has passed");
    is(redlock_check(lease), 0);
    is(reports.lost_ns, begun_ns + 2 * half_ns);
    end();
}

static void test_return_in_acquire(void) {
    struct redlock_options options = REDLOCK_OPTIONS_INIT;
    struct redlock_lease *other = NULL;

    (void) lose_agent(TTL_MS);
    reports.brings_agent = true;
    options.wait_ms = TTL_MS / 2 + WAIT_MS;
    is(redlock_acquire(connection, "y", &options, &other), REDLOCK_OK);
    ok(reports.at_risk_ns != 0, "the request waits for the next agent");
    end();
}

static unsigned disconnected;

static void on_disconnected(struct redlock *at, void *userdata) {
    (void) at;
    (void) userdata;
    ok(reports.lost_ns != 0, "`lost` is called before `disconnected`");
    disconnected++;
}

/* The program sleeps past the deadline, while its agent is restarted or ends for good. */
static void test_break_after_deadline(bool is_seen, bool returns) {
    const struct redlock_callbacks callbacks = {
        .size = sizeof(callbacks), .lost = on_lost, .disconnected = on_disconnected};
    struct redlock_lease *lease = lose_agent(TTL_MS), *next = NULL;

    disconnected = 0;
    is(redlock_set_callbacks(connection, &callbacks, NULL), REDLOCK_OK);
    if (returns)
        scripted_again();
    now_ns += TTL_MS * NS_PER_MS;
    if (is_seen)
        ok(!redlock_valid(lease), "the program sees the deadline pass");
    is(redlock_check(lease), 0);
    is(reports.lost_ns, now_ns);
    is(redlock_acquire(connection, "x", NULL, &next), returns ? REDLOCK_OK : REDLOCK_AGENT_AWAY);
    is(disconnected, !returns);
    end();
}

/* The release of a lease that has ended before: whether an agent is there makes no difference. */
static void test_release_after_deadline(bool is_seen, bool returns) {
    struct redlock_lease *lease = lose_agent(TTL_MS);

    if (returns)
        scripted_again();
    now_ns += TTL_MS * NS_PER_MS;
    if (is_seen)
        ok(!redlock_valid(lease), "the program sees the deadline pass");
    is(redlock_release(lease), 0);
    end();
}

static void test_return_in_call(void) {
    struct redlock_lease *lease = lose_agent(TTL_MS);

    reports.brings_agent = true;
    ok(redlock_check(lease) > 0, "the next agent resumes the lease");
    ok(reports.at_risk_ns != 0 && reports.extended_ns >= reports.at_risk_ns,
       "`extended` is called after `at_risk`");
    is(reports.lost_ns, 0);
    end();
}

/* The next agent assigns an id before it has resumed the lease. */
static void test_id_while_resuming(void) {
    struct redlock_lease *lease = lose_agent(TTL_MS);

    is(redlock_dispatch(connection), REDLOCK_OK); /* detects the break */
    is(redlock_lease_id(lease), 0);
    scripted.keeps_waiting = true;
    scripted_again();
    ok(leader_is_known(), "the next agent has the request");
    is(redlock_lease_id(lease), scripted.id);
    scripted_grant();
    ok(redlock_check(lease) > 0, "then the lease is resumed");
    end();
}

/* No callback gets a handle that is being released. */
static void test_release_away(void) {
    for (int64_t answer_ms = TTL_MS - 1; answer_ms <= TTL_MS + 1; answer_ms += 2) { /* around the deadline */
        struct redlock_lease *lease = lose_agent(answer_ms);
        is(redlock_release(lease), REDLOCK_AGENT_AWAY);
        is(reports.at_risk_ns, 0);
        end();
    }
}

int main(void) {
    test_observer();
    for (enum call which = CALL_RELEASE; which < CALLS; which++) {
        test_grant_in_call(which, true);
        test_grant_in_call(which, false);
    }
    for (unsigned with_id = 0; with_id < 2; with_id++) {
        test_no_outcome(0, with_id);
        test_no_outcome(5000, with_id);
        test_no_outcome_unreported(with_id);
    }
    test_unread_outcome();
    test_polled_outcome();
    test_endless_wait();
    test_busy_agent();
    test_observe_away();
    test_wait_away(WAIT_MS, WAIT_MS, REDLOCK_TIMED_OUT);
    test_wait_away(2 * TIMEOUT_MS, TIMEOUT_MS, REDLOCK_AGENT_AWAY);
    test_wait_away(-1, TIMEOUT_MS, REDLOCK_AGENT_AWAY);
    for (unsigned async = 0; async < 2; async++) {
        test_late_request(async, WAIT_MS, WAIT_MS, REDLOCK_TIMED_OUT);
        test_late_request(async, 2 * TIMEOUT_MS, TIMEOUT_MS, REDLOCK_AGENT_AWAY);
        test_late_request(async, -1, TIMEOUT_MS, REDLOCK_AGENT_AWAY);
    }
    test_return_in_acquire();
    test_short_wait();
    test_return_in_wait(false);
    test_return_in_wait(true);
    test_risk_in_call();
    test_return_in_call();
    for (unsigned is_seen = 0; is_seen < 2; is_seen++) {
        test_break_after_deadline(is_seen, false);
        test_break_after_deadline(is_seen, true);
        test_release_after_deadline(is_seen, false);
        test_release_after_deadline(is_seen, true);
    }
    test_id_while_resuming();
    test_release_away();
    scripted_die();
    return done_testing();
}
