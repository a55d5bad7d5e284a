/* The living descendants of this process, by /proc. As a child subreaper (prctl(2)) a process keeps those
 * whose own parents have ended, also after setsid(2): the tree is complete until waitpid(2) says ECHILD. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

enum { PROCESS_TREE_NAME_BYTES = 16 };

/* A process that goes on running in spite of a signal. */
struct process_tree_rest {
    pid_t pid; /* 0: none */
    int error; /* EPERM: it runs as another user; 0: the kernel has not ended it yet */
    char name[PROCESS_TREE_NAME_BYTES];
};

/* Sends the signal to each descendant that is there now, with a group only to the members of that process
 * group. Processes that are started meanwhile are not reached: whoever ends the tree calls this again until
 * no child is left. How many were reached or refused; `ret_refused` (may be NULL) is the first that refused.
 */
int process_tree_signal(int number, pid_t group, struct process_tree_rest *ret_refused);

/* One of those that are left, if any: zombies are not. */
bool process_tree_find_rest(struct process_tree_rest *ret);
