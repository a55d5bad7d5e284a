/* Calls of the library where others are under way: in a callback, in another thread; beside a forked child;
 * and without descriptors. */

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "library-harness.h"
#include "tap.h"

static unsigned count_descriptors(void) {
    DIR *directory = opendir("/proc/self/fd");
    unsigned count = 0;

    while (directory && readdir(directory))
        count++;
    if (directory)
        (void) closedir(directory);
    return count;
}

/* Leaves room for `more` descriptors. */
static void limit_descriptors(rlim_t more) {
    struct rlimit limit;
    int lowest = dup(STDOUT_FILENO);

    (void) close(lowest);
    (void) getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t) lowest + more;
    (void) setrlimit(RLIMIT_NOFILE, &limit);
}

static void test_no_descriptors(void) {
    struct rlimit limit;

    (void) getrlimit(RLIMIT_NOFILE, &limit);
    for (unsigned room = 0; room < 2; room++) {
        scripted_start();
        struct redlock *connection = connect_scripted();
        struct redlock_lease *lease = acquire(connection);
        unsigned before = count_descriptors();
        limit_descriptors(room);
        is(redlock_fd(connection), REDLOCK_SYSTEM);
        is(redlock_fd(connection), REDLOCK_SYSTEM);
        ok(redlock_error_text(connection)[0] != 0, "the error has a text: %s",
           redlock_error_text(connection));
        (void) setrlimit(RLIMIT_NOFILE, &limit);
        is_int(count_descriptors(), before, "no descriptor leaks");
        scripted_send(">4\r\n$4\r\nlost\r\n:%llu\r\n$5\r\ntaken\r\n$1\r\nx\r\n",
                      (unsigned long long) scripted.id);
        struct pollfd fd = {.fd = redlock_fd(connection), .events = POLLIN};
        is(poll(&fd, 1, TIMEOUT_MS), 1);
        is(redlock_dispatch(connection), REDLOCK_OK);
        is(events.lost, 1);
        is(redlock_release(lease), 0);
        redlock_close(connection);
    }
}

/* An agent listens, but this process has no descriptor for it. */
static void test_no_descriptor_to_return(void) {
    struct rlimit limit;

    (void) getrlimit(RLIMIT_NOFILE, &limit);
    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = acquire(connection);
    scripted_die();
    is(redlock_dispatch(connection), REDLOCK_OK); /* detects the break */
    scripted_again();
    limit_descriptors(0);
    redlock_set_answer_timeout(connection, 30);
    is(redlock_check(lease), REDLOCK_AGENT_AWAY);
    (void) setrlimit(RLIMIT_NOFILE, &limit);
    ok(strstr(redlock_error_text(connection), "Too many open files"), "the error text has the cause: %s",
       redlock_error_text(connection));
    redlock_set_answer_timeout(connection, TIMEOUT_MS);
    ok(redlock_check(lease) > 0, "with a descriptor the lease is resumed");
    redlock_close(connection);
}

static struct inside {
    struct redlock *connection;
    struct redlock_lease *other;
    unsigned in_use, calls;
} inside;

static void on_lost_calls(struct redlock_lease *lease, const char *reason, const char *text,
                          void *userdata) {
    struct redlock_leader leader = REDLOCK_LEADER_INIT;
    struct redlock_lease *another = NULL;
    const int64_t results[] = {
        redlock_release(lease),
        redlock_release_async(inside.other),
        redlock_check(inside.other),
        redlock_beat(inside.other),
        redlock_acquire(inside.connection, "y", NULL, &another),
        redlock_acquire_async(inside.connection, "y", NULL, &another),
        redlock_leader(inside.connection, "y", &leader),
        redlock_observe(inside.connection, "y"),
        redlock_unobserve(inside.connection, "y"),
        redlock_fd(inside.connection),
        redlock_dispatch(inside.connection),
    };

    (void) reason;
    (void) text;
    (void) userdata;
    inside.calls = sizeof(results) / sizeof(results[0]);
    for (unsigned i = 0; i < inside.calls; i++)
        inside.in_use += results[i] == REDLOCK_IN_USE;
    redlock_close(inside.connection);
}

static void test_calls_in_callback(void) {
    const struct redlock_callbacks callbacks = {.size = sizeof(callbacks), .lost = on_lost_calls};

    scripted_start();
    inside = (struct inside){.connection = connect_scripted()};
    inside.other = acquire(inside.connection);
    struct redlock_lease *lease = acquire(inside.connection);
    is(redlock_set_callbacks(inside.connection, &callbacks, NULL), REDLOCK_OK);
    scripted_send(">4\r\n$4\r\nlost\r\n:%llu\r\n$5\r\ntaken\r\n$1\r\nx\r\n",
                  (unsigned long long) scripted.id);
    while (inside.calls == 0 && redlock_dispatch(inside.connection) == REDLOCK_OK)
        (void) usleep(200);
    is(inside.in_use, inside.calls);
    is(redlock_release(lease), 0);
    is(redlock_release(inside.other), 1);
    redlock_close(inside.connection);
}

static atomic_uint refusals;

static void *ask_until_refused(void *userdata) {
    int64_t until_ns = boottime_ns() + TIMEOUT_MS * NS_PER_MS;

    while (refusals == 0 && boottime_ns() < until_ns)
        if (redlock_check(userdata) == REDLOCK_IN_USE)
            refusals++;
    return NULL;
}

/* Both threads wait for replies that do not come. */
static void test_two_threads(void) {
    pthread_t thread;

    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = acquire(connection);
    scripted.is_silent = true;
    redlock_set_answer_timeout(connection, 20);
    (void) pthread_create(&thread, NULL, ask_until_refused, lease);
    (void) ask_until_refused(lease);
    (void) pthread_join(thread, NULL);
    ok(refusals > 0, "of two threads on one connection at a time one gets REDLOCK_IN_USE");
    scripted.is_silent = false;
    redlock_close(connection);
}

/* A child that lives on with copies of all descriptors. */
static pid_t fork_idle(void) {
    pid_t child = fork();

    if (child != 0)
        return child;
    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        (void) pause();
}

static void end_idle(pid_t child) {
    (void) kill(child, SIGKILL);
    (void) waitpid(child, NULL, 0);
}

static void test_close_beside_child(void) {
    scripted_start();
    struct redlock *connection = connect_scripted();
    pid_t child = fork_idle();

    redlock_close(connection);
    ok(counts_to(&scripted.hang_ups, 1), "redlock_close() ends the connection while a forked child lives");
    end_idle(child);
}

/* The scripted agent serves one connection at a time. The agent has released the lease, and would refuse to
 * resume it. */
static void test_break_beside_child(void) {
    scripted_start();
    scripted.refuses_resume = true;
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = acquire(connection);
    is(redlock_observe(connection, "job"), REDLOCK_OK);
    pid_t child = fork_idle();

    scripted_send("no RESP\r\n");
    is(redlock_check(lease), REDLOCK_PROTOCOL);
    ok(!redlock_valid(lease), "the lease is lost when the connection ends");
    is(events.lost, 1);
    struct redlock_lease *next = acquire(connection);
    ok(redlock_check(next) > 0, "the library replaces a connection while a forked child lives");
    is(scripted.hang_ups, 1);
    is(scripted.resumes, 0);
    is(scripted.observes, 2);
    is(redlock_release(lease), 0);
    is(events.lost, 1);
    redlock_close(connection);
    end_idle(child);
}

static void test_close_in_child(void) {
    int status = -1;

    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = acquire(connection);
    pid_t child = fork();
    if (child == 0) {
        redlock_close(connection);
        _exit(0);
    }
    (void) waitpid(child, &status, 0);
    is(status, 0);
    ok(redlock_check(lease) > 0, "redlock_close() in a forked child leaves the parent's connection");
    is(scripted.hang_ups, 0);
    is(scripted.resumes, 0);
    redlock_close(connection);
}

static void *wait_for_lease(void *userdata) {
    struct redlock_options options = REDLOCK_OPTIONS_INIT;
    struct redlock_lease *lease = NULL;

    options.wait_ms = -1;
    return redlock_acquire(userdata, "y", &options, &lease) == REDLOCK_OK ? lease : NULL;
}

/* The call of the parent's other thread goes on. */
static void test_close_in_child_during_call(void) {
    void *granted = NULL;
    pthread_t thread;
    int status = -1;

    scripted_start();
    struct redlock *connection = connect_scripted();
    ok(redlock_fd(connection) >= 0, "an event loop");
    (void) acquire(connection); /* the page, which comes with a descriptor, is here before the fork */
    scripted.keeps_waiting = true;
    (void) pthread_create(&thread, NULL, wait_for_lease, connection);
    ok(counts_to(&scripted.acquires, 2), "another thread is in a call");
    pid_t child = fork();
    if (child == 0) {
        unsigned before = count_descriptors();
        redlock_close(connection);
        _exit(before - count_descriptors() == 3 ? 0 : 1);
    }
    (void) waitpid(child, &status, 0);
    ok(status == 0, "redlock_close() in the child closes all three descriptors");
    scripted_grant();
    (void) pthread_join(thread, &granted);
    is(redlock_release(granted), 1);
    is(scripted.hang_ups, 0);
    redlock_close(connection);
}

/* --- a child that is forked in a callback --- */

static struct redlock *shared;
static pid_t forked = -1; /* 0 in the child */

static void on_at_risk_forks(struct redlock_lease *lease, int64_t left_ms, const char *reason,
                             void *userdata) {
    (void) lease;
    (void) left_ms;
    (void) reason;
    (void) userdata;
    (void) fflush(stdout);
    forked = fork();
    if (forked == 0)
        redlock_close(shared);
}

enum call { CALL_DISPATCH, CALL_CHECK, CALL_ACQUIRE, CALLS };

static const char *const names[CALLS] = {"redlock_dispatch()", "redlock_check()", "redlock_acquire()"};

static int64_t call(enum call which, struct redlock_lease *lease) {
    struct redlock_lease *other = NULL;

    switch (which) {
    case CALL_CHECK:
        return redlock_check(lease);
    case CALL_ACQUIRE:
        return redlock_acquire(shared, "y", NULL, &other);
    case CALL_DISPATCH:
    case CALLS:
        break;
    }
    return redlock_dispatch(shared);
}

static void test_fork_in_callback(enum call which) {
    const struct redlock_callbacks callbacks = {.size = sizeof(callbacks), .at_risk = on_at_risk_forks};
    int status = -1;

    scripted_start();
    shared = connect_scripted();
    struct redlock_lease *lease = acquire(shared);
    struct pollfd fd = {.fd = redlock_fd(shared), .events = POLLIN};
    is(redlock_set_callbacks(shared, &callbacks, NULL), REDLOCK_OK);
    forked = -1;
    scripted_send(">4\r\n$7\r\nat-risk\r\n:%llu\r\n:50\r\n$9\r\nno-quorum\r\n",
                  (unsigned long long) scripted.id);
    int64_t result = call(which, lease);
    if (forked == 0) {
        bool refused = result == REDLOCK_FORKED && redlock_check(lease) == REDLOCK_FORKED;
        redlock_close(shared);
        _exit(refused ? 0 : 1);
    }
    (void) waitpid(forked, &status, 0);
    ok(status == 0, "%s returns REDLOCK_FORKED in a child that a callback forked", names[which]);
    ok(result >= 0, "and works in the parent");
    is(redlock_set_callbacks(shared, NULL, NULL), REDLOCK_OK);
    ok(redlock_check(lease) > 0, "whose connection goes on");
    scripted_send(">2\r\n$4\r\nmore\r\n:1\r\n");
    is(poll(&fd, 1, TIMEOUT_MS), 1);
    is(scripted.hang_ups, 0);
    is(scripted.resumes, 0);
    redlock_close(shared);
}

int main(void) {
    test_no_descriptors();
    test_no_descriptor_to_return();
    test_calls_in_callback();
    test_two_threads();
    test_close_beside_child();
    test_break_beside_child();
    test_close_in_child();
    test_close_in_child_during_call();
    for (enum call which = CALL_DISPATCH; which < CALLS; which++)
        test_fork_in_callback(which);
    scripted_die();
    return done_testing();
}
