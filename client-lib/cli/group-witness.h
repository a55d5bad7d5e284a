/* A process that shows whether a signal went to the whole process group (from the terminal, a shell's kill
 * %1, timeout(1)) or to this process alone: the witness is in the group, and no other process signals it. */
#pragma once

#include <signal.h>
#include <sys/types.h>

struct group_witness {
    pid_t pid; /* 0: none */
    int fd;
};

/* Without a witness, every signal counts as sent to this process alone. */
void group_witness_init(struct group_witness *witness);
void group_witness_deinit(struct group_witness *witness);

/* The signals that the group received since the last call. */
void group_witness_ask(struct group_witness *witness, sigset_t *ret);
