/* A program that runs under a lease. The kernel kills it when the thread that started it ends. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct redlock_lease;

struct job {
    pid_t pid;       /* 0: ended */
    int wait_status; /* of waitpid(2), after the end */
};

enum job_group {
    JOB_GROUP_OWN,  /* the program leads a process group of its own */
    JOB_GROUP_LEFT, /* the program stays in the caller's group; the caller, which has blocked all signals,
                       leaves group and session before the program begins, and passes on what is pending */
};

/* Starts argv[0], found on the PATH, with this lease in its environment and the signals in `mask` blocked
 * (NULL: none). `id`: the lease's, when it was granted; another agent that resumes the lease has another. 0,
 * or the exit status to end with (STATUS_NOT_FOUND, …), reported. */
int job_start(struct job *job, char *const argv[], const struct redlock_lease *lease, uint64_t id,
              enum job_group group, const sigset_t *mask);

/* 0 if there is an executable program of this name, as execvp(3) finds it; else STATUS_NOT_FOUND or
 * STATUS_NOT_EXECUTABLE, reported. */
int job_check(const char *program);

/* Sends the signal to the whole group of a job that has its own. */
void job_signal(const struct job *job, int number);

/* Collects the end without waiting: true when the job has ended since the last call. */
bool job_reap(struct job *job);

/* Waits for the end. */
void job_wait(struct job *job);

/* The exit status as shells have it: 128 + n for a signal. */
int job_status(const struct job *job);
