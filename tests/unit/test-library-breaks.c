/* The library ends a connection to an agent that lives, or has no memory for a while: leases that the agent
 * then releases are lost before, and others go on. */

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "library-harness.h"
#include "tap.h"

enum call { CALL_MALLOC, CALL_SEND, CALL_RECV, CALL_PPOLL, CALLS };

static const char *const names[CALLS] = {"malloc()", "send()", "recv()", "ppoll()"};

/* In the thread that calls the library. */
static _Thread_local int failing[CALLS]; /* errno; 0: the call works */
static _Thread_local unsigned failures;

void *__real_malloc(size_t size);
ssize_t __real_send(int fd, const void *bytes, size_t length, int flags);
ssize_t __real_recv(int fd, void *bytes, size_t length, int flags);
int __real_ppoll(struct pollfd *fds, nfds_t n_fds, const struct timespec *timeout, const sigset_t *mask);
void *__wrap_malloc(size_t size);
ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t length, int flags);
int __wrap_ppoll(struct pollfd *fds, nfds_t n_fds, const struct timespec *timeout, const sigset_t *mask);

static bool fails(enum call call) {
    if (failing[call] == 0)
        return false;
    failures++;
    errno = failing[call];
    return true;
}

/* The linker calls these in place of the C library's. */
void *__wrap_malloc(size_t size) {
    return fails(CALL_MALLOC) ? NULL : __real_malloc(size);
}

ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags) {
    return fails(CALL_SEND) ? -1 : __real_send(fd, bytes, length, flags);
}

ssize_t __wrap_recv(int fd, void *bytes, size_t length, int flags) {
    return fails(CALL_RECV) ? -1 : __real_recv(fd, bytes, length, flags);
}

/* Without descriptors it only sleeps. */
int __wrap_ppoll(struct pollfd *fds, nfds_t n_fds, const struct timespec *timeout, const sigset_t *mask) {
    return n_fds > 0 && fails(CALL_PPOLL) ? -1 : __real_ppoll(fds, n_fds, timeout, mask);
}

/* More than the library has room for. */
static void send_much(void) {
    scripted_send(">2\r\n$4\r\nmore\r\n$6000\r\n");
    for (unsigned i = 0; i < 6; i++)
        scripted_send("%01000u", 0u);
    scripted_send("\r\n");
}

/* --- the library ends the connection --- */

static void test_lost(enum call call, int errno_value, int want) {
    scripted_start();
    scripted.refuses_resume = true; /* as an agent that has released the lease */
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = acquire(connection);
    const char *name = call < CALLS ? names[call] : "the agent";

    if (call == CALLS)
        scripted_send("no RESP\r\n");
    else
        failing[call] = errno_value;
    if (call == CALL_MALLOC)
        send_much();
    is_int(redlock_check(lease), want, name);
    ok(!redlock_valid(lease), "the lease is not valid after the library has ended the connection");
    if (call < CALLS)
        failing[call] = 0;
    is(events.lost, 1);
    is_string(events.reason, "lost", "the callback `lost` is called");
    ok(strstr(events.text, "ends the connection"), "with the cause: %s", events.text);
    ok(redlock_release(lease) <= 0, "the lease can't be released");
    is(events.lost, 1);
    ok(counts_to(&scripted.hang_ups, 1), "the agent notices");
    is(scripted.resumes, 0);
    redlock_close(connection);
}

/* No callback gets a handle that is being released. */
static void test_lost_in_release(void) {
    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = acquire(connection);

    scripted_send("no RESP\r\n");
    is(redlock_release(lease), REDLOCK_PROTOCOL);
    is(events.lost, 0);
    redlock_close(connection);
}

/* The agent is gone, and releases nothing. */
static void test_agent_gone(enum call call, int errno_value) {
    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = acquire(connection);

    failing[call] = errno_value;
    is(redlock_dispatch(connection), REDLOCK_OK);
    redlock_set_answer_timeout(connection, 1);
    ok(redlock_check(lease) < 0, "the connection breaks in %s", names[call]);
    ok(redlock_valid(lease), "the lease stays valid");
    failing[call] = 0;
    is(events.lost, 0);
    redlock_set_answer_timeout(connection, TIMEOUT_MS);
    ok(redlock_check(lease) > 0, "the next agent resumes the lease");
    is(scripted.resumes, 1);
    redlock_close(connection);
}

/* --- no memory for a while --- */

enum { SHORTAGE_MS = 60, TRIES_MAX = 2 * SHORTAGE_MS };

static void test_shortage(enum call call, int errno_value) {
    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = acquire(connection);

    redlock_set_answer_timeout(connection, SHORTAGE_MS);
    failures = 0;
    failing[call] = errno_value;
    is(redlock_check(lease), REDLOCK_NO_ANSWER);
    failing[call] = 0;
    ok(failures > 1 && failures < TRIES_MAX, "%s was tried %u times in %d ms", names[call], failures,
       SHORTAGE_MS);
    ok(redlock_valid(lease), "the lease stays valid");
    redlock_set_answer_timeout(connection, TIMEOUT_MS);
    ok(redlock_check(lease) > 0, "and later calls succeed");
    is(events.lost, 0);
    is(scripted.resumes, 0);
    is(redlock_release(lease), 1);
    redlock_close(connection);
}

/* The descriptor is not ready all the time meanwhile. */
static void test_shortage_in_loop(enum call call) {
    unsigned turns = 0;

    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = acquire(connection), *other = NULL;
    struct pollfd fd = {.fd = redlock_fd(connection), .events = POLLIN};
    unsigned long long id = scripted.id; /* later it may be the other lease's */
    failing[call] = ENOBUFS;
    int64_t until_ns = boottime_ns() + SHORTAGE_MS * NS_PER_MS;

    is(redlock_acquire_async(connection, "y", NULL, &other), REDLOCK_OK);
    scripted_send(">4\r\n$7\r\nat-risk\r\n:%llu\r\n:50\r\n$9\r\nno-quorum\r\n", id);
    for (; boottime_ns() < until_ns; turns++) {
        (void) poll(&fd, 1, 10);
        is(redlock_dispatch(connection), REDLOCK_OK);
    }
    ok(turns < TRIES_MAX, "the event loop turns %u times in %d ms without %s", turns, SHORTAGE_MS,
       names[call]);
    failing[call] = 0;
    ok(dispatch_until(connection, &events.at_risk, 1), "then it reads");
    ok(dispatch_until(connection, &events.granted, 1), "and writes again");
    is(events.lost, 0);
    is(scripted.resumes, 0);
    is(redlock_release(lease), 1);
    redlock_close(connection);
}

int main(void) {
    test_lost(CALLS, 0, REDLOCK_PROTOCOL);
    test_lost(CALL_MALLOC, ENOMEM, REDLOCK_NO_MEMORY);
    test_lost(CALL_RECV, EIO, REDLOCK_SYSTEM);
    test_lost(CALL_PPOLL, EINVAL, REDLOCK_SYSTEM);
    test_lost_in_release();
    test_agent_gone(CALL_RECV, ECONNRESET);
    test_agent_gone(CALL_SEND, EPIPE);
    test_shortage(CALL_SEND, ENOBUFS);
    test_shortage(CALL_SEND, ENOMEM);
    test_shortage(CALL_RECV, ENOMEM);
    test_shortage(CALL_PPOLL, ENOMEM);
    test_shortage_in_loop(CALL_SEND);
    test_shortage_in_loop(CALL_RECV);
    scripted_die();
    return done_testing();
}
