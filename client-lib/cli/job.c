#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

/* We share our terminal's foreground only if we have it. */
static bool owns_terminal(void) {
    return isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

/* In a background group this would stop us by SIGTTOU, which is blocked. */
static void give_terminal(pid_t group) {
    sigset_t block, old;

    (void) sigemptyset(&block);
    (void) sigaddset(&block, SIGTTOU);
    (void) sigprocmask(SIG_BLOCK, &block, &old);
    (void) tcsetpgrp(STDIN_FILENO, group);
    (void) sigprocmask(SIG_SETMASK, &old, NULL);
}

static bool set_number(const char *name, uint64_t number) {
    char text[24];

    (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) number);
    return setenv(name, text, 1) == 0;
}

/* No token, no variable: nobody takes 0 for one. */
static bool set_environment(const struct redlock_lease *lease) {
    if (redlock_fence(lease) == 0)
        (void) unsetenv("REDLOCK_FENCE");
    else if (!set_number("REDLOCK_FENCE", redlock_fence(lease)))
        return false;
    return setenv("REDLOCK_NAME", redlock_lease_name(lease), 1) == 0 &&
           set_number("REDLOCK_ID", redlock_lease_id(lease));
}

__attribute__((noreturn)) static void child(const struct job *job, char *const argv[],
                                            const struct redlock_lease *lease, pid_t parent, int error_fd) {
    sigset_t none;
    int error;

    (void) setpgid(0, 0);
    if (job->has_terminal)
        give_terminal(getpid());
    /* The kernel kills us with our parent; if that has gone already, it was too early for it. */
    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(STATUS_LOST);
    (void) signal(SIGPIPE, SIG_DFL);
    (void) sigemptyset(&none);
    (void) sigprocmask(SIG_SETMASK, &none, NULL);
    if (set_environment(lease))
        (void) execvp(argv[0], argv);
    error = errno;
    ssize_t n = write(error_fd, &error, sizeof(error));
    (void) n;
    _exit(STATUS_NOT_FOUND);
}

int job_start(struct job *job, char *const argv[], const struct redlock_lease *lease, bool in_foreground) {
    pid_t parent = getpid();
    int error = 0, error_pipe[2];

    *job = (struct job){.has_terminal = in_foreground && owns_terminal()};
    if (pipe2(error_pipe, O_CLOEXEC) < 0) {
        cli_complain("can't start %s: %s", argv[0], strerror(errno));
        return STATUS_SYSTEM;
    }
    job->pid = fork();
    if (job->pid == 0)
        child(job, argv, lease, parent, error_pipe[1]);
    (void) close(error_pipe[1]);
    if (job->pid < 0) {
        cli_complain("can't start %s: %s", argv[0], strerror(errno));
        (void) close(error_pipe[0]);
        job->pid = 0;
        return STATUS_SYSTEM;
    }
    (void) setpgid(job->pid, job->pid); /* whoever is first */
    ssize_t n;
    do
        n = read(error_pipe[0], &error, sizeof(error));
    while (n < 0 && errno == EINTR);
    (void) close(error_pipe[0]);
    if (n != sizeof(error))
        return 0; /* the pipe closed at exec: it runs */
    job_wait(job);
    cli_complain("%s: %s", argv[0], strerror(error));
    return error == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
}

void job_signal(const struct job *job, int number) {
    if (job->pid > 0)
        (void) kill(-job->pid, number);
}

static void job_over(struct job *job, int wait_status) {
    job->pid = 0;
    job->wait_status = wait_status;
    if (job->has_terminal)
        give_terminal(getpgrp());
}

/* The shell sees us stopped; its "fg" wakes us, and we the command. */
static void stop_together(struct job *job) {
    if (job->has_terminal)
        give_terminal(getpgrp());
    (void) kill(getpid(), SIGSTOP);
}

enum job_change job_reap(struct job *job) {
    enum job_change change = JOB_RUNNING;
    int wait_status;

    while (job->pid > 0 && waitpid(job->pid, &wait_status, WNOHANG | WUNTRACED) > 0) {
        if (!WIFSTOPPED(wait_status)) {
            job_over(job, wait_status);
            return JOB_OVER;
        }
        if (job->has_terminal) {
            stop_together(job);
            change = JOB_CONTINUED;
        }
    }
    return change;
}

void job_continue(const struct job *job) {
    if (job->has_terminal)
        give_terminal(job->pid);
    job_signal(job, SIGCONT);
}

void job_wait(struct job *job) {
    int wait_status = 0;

    if (job->pid <= 0)
        return;
    while (waitpid(job->pid, &wait_status, 0) < 0 && errno == EINTR)
        ;
    job_over(job, wait_status);
}

int job_status(const struct job *job) {
    return WIFSIGNALED(job->wait_status) ? 128 + WTERMSIG(job->wait_status) : WEXITSTATUS(job->wait_status);
}
