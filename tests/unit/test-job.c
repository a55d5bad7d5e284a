/* A signal for the process group of `redlock run` while the command starts: the command gets it, or does not
 * start. */
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "guard-channel.h"
#include "job.h"
#include "signal-relay.h"
#include "tap.h"

/* When the signal comes. */
static enum instant { NEVER, BEFORE_FORK, BEFORE_SETSID, AFTER_SETSID } instant;
static pid_t program;

pid_t __real_fork(void);
pid_t __real_setsid(void);
pid_t __wrap_fork(void);
pid_t __wrap_setsid(void);

void cli_complain(const char *format, ...) {
    (void) format;
}

void cli_never_wait_for_reader(void) {}

pid_t __wrap_fork(void) {
    if (instant == BEFORE_FORK)
        (void) kill(getpid(), SIGUSR1);
    pid_t pid = __real_fork();
    program = pid;
    return pid;
}

pid_t __wrap_setsid(void) {
    if (instant == BEFORE_SETSID)
        (void) kill(getpid(), SIGUSR1);
    if (instant == BEFORE_SETSID || instant == AFTER_SETSID)
        (void) kill(program, SIGUSR1);
    return __real_setsid();
}

/* What becomes of the program, whose caller has blocked all signals as the guard has. */
static int status_with_signal(enum instant when) {
    static char path[] = "/bin/true";
    char *const argv[] = {path, NULL};
    int wait_status = 0;

    instant = when;
    pid_t guard = __real_fork();
    if (guard == 0) {
        struct job job;
        sigset_t all;
        (void) sigfillset(&all);
        (void) sigprocmask(SIG_SETMASK, &all, NULL);
        int status = job_start(&job, argv, NULL, 1, JOB_GROUP_LEFT, NULL);
        job_wait(&job);
        if (status == 0 && sigpending(&all) == 0 && sigismember(&all, SIGUSR1) == 1)
            _exit(EXIT_FAILURE);
        _exit(status != 0 ? status : job_status(&job));
    }
    (void) waitpid(guard, &wait_status, 0);
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
}

/* What becomes of the relay, and whether the guard may start the command, when a signal comes just before
 * the witness begins. */
static void test_relay(void) {
    struct guard_channel_message message = {.word = GUARD_ENDED};
    int channel[2], wait_status = 0;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) < 0)
        abort();
    instant = BEFORE_FORK;
    pid_t relay = __real_fork();
    if (relay == 0) {
        (void) close(channel[0]);
        _exit(signal_relay_run(signal_relay_init(), channel[1], "x", 0));
    }
    (void) close(channel[1]);
    ok(guard_channel_send(channel[0], GUARD_GRANTED, 0), "the lease is granted");
    ok(!guard_channel_receive(channel[0], &message), "a signal before the start: no command starts");
    (void) close(channel[0]);
    (void) waitpid(relay, &wait_status, 0);
    is_int(WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0, SIGUSR1, "and the signal ends the relay");
}

int main(void) {
    test_relay();
    is_int(status_with_signal(NEVER), 0, "without a signal the program ends by itself");
    is_int(status_with_signal(BEFORE_FORK), 128 + SIGUSR1, "one before the fork ends the program");
    is_int(status_with_signal(BEFORE_SETSID), 128 + SIGUSR1, "one for both processes does");
    is_int(status_with_signal(AFTER_SETSID), 128 + SIGUSR1, "one for the program alone does");
    return done_testing();
}
