/* A program that runs under a lease, and is killed when the thread that started it ends. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct redlock_lease;

struct job {
    pid_t pid;       /* 0 when it is over */
    int wait_status; /* of waitpid(2), once over */
};

enum job_group {
    JOB_GROUP_OWN,  /* it leads a process group of its own */
    JOB_GROUP_LEFT, /* it stays in ours, and we have left that and its session when it begins */
};

/* Starts argv[0], found on the PATH, with this lease in its environment, with the signals in `mask` blocked
 * (NULL: none). 0, or the exit status to end with (STATUS_NOT_FOUND, …), told. */
int job_start(struct job *job, char *const argv[], const struct redlock_lease *lease, enum job_group group,
              const sigset_t *mask);

/* Sends the signal to the whole group of a job that has its own. */
void job_signal(const struct job *job, int number);

/* Takes note of its end without waiting; whether it is over since this call. */
bool job_reap(struct job *job);

/* Waits until it is over. */
void job_wait(struct job *job);

/* Its exit status as a shell tells it: 128 + n for a signal. */
int job_status(const struct job *job);
