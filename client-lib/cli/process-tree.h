/* The living descendants of this process, from /proc. A child subreaper (prctl(2)) becomes the parent of
 * descendants whose own parents have ended, also after setsid(2): the tree is complete until waitpid(2)
 * fails with ECHILD. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

enum { PROCESS_TREE_NAME_BYTES = 16 };

/* Whether /proc shows this PID namespace. Otherwise no descendant is known. */
bool process_tree_is_known(void);

/* From now on the present children of this process but this one do not count, nor does what descends from
 * them, unless its parents end. True: there are some. This process must not reap them before it has
 * ended the others, nor ignore SIGCHLD. */
bool process_tree_spare_all_but(pid_t kept);

/* A process that runs on after a signal. */
struct process_tree_rest {
    pid_t pid; /* 0: none */
    int error; /* EPERM: it runs as another user; 0: the kernel has not ended it yet */
    char name[PROCESS_TREE_NAME_BYTES];
};

/* Sends the signal to each present descendant; if `group` is not 0, only to members of that process group.
 * Processes that start meanwhile are missed: to end the tree, repeat until no child remains. Returns the
 * number of processes; `ret_refused` (may be NULL) is the first that must not be signalled. */
int process_tree_signal(int number, pid_t group, struct process_tree_rest *ret_refused);

/* A remaining descendant, if any; zombies do not count. */
bool process_tree_find_rest(struct process_tree_rest *ret);
