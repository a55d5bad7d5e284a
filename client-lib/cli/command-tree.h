/* The command of `redlock run` with all processes that it has started, as descendants of the guard
 * (process-tree.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "job.h"

struct run_options;

struct command_tree {
    const char *name; /* of the lease, for messages */
    struct job job;   /* the command itself */
    pid_t group;      /* the process group of the job */
    pid_t session;    /* and its session */
    bool is_over;     /* no descendant remains */
    bool ends;        /* SIGKILL is sent until no descendant remains */
    int64_t pass_ns;  /* when SIGKILL is sent next */
    int64_t pass_ms;  /* and the pause until the pass after it */
    pid_t reported;   /* the last process that was reported as not ending */
};

/* Starts the command under this lease. The calling process leaves the command's process group and session,
 * and closes inherited descriptors. 0; or the exit status, reported. */
int command_tree_start(struct command_tree *tree, const struct run_options *run,
                       const struct redlock_lease *lease);

/* Passes a signal on to the processes of the tree in the job's process group, and to the command, which may
 * have left the group. */
void command_tree_signal(const struct command_tree *tree, int number);

/* The job's process group has got this signal: passes it on to a command that has left the group and not the
 * session, as timeout(1) does. */
void command_tree_signal_strayed(const struct command_tree *tree, int number);

/* SIGTERM to all processes; stopped ones continue. */
void command_tree_terminate(const struct command_tree *tree);

/* Takes note of processes that have ended. */
void command_tree_reap(struct command_tree *tree);

/* From here on command_tree_kill_due() kills. */
void command_tree_begin_end(struct command_tree *tree);

/* Sends SIGKILL to all processes if that is due: often at first, since the tree may grow meanwhile. Reports
 * a process that refuses, with the consequence. */
void command_tree_kill_due(struct command_tree *tree, const char *consequence);

/* SIGKILL was sent so often that the remaining processes can't be ended. */
bool command_tree_is_stubborn(const struct command_tree *tree);

/* Reports a remaining process, if there is one. */
void command_tree_report_rest(struct command_tree *tree, const char *consequence);
