/* Hand-off on one host: processes that contend for one name, each with libredlock's blocking calls, and let
 * go at once. How many hand-offs a second; and how long one takes, from just before the holder calls
 * redlock_release() to when redlock_acquire() returns in the next process, in round trips of a byte between
 * two processes over a Unix socket, which are measured in turns with it. */

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "redlock.h"

enum { PROCESSES = 8, HANDOFFS = 40000, ECHOES = 5000 };

struct section {
    _Atomic unsigned inside, done; /* done: hand-offs */
    double released_us;            /* written by the holder alone */
    double took_us[HANDOFFS];
    double begun_us, ended_us;
};

static pid_t start(void) {
    pid_t pid = fork();

    if (pid < 0)
        fail("fork", "failed");
    return pid;
}

static void await(pid_t pid) {
    int status;

    if (waitpid(pid, &status, 0) != pid || status != 0)
        fail("a process", "failed");
}

static double echo_us(void) {
    static double samples[ECHOES];
    int fds[2];
    char byte = 0;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        fail("socketpair", "failed");
    pid_t pid = start();
    if (pid == 0) {
        (void) close(fds[0]);
        while (read(fds[1], &byte, 1) == 1)
            if (write(fds[1], &byte, 1) != 1)
                break;
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
    await(pid);
    return percentile(samples, ECHOES, 0.5);
}

static _Noreturn void contend(const char *socket_path, struct section *section) {
    const struct redlock_options options = {.size = sizeof(options), .wait_ms = -1};
    struct redlock *connection;
    struct redlock_lease *lease;

    if (redlock_connect(socket_path, &connection) != REDLOCK_OK)
        fail(socket_path, "can't connect");
    for (;;) {
        if (redlock_acquire(connection, "handoff", &options, &lease) != REDLOCK_OK)
            fail("redlock_acquire", redlock_error_text(connection));
        double now = now_us();
        if (atomic_fetch_add(&section->inside, 1) != 0)
            fail("the name", "is held twice");
        unsigned done = section->done;
        if (section->released_us == 0)
            section->begun_us = now;
        else if (done < HANDOFFS)
            section->took_us[done++] = now - section->released_us;
        section->done = done;
        if (done == HANDOFFS && section->ended_us == 0)
            section->ended_us = now;
        section->released_us = now_us();
        atomic_fetch_sub(&section->inside, 1);
        if (redlock_release(lease) != 1)
            fail("redlock_release", redlock_error_text(connection));
        if (done == HANDOFFS)
            _exit(0);
    }
}

void run_handoff(const char *socket_path, unsigned rounds) {
    static double rate[ROUNDS_MAX], p50[ROUNDS_MAX], p99[ROUNDS_MAX], echo[ROUNDS_MAX], ratio[ROUNDS_MAX];
    struct section *section =
        mmap(NULL, sizeof(*section), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (section == MAP_FAILED)
        fail("mmap", "failed");
    (void) fflush(stdout);
    for (unsigned round = 0; round < rounds; round++) {
        pid_t pids[PROCESSES];
        section->inside = section->done = 0;
        section->released_us = section->ended_us = 0;
        echo[round] = echo_us();
        for (unsigned i = 0; i < PROCESSES; i++)
            if ((pids[i] = start()) == 0)
                contend(socket_path, section);
        for (unsigned i = 0; i < PROCESSES; i++)
            await(pids[i]);
        rate[round] = HANDOFFS * 1e6 / (section->ended_us - section->begun_us);
        p50[round] = percentile(section->took_us, HANDOFFS, 0.5);
        p99[round] = percentile(section->took_us, HANDOFFS, 0.99);
        ratio[round] = p50[round] / echo[round];
    }
    (void) printf(
        "hand-off local, %d processes: %.0f per s (%.0f to %.0f); p50 %.1f us, p99 %.1f us; a Unix "
        "socket's round trip %.1f us: p50 is %.2f of them (%.2f to %.2f)\n",
        PROCESSES, percentile(rate, rounds, 0.5), percentile(rate, rounds, 0), percentile(rate, rounds, 1),
        percentile(p50, rounds, 0.5), percentile(p99, rounds, 0.5), percentile(echo, rounds, 0.5),
        percentile(ratio, rounds, 0.5), percentile(ratio, rounds, 0), percentile(ratio, rounds, 1));
}
