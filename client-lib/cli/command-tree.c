#include "command-tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "descriptors.h"
#include "process-tree.h"
#include "run-options.h"

enum { PASS_MS_MIN = 1, PASS_MS_MAX = 200 }; /* between two passes with SIGKILL */

/* --- start --- */

/* A reader of the command's output waits for the command's end, not the guard's. */
static void leave_pipes(void) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null >= 0) {
        (void) dup2(null, STDIN_FILENO);
        (void) dup2(null, STDOUT_FILENO);
    }
    descriptors_close_inherited();
}

int command_tree_start(struct command_tree *tree, const struct run_options *run,
                       const struct redlock_lease *lease) {
    char *const shell[] = {(char *) "/bin/sh", (char *) "-c", (char *) run->shell_text, NULL};

    *tree = (struct command_tree){.name = run->name, .group = getpgrp(), .session = getsid(0)};
    if (!process_tree_is_known())
        cli_complain(
            "%s: /proc does not show the processes of this PID namespace: only the command itself can "
            "be ended in time, not what it starts",
            run->name);
    int status = job_start(&tree->job, run->shell_text ? shell : run->command, lease,
                           redlock_lease_id(lease), JOB_GROUP_LEFT, &run->mask);
    if (status != 0)
        return status;
    leave_pipes();
    return 0;
}

/* --- signals and ends --- */

static bool has_strayed(const struct command_tree *tree) {
    return tree->job.pid > 0 && getpgid(tree->job.pid) != tree->group;
}

/* Without /proc no process of the tree is known but the command. */
static void signal_all(const struct command_tree *tree, int number, struct process_tree_rest *ret_refused) {
    if (process_tree_signal(number, 0, ret_refused) == 0 && tree->job.pid > 0)
        (void) kill(tree->job.pid, number);
}

/* The same. */
void command_tree_signal(const struct command_tree *tree, int number) {
    int reached = process_tree_signal(number, tree->group, NULL);

    if (tree->job.pid > 0 && (reached == 0 || has_strayed(tree)))
        (void) kill(tree->job.pid, number);
}

void command_tree_signal_strayed(const struct command_tree *tree, int number) {
    if (has_strayed(tree) && getsid(tree->job.pid) == tree->session)
        (void) kill(tree->job.pid, number);
}

void command_tree_terminate(const struct command_tree *tree) {
    signal_all(tree, SIGTERM, NULL);
    signal_all(tree, SIGCONT, NULL);
}

void command_tree_reap(struct command_tree *tree) {
    int wait_status;
    pid_t pid;

    while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0)
        if (pid == tree->job.pid) {
            tree->job.pid = 0;
            tree->job.wait_status = wait_status;
        }
    tree->is_over = pid < 0 && errno == ECHILD;
}

static void report(struct command_tree *tree, const struct process_tree_rest *rest,
                   const char *consequence) {
    if (rest->pid == tree->reported)
        return;
    tree->reported = rest->pid;
    if (rest->error != 0)
        cli_complain(
            "%s: process %ld (%s) can't be ended: %s; %s. Run all of it as one user: sudo redlock run ...",
            tree->name, (long) rest->pid, rest->name, strerror(rest->error), consequence);
    else
        cli_complain("%s: process %ld (%s) has not ended yet; %s", tree->name, (long) rest->pid, rest->name,
                     consequence);
}

void command_tree_begin_end(struct command_tree *tree) {
    if (tree->ends)
        return;
    tree->ends = true;
    tree->pass_ns = 0;
    tree->pass_ms = PASS_MS_MIN;
}

void command_tree_kill_due(struct command_tree *tree, const char *consequence) {
    struct process_tree_rest refused;

    if (!tree->ends || cli_now_ns() < tree->pass_ns)
        return;
    signal_all(tree, SIGKILL, &refused);
    if (refused.pid != 0)
        report(tree, &refused, consequence);
    tree->pass_ns = cli_now_ns() + tree->pass_ms * NS_PER_MS;
    tree->pass_ms = 2 * tree->pass_ms < PASS_MS_MAX ? 2 * tree->pass_ms : PASS_MS_MAX;
}

bool command_tree_is_stubborn(const struct command_tree *tree) {
    return tree->ends && tree->pass_ms == PASS_MS_MAX;
}

void command_tree_report_rest(struct command_tree *tree, const char *consequence) {
    struct process_tree_rest rest;

    if (!tree->is_over && process_tree_find_rest(&rest))
        report(tree, &rest, consequence);
}
