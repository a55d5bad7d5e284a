/* The command that runs under a lease: a process group of its own, which goes when we go. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct redlock_lease;

struct job {
    pid_t pid;         /* also of its group; 0 when it is over */
    int wait_status;   /* of waitpid(2), once over */
    bool has_terminal; /* it got our terminal's foreground */
};

/* Starts argv[0], found on the PATH, with this lease in its environment, and on our terminal if we have it
 * and it is to. Signals that the caller has blocked are open in it. 0, or the exit status to end with
 * (STATUS_NOT_FOUND, …), told. */
int job_start(struct job *job, char *const argv[], const struct redlock_lease *lease, bool in_foreground);

/* Sends the signal to the whole group. */
void job_signal(const struct job *job, int number);

enum job_change { JOB_RUNNING, JOB_OVER, JOB_CONTINUED };

/* Takes note of its changes without waiting. A command that was stopped from the terminal stops us too;
 * JOB_CONTINUED when we are awake again and it is not yet. */
enum job_change job_reap(struct job *job);

/* Lets a stopped command go on, in the foreground if it had it. */
void job_continue(const struct job *job);

/* Waits until it is over. */
void job_wait(struct job *job);

/* Its exit status as a shell tells it: 128 + n for a signal. */
int job_status(const struct job *job);
