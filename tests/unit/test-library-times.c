/* When the library acts: on a clock of this file. */

#include <stdatomic.h>
#include <sys/timerfd.h>
#include <time.h>

#include "library-harness.h"
#include "tap.h"

static _Atomic int64_t now_ns = 1000 * NS_PER_S;
static int64_t armed_ns; /* when the descriptor for event loops is ready; INT64_MAX: only by the socket */

/* --- replacements for calls of the C library --- */

int clock_gettime(clockid_t clock, struct timespec *ret) {
    int64_t at_ns = now_ns;

    (void) clock;
    *ret = (struct timespec){.tv_sec = at_ns / NS_PER_S, .tv_nsec = at_ns % NS_PER_S};
    return 0;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *former) {
    (void) fd;
    (void) flags;
    (void) former;
    armed_ns = at->it_value.tv_sec * NS_PER_S + at->it_value.tv_nsec;
    return 0;
}

/* --- grants within blocking calls --- */

enum call { CALL_RELEASE, CALL_CHECK, CALL_BEAT, CALL_LEADER, CALL_OBSERVE, CALLS };

static const char *const names[CALLS] = {"redlock_release()", "redlock_check()", "redlock_beat()",
                                         "redlock_leader()", "redlock_observe()"};

static bool leader_is_known(struct redlock *connection) {
    struct redlock_leader leader = REDLOCK_LEADER_INIT;

    return redlock_leader(connection, "x", &leader) == 1;
}

static bool succeeds(enum call which, struct redlock *connection, struct redlock_lease *lease,
                     struct redlock_lease *other) {
    switch (which) {
    case CALL_RELEASE:
        return redlock_release(other) == 1;
    case CALL_CHECK:
        return redlock_check(lease) == scripted.ttl_ms;
    case CALL_BEAT:
        return redlock_beat(lease) == 1;
    case CALL_LEADER:
        return leader_is_known(connection);
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

    options.wait_ms = 5000;
    scripted_start();
    scripted.has_page = with_page;
    scripted.check_ms = scripted.ttl_ms;
    scripted.keeps_waiting = true;
    armed_ns = INT64_MAX;
    struct redlock *connection = connect_scripted();
    ok(redlock_fd(connection) >= 0, "an event loop");
    is(redlock_acquire_async(connection, "y", &options, &other), REDLOCK_OK);
    is(redlock_acquire_async(connection, "x", &options, &lease), REDLOCK_OK);
    ok(leader_is_known(connection), "the requests wait");
    is(armed_ns, INT64_MAX);
    scripted_grant();
    ok(succeeds(which, connection, lease, other), "the grant arrives during %s", names[which]);
    is(events.granted, 1);
    is(armed_ns, now_ns + scripted.ttl_ms * NS_PER_MS / 2);
    redlock_close(connection);
}

int main(void) {
    for (enum call which = CALL_RELEASE; which < CALLS; which++) {
        test_grant_in_call(which, true);
        test_grant_in_call(which, false);
    }
    scripted_die();
    return done_testing();
}
