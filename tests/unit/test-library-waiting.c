/* Blocking calls on a request that waits, while its outcome arrives or the connection breaks: each handle is
 * freed once, and the connection stays usable. */

#include <unistd.h>

#include "library-harness.h"
#include "tap.h"

enum call { CALL_RELEASE, CALL_CHECK, CALL_BEAT, CALLS };

static const char *const names[CALLS] = {"redlock_release()", "redlock_check()", "redlock_beat()"};

static int64_t call(enum call which, struct redlock_lease *lease) {
    switch (which) {
    case CALL_CHECK:
        return redlock_check(lease);
    case CALL_BEAT:
        return redlock_beat(lease);
    case CALL_RELEASE:
    case CALLS:
        break;
    }
    return redlock_release(lease);
}

/* A request that the agent keeps waiting. */
static struct redlock_lease *wait_for_grant(struct redlock *connection, int64_t wait_ms) {
    struct redlock_options options = REDLOCK_OPTIONS_INIT;
    struct redlock_lease *lease = NULL;
    int64_t until_ns = boottime_ns() + TIMEOUT_MS * NS_PER_MS;

    options.wait_ms = wait_ms;
    scripted.keeps_waiting = true;
    is(redlock_acquire_async(connection, "x", &options, &lease), REDLOCK_OK);
    while (redlock_lease_id(lease) == 0 && boottime_ns() < until_ns)
        (void) redlock_dispatch(connection);
    is(redlock_lease_id(lease), scripted.id);
    return lease;
}

static void push_failed(void) {
    scripted_send(">3\r\n$6\r\nfailed\r\n:%llu\r\n$13\r\nTIMEOUT ended\r\n",
                  (unsigned long long) scripted.id);
}

/* The agent has failed the request, so it refuses what the client still asks about it. */
static void test_failed_meanwhile(enum call which) {
    scripted_start();
    scripted.check_ms = scripted.beat = scripted.release = 0;
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = wait_for_grant(connection, 5000);

    push_failed();
    ok(call(which, lease) == 0, "the request failed during %s", names[which]);
    if (which == CALL_RELEASE) {
        is(events.failed, 0);
    } else {
        is(events.failed, 1);
        is(events.error, REDLOCK_TIMED_OUT);
    }
    scripted.release = 1;
    ok(redlock_release(acquire(connection)) == 1, "the connection is usable after %s", names[which]);
    redlock_close(connection);
}

/* With other leases in the list, before and behind. */
static void test_failed_among_others(enum call which) {
    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *former = acquire(connection);
    struct redlock_lease *lease = wait_for_grant(connection, -1);

    push_failed();
    struct redlock_lease *later = NULL;
    is(redlock_acquire_async(connection, "y", NULL, &later), REDLOCK_OK);
    scripted.check_ms = scripted.beat = scripted.release = 0;
    ok(call(which, lease) == 0, "the request failed during %s", names[which]);
    scripted.release = 1;
    is(redlock_release(later), 1);
    is(redlock_release(former), 1);
    redlock_close(connection);
}

/* The library has not said that the handle is gone: so the handle stays. */
static void test_failed_without_callback(void) {
    scripted_start();
    struct redlock *connection = connect_scripted();
    is(redlock_set_callbacks(connection, NULL, NULL), REDLOCK_OK);
    struct redlock_lease *lease = wait_for_grant(connection, 5000);

    push_failed();
    scripted.keeps_waiting = false;
    is(redlock_release(acquire(connection)), 1);
    ok(!redlock_valid(lease), "a failed request without the callback `failed` keeps its handle");
    ok(redlock_release(lease) == 0, "until the caller releases the handle");
    is(events.failed, 0);
    redlock_close(connection);
}

/* 0 is final only for a lease that was granted. */
static void test_still_waiting(enum call which) {
    scripted_start();
    scripted.check_ms = scripted.beat = 0;
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = wait_for_grant(connection, 5000);

    ok(call(which, lease) == 0, "%s returns 0 for a request that waits", names[which]);
    scripted_grant();
    ok(dispatch_until(connection, &events.granted, 1), "which is granted later");
    ok(redlock_valid(lease), "and valid then");
    is(redlock_release(lease), 1);
    redlock_close(connection);
}

static void test_granted_meanwhile(void) {
    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = wait_for_grant(connection, 5000);

    scripted_grant();
    is(redlock_release(lease), 1);
    is(events.granted, 0);
    is(events.lost, 0);
    ok(counts_to(&scripted.releases, 1), "the agent releases what it granted");
    redlock_close(connection);
}

/* The reply does not come in time; then the grant, which is released, and the reply. */
static void test_granted_later(void) {
    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = wait_for_grant(connection, 5000);

    redlock_set_answer_timeout(connection, 1);
    scripted.is_silent = true;
    is(redlock_release(lease), REDLOCK_NO_ANSWER);
    scripted_grant();
    scripted.is_silent = false;
    redlock_set_answer_timeout(connection, TIMEOUT_MS);
    scripted.keeps_waiting = false;
    is(redlock_release(acquire(connection)), 1);
    is(events.granted, 0);
    ok(counts_to(&scripted.releases, 2), "the agent releases what it granted");
    redlock_close(connection);
}

/* Without wait_ms the request fails at the break; else it is kept, and fails when no agent returns. */
static void test_break(enum call which, int64_t wait_ms) {
    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = wait_for_grant(connection, wait_ms);

    scripted_die();
    ok(call(which, lease) == REDLOCK_AGENT_AWAY, "the connection broke during %s", names[which]);
    is(events.failed, which != CALL_RELEASE && wait_ms == 0);
    is(events.lost, 0);
    is_int(redlock_dispatch(connection),
           which == CALL_RELEASE || wait_ms == 0 ? REDLOCK_AGENT_AWAY : REDLOCK_OK,
           "the connection is over, unless a request is left");
    redlock_close(connection);
}

/* The grant arrives during the release, then the connection breaks: such a lease is not resumed. */
static void test_break_after_grant(void) {
    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = wait_for_grant(connection, 5000);

    scripted.breaks_at_release = true;
    is(redlock_release(lease), REDLOCK_AGENT_AWAY);
    is(events.granted, 0);
    is(events.lost, 0);
    is(scripted.resumes, 0);
    redlock_close(connection);
}

/* A program that only polls sees the grant. */
static void test_polling(enum call which) {
    int64_t until_ns = boottime_ns() + TIMEOUT_MS * NS_PER_MS, answer;
    struct redlock_lease *lease = NULL;

    scripted_start();
    struct redlock *connection = connect_scripted();
    is(redlock_acquire_async(connection, "x", NULL, &lease), REDLOCK_OK);
    while ((answer = call(which, lease)) == 0 && boottime_ns() < until_ns)
        (void) usleep(200);
    ok(answer > 0, "%s sees the grant", names[which]);
    is(events.granted, 1);
    ok(redlock_valid(lease), "the lease is valid");
    is(redlock_release(lease), 1);
    redlock_close(connection);
}

/* The agent grants a request whose id was not read before its release. */
static void test_release_unread(void) {
    struct redlock_lease *lease = NULL;

    scripted_start();
    struct redlock *connection = connect_scripted();
    is(redlock_acquire_async(connection, "x", NULL, &lease), REDLOCK_OK);
    is(redlock_release(lease), 1);
    ok(counts_to(&scripted.releases, 1), "the agent gets the release without another call");
    is(events.granted, 0);
    redlock_close(connection);
}

static void test_release_unanswered(void) {
    struct redlock_lease *lease = NULL;

    scripted_start();
    struct redlock *connection = connect_scripted();
    scripted.is_silent = true;
    is(redlock_acquire_async(connection, "x", NULL, &lease), REDLOCK_OK);
    redlock_set_answer_timeout(connection, 1);
    is(redlock_release(lease), REDLOCK_NO_ANSWER);
    scripted.is_silent = false;
    redlock_set_answer_timeout(connection, TIMEOUT_MS);
    is(redlock_release(acquire(connection)), 1);
    ok(counts_to(&scripted.releases, 2), "the agent gets the release once the id has come");
    is(events.granted, 0);
    redlock_close(connection);
}

static void test_break_unanswered(enum call which, int64_t wait_ms) {
    struct redlock_options options = REDLOCK_OPTIONS_INIT;
    struct redlock_lease *lease = NULL;

    scripted_start();
    struct redlock *connection = connect_scripted();
    scripted.is_silent = true;
    options.wait_ms = wait_ms;
    is(redlock_acquire_async(connection, "x", &options, &lease), REDLOCK_OK);
    scripted_die();
    ok(call(which, lease) == REDLOCK_AGENT_AWAY, "the connection broke before %s", names[which]);
    is(events.failed, which != CALL_RELEASE && wait_ms == 0);
    if (which != CALL_RELEASE && wait_ms != 0)
        ok(redlock_release(lease) == 1, "the request is kept, and withdrawn");
    is(events.granted, 0);
    redlock_close(connection);
}

/* A program without an event loop, and an agent that does not answer. */
static void test_late_in_call(void) {
    struct redlock_leader leader = REDLOCK_LEADER_INIT;
    struct redlock_lease *lease = NULL;

    scripted_start();
    struct redlock *connection = connect_scripted();
    scripted.is_silent = true;
    redlock_set_answer_timeout(connection, 20);
    is(redlock_acquire_async(connection, "x", NULL, &lease), REDLOCK_OK);
    is(redlock_leader(connection, "y", &leader), REDLOCK_NO_ANSWER);
    is(events.failed, 1);
    is(events.error, REDLOCK_NO_ANSWER);
    redlock_close(connection);
}

/* The next agent does not resume the lease in time, and would extend it later. */
static void test_release_while_resuming(bool has_id) {
    int64_t until_ns = boottime_ns() + TIMEOUT_MS * NS_PER_MS;

    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = acquire(connection);

    scripted_die();
    is(redlock_dispatch(connection), REDLOCK_OK); /* detects the break */
    scripted.keeps_waiting = true;
    scripted_again();
    while (has_id && redlock_lease_id(lease) == 0 && boottime_ns() < until_ns)
        (void) redlock_dispatch(connection);
    scripted.is_silent = true;
    redlock_set_answer_timeout(connection, 50);
    is(redlock_release(lease), REDLOCK_NO_ANSWER);
    if (has_id)
        scripted_grant();
    scripted.is_silent = false;
    redlock_set_answer_timeout(connection, TIMEOUT_MS);
    scripted.keeps_waiting = false;
    is(redlock_release(acquire(connection)), 1);
    ok(counts_to(&scripted.releases, 2), "the agent releases what it has resumed, with%s an id before",
       has_id ? "" : "out");
    is(events.lost, 0);
    redlock_close(connection);
}

/* The process was stopped in redlock_acquire(), and finds the grant together with what came after it. */
static void test_stopped_until_lost(int64_t wait_ms) {
    struct redlock_options options = REDLOCK_OPTIONS_INIT;
    struct redlock_lease *lease = NULL;

    scripted_start();
    scripted.loses_grants = true;
    struct redlock *connection = connect_scripted();
    options.wait_ms = wait_ms;
    is(redlock_acquire(connection, "x", &options, &lease), REDLOCK_LOST);
    ok(!lease, "there is no handle");
    is(events.at_risk, 0);
    is(events.extended, 0);
    is(events.lost, 0);
    scripted.loses_grants = false;
    ok(redlock_release(acquire(connection)) == 1, "the connection is usable after redlock_acquire()");
    redlock_close(connection);
}

int main(void) {
    for (enum call which = CALL_RELEASE; which < CALLS; which++) {
        test_failed_meanwhile(which);
        test_failed_among_others(which);
        test_break(which, 0);
        test_break(which, 5000);
    }
    test_still_waiting(CALL_CHECK);
    test_still_waiting(CALL_BEAT);
    test_failed_without_callback();
    test_granted_meanwhile();
    test_granted_later();
    test_break_after_grant();
    test_polling(CALL_CHECK);
    test_polling(CALL_BEAT);
    test_release_unread();
    test_late_in_call();
    test_release_unanswered();
    for (enum call which = CALL_RELEASE; which < CALLS; which++) {
        test_break_unanswered(which, 0);
        test_break_unanswered(which, 5000);
    }
    test_release_while_resuming(true);
    test_release_while_resuming(false);
    test_stopped_until_lost(0);
    test_stopped_until_lost(5000);
    scripted_die();
    return done_testing();
}
