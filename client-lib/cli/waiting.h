/* A line for people who wait for a lease: why they do. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cli;

struct waiting {
    const struct cli *cli;
    const char *name;
    int64_t due_ns; /* INT64_MAX: not any more */
    pid_t pid;      /* of the process that asks; 0: none */
};

/* The line comes after two seconds, once, if it is wanted. */
void waiting_init(struct waiting *waiting, const struct cli *cli, const char *name, bool wanted);
int64_t waiting_due_ns(const struct waiting *waiting);

/* Asks and prints when it is time, in a process of its own: an agent that is stuck must not keep us from
 * anything else. */
void waiting_look(struct waiting *waiting);

/* For who can't call that: the process is there from the beginning. */
void waiting_look_ahead(struct waiting *waiting);

/* The waiting is over. */
void waiting_deinit(struct waiting *waiting);
