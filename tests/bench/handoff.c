/* bench handoff SOCKET PROCESSES COUNT: processes of this host that contend for one name, each with
 * libredlock's blocking calls, and release at once. Measures the hand-offs a second; and the time of one,
 * from just before the holder calls redlock_release() to when redlock_acquire() returns in the next process;
 * beside the round trip of a byte between two processes over a Unix socket.
 *
 * bench held SOCKET COUNT: the same from a holder that has had the lease for a while to the one process that
 * waits for it, as peer.py and peer.js have it for libraries. */

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "redlock.h"

enum {
    PROCESSES_MAX = 64,
    HANDOFFS_MAX = 100000,
    ECHOES = 3000,
    HELD_MS = 60, /* longer than a series; plus up to six steps, to be in step with nothing */
    HELD_STEP_MS = 13,
    HELD_STEPS = 7,
};

struct section {
    _Atomic unsigned inside, done; /* done: hand-offs */
    double released_us;            /* written by the holder alone */
    double took_us[HANDOFFS_MAX];
    double begun_us, ended_us;
};

static struct section *section;
static unsigned wanted;
static char name[32];

static void echo_percentiles(void) {
    static double samples[ECHOES];
    int fds[2];
    char byte = 0;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        fail("socketpair", "failed");
    pid_t pid = start_process();
    if (pid == 0) {
        (void) close(fds[0]);
        while (read(fds[1], &byte, 1) == 1 && write(fds[1], &byte, 1) == 1)
            ;
        _exit(0);
    }
    (void) close(fds[1]);
    for (unsigned i = 0; i < ECHOES; i++) {
        double begun_us = now_us();
        if (write(fds[0], &byte, 1) != 1 || read(fds[0], &byte, 1) != 1)
            fail("an echo", "failed");
        samples[i] = now_us() - begun_us;
    }
    (void) close(fds[0]);
    await_process(pid);
    print_percentiles("echo", samples, ECHOES);
}

/* In the section. True after enough hand-offs. */
static bool note_handoff(void) {
    double now = now_us();
    unsigned done = atomic_load(&section->done);

    if (atomic_fetch_add(&section->inside, 1) != 0)
        fail("the name", "is held twice");
    if (section->released_us == 0)
        section->begun_us = now;
    else if (done < wanted)
        section->took_us[done++] = now - section->released_us;
    if (done == wanted && section->ended_us == 0)
        section->ended_us = now;
    atomic_store(&section->done, done);
    section->released_us = now_us();
    atomic_fetch_sub(&section->inside, 1);
    return done == wanted;
}

static struct redlock *connect_to(const char *socket_path) {
    struct redlock *connection;

    if (redlock_connect(socket_path, &connection) != REDLOCK_OK)
        fail(socket_path, "can't connect");
    return connection;
}

static struct redlock_lease *acquire(struct redlock *connection) {
    const struct redlock_options options = {.size = sizeof(options), .wait_ms = -1};
    struct redlock_lease *lease;

    if (redlock_acquire(connection, name, &options, &lease) != REDLOCK_OK)
        fail("redlock_acquire", redlock_error_text(connection));
    return lease;
}

static void release(struct redlock *connection, struct redlock_lease *lease) {
    if (redlock_release(lease) != 1)
        fail("redlock_release", redlock_error_text(connection));
}

static _Noreturn void contend(const char *socket_path) {
    struct redlock *connection = connect_to(socket_path);
    struct redlock_lease *lease;
    bool over = false;

    while (!over) {
        lease = acquire(connection);
        over = note_handoff();
        release(connection, lease);
    }
    _exit(0);
}

int run_handoff(char **arguments) {
    pid_t pids[PROCESSES_MAX];

    if (!arguments[0] || !arguments[1] || !arguments[2])
        fail("usage", "bench handoff SOCKET PROCESSES COUNT");
    unsigned processes = number_of(arguments[1], 2, PROCESSES_MAX);
    wanted = number_of(arguments[2], 1, HANDOFFS_MAX);
    section = shared_memory(sizeof(*section));
    (void) snprintf(name, sizeof(name), "handoff-%d", (int) getpid());
    (void) printf("{");
    echo_percentiles();
    for (unsigned i = 0; i < processes; i++)
        if ((pids[i] = start_process()) == 0)
            contend(arguments[0]);
    for (unsigned i = 0; i < processes; i++)
        await_process(pids[i]);
    (void) printf(", ");
    print_percentiles("handoff", section->took_us, wanted);
    (void) printf(", \"per_second\": %.1f}\n", wanted * 1e6 / (section->ended_us - section->begun_us));
    return 0;
}

/* A byte to the other process. */
static void send_byte(int fd) {
    if (write(fd, "", 1) != 1)
        fail("a process", "does not take a byte");
}

/* false: it has ended. */
static bool receive_byte(int fd) {
    char byte;
    return read(fd, &byte, 1) == 1;
}

/* Waits for the lease once for each byte received; the grant is the end of a hand-off. */
static _Noreturn void wait_in_turns(const char *socket_path, int fd) {
    struct redlock *connection = connect_to(socket_path);

    while (receive_byte(fd)) {
        struct redlock_lease *lease = acquire(connection);
        unsigned done = atomic_load(&section->done);
        section->took_us[done] = now_us() - section->released_us;
        atomic_store(&section->done, done + 1);
        release(connection, lease);
        send_byte(fd);
    }
    _exit(0);
}

static void hold_for(unsigned ms) {
    const struct timespec time = {.tv_nsec = ms * 1000000L};
    (void) nanosleep(&time, NULL);
}

int run_held(char **arguments) {
    int fds[2];

    if (!arguments[0] || !arguments[1])
        fail("usage", "bench held SOCKET COUNT");
    wanted = number_of(arguments[1], 1, HANDOFFS_MAX);
    section = shared_memory(sizeof(*section));
    (void) snprintf(name, sizeof(name), "held-%d", (int) getpid());
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        fail("socketpair", "failed");
    pid_t pid = start_process();
    if (pid == 0) {
        (void) close(fds[0]);
        wait_in_turns(arguments[0], fds[1]);
    }
    (void) close(fds[1]);
    struct redlock *connection = connect_to(arguments[0]);
    for (unsigned i = 0; i < wanted; i++) {
        struct redlock_lease *lease = acquire(connection);
        send_byte(fds[0]);
        hold_for(HELD_MS + HELD_STEP_MS * (i % HELD_STEPS));
        section->released_us = now_us();
        release(connection, lease);
        if (!receive_byte(fds[0]))
            fail("the waiter", "ended");
    }
    redlock_close(connection);
    (void) close(fds[0]);
    await_process(pid);
    (void) printf("{");
    print_percentiles("handoff", section->took_us, wanted);
    (void) printf("}\n");
    return 0;
}
