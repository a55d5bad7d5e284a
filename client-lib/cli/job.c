#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

static bool set_number(const char *name, uint64_t number) {
    char text[24];

    (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) number);
    return setenv(name, text, 1) == 0;
}

/* Without a token the variable is unset: 0 must not be taken for a token. */
static bool set_environment(const struct redlock_lease *lease, uint64_t id) {
    if (redlock_fence(lease) == 0)
        (void) unsetenv("REDLOCK_FENCE");
    else if (!set_number("REDLOCK_FENCE", redlock_fence(lease)))
        return false;
    return setenv("REDLOCK_NAME", redlock_lease_name(lease), 1) == 0 && set_number("REDLOCK_ID", id);
}

struct birth {
    char *const *argv;
    const struct redlock_lease *lease;
    uint64_t id;
    const sigset_t *mask;
    enum job_group group;
    pid_t parent;
    int error_pipe[2]; /* closes when the program is executed; carries the errno of a failure */
    int go_pipe[2];    /* closes when the program may be executed */
};

__attribute__((noreturn)) static void child(const struct birth *birth) {
    int error_fd = birth->error_pipe[1], error;
    sigset_t none;
    char end;

    if (birth->group == JOB_GROUP_OWN)
        (void) setpgid(0, 0);
    /* For a parent that ended before this call the kernel sends no signal. */
    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != birth->parent)
        _exit(STATUS_LOST);
    (void) close(birth->go_pipe[1]);
    while (read(birth->go_pipe[0], &end, 1) < 0 && errno == EINTR)
        ;
    (void) sigemptyset(&none);
    (void) sigprocmask(SIG_SETMASK, birth->mask ? birth->mask : &none, NULL);
    if (set_environment(birth->lease, birth->id))
        (void) execvp(birth->argv[0], birth->argv);
    error = errno;
    ssize_t n = write(error_fd, &error, sizeof(error));
    (void) n;
    _exit(STATUS_NOT_FOUND);
}

/* Takes the signals that came for the group until this process left it, and were pending here, blocked. The
 * program's process has blocked them all, too: a standard signal that came for both counts there once. */
static void pass_on_pending(pid_t pid) {
    static const struct timespec none = {0};
    sigset_t all;
    int number;

    (void) sigfillset(&all);
    (void) sigdelset(&all, SIGCHLD);
    while ((number = sigtimedwait(&all, NULL, &none)) > 0)
        (void) kill(pid, number);
}

/* 0, or the errno of a failed execution. */
static int begin(struct job *job, const struct birth *birth) {
    int error = 0;
    ssize_t n;

    (void) close(birth->error_pipe[1]);
    if (job->pid > 0 && birth->group == JOB_GROUP_OWN)
        (void) setpgid(job->pid, job->pid); /* in parent and child: either may run first */
    if (job->pid > 0 && birth->group == JOB_GROUP_LEFT) {
        (void) setsid();
        pass_on_pending(job->pid);
    }
    (void) close(birth->go_pipe[0]);
    (void) close(birth->go_pipe[1]);
    do
        n = read(birth->error_pipe[0], &error, sizeof(error));
    while (n < 0 && errno == EINTR);
    (void) close(birth->error_pipe[0]);
    return n == sizeof(error) ? error : 0;
}

int job_start(struct job *job, char *const argv[], const struct redlock_lease *lease, uint64_t id,
              enum job_group group, const sigset_t *mask) {
    struct birth birth = {
        .argv = argv, .lease = lease, .id = id, .mask = mask, .group = group, .parent = getpid()};

    *job = (struct job){0};
    if (pipe2(birth.error_pipe, O_CLOEXEC) < 0 || pipe2(birth.go_pipe, O_CLOEXEC) < 0) {
        cli_complain("can't start %s: %s", argv[0], strerror(errno));
        return STATUS_SYSTEM;
    }
    job->pid = fork();
    if (job->pid == 0)
        child(&birth);
    int fork_error = job->pid < 0 ? errno : 0, error = begin(job, &birth);
    if (fork_error != 0) {
        cli_complain("can't start %s: %s", argv[0], strerror(fork_error));
        job->pid = 0;
        return STATUS_SYSTEM;
    }
    if (error == 0)
        return 0;
    job_wait(job);
    cli_complain("%s: %s", argv[0], strerror(error));
    return error == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
}

/* The errno with which execvp(3) passes over this file, or 0. Other errors show at the execution. */
static int look_in(const char *directory, int length, const char *program) {
    char path[PATH_MAX];
    struct stat file;
    int n = snprintf(path, sizeof(path), "%.*s%s%s", length, directory, length > 0 ? "/" : "", program);

    if (n >= (int) sizeof(path))
        return 0;
    if (stat(path, &file) < 0)
        return errno == ENOENT || errno == ENOTDIR ? ENOENT : errno == EACCES ? EACCES : 0;
    if (!S_ISREG(file.st_mode))
        return EACCES;
    return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0 && errno == EACCES ? EACCES : 0;
}

/* A file that is not executable counts if no later directory has one that is. 0 without PATH: execvp(3) has
 * a default of its own. */
static int look_in_path(const char *program) {
    const char *at = getenv("PATH");
    int error = at ? ENOENT : 0;

    while (at) {
        size_t length = strcspn(at, ":");
        int here = look_in(at, (int) length, program);
        if (here == 0)
            return 0;
        error = here == EACCES ? EACCES : error;
        at = at[length] ? at + length + 1 : NULL;
    }
    return error;
}

int job_check(const char *program) {
    int error = !*program ? ENOENT : strchr(program, '/') ? look_in("", 0, program) : look_in_path(program);

    if (error == 0)
        return 0;
    cli_complain("%s: %s", program, strerror(error));
    return error == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
}

void job_signal(const struct job *job, int number) {
    if (job->pid > 0)
        (void) kill(-job->pid, number);
}

bool job_reap(struct job *job) {
    int wait_status;

    if (job->pid <= 0 || waitpid(job->pid, &wait_status, WNOHANG) <= 0)
        return false;
    *job = (struct job){.wait_status = wait_status};
    return true;
}

void job_wait(struct job *job) {
    int wait_status = 0;

    if (job->pid <= 0)
        return;
    while (waitpid(job->pid, &wait_status, 0) < 0 && errno == EINTR)
        ;
    *job = (struct job){.wait_status = wait_status};
}

int job_status(const struct job *job) {
    return WIFSIGNALED(job->wait_status) ? 128 + WTERMSIG(job->wait_status) : WEXITSTATUS(job->wait_status);
}
