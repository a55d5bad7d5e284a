/* A process that tells whether a signal went to our whole process group (from the terminal, a shell's kill
 * %1, timeout(1)) or to us alone: it is in the group, and nobody else knows it. */
#pragma once

#include <signal.h>
#include <sys/types.h>

struct group_witness {
    pid_t pid; /* 0: none */
    int fd;
};

/* Without one, every signal counts as sent to us alone. */
void group_witness_init(struct group_witness *witness);
void group_witness_deinit(struct group_witness *witness);

/* The signals that came to the group since the last time. */
void group_witness_ask(struct group_witness *witness, sigset_t *ret);
