/* A line for people while the command waits for a lease: the holder, or why there is no quorum. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cli;

struct waiting {
    const struct cli *cli;
    const char *name;
    int64_t due_ns; /* INT64_MAX: not wanted, or printed */
    pid_t pid;      /* of the process that queries the agent and prints; 0: none */
};

/* If `wanted`, the line is printed once, after two seconds. */
void waiting_init(struct waiting *waiting, const struct cli *cli, const char *name, bool wanted);
int64_t waiting_due_ns(const struct waiting *waiting);

/* When a request that waits for this time, and is sent now, has got no answer; INT64_MAX: it waits without
 * limit. */
int64_t waiting_give_up_ns(int64_t wait_ms);

/* When the line is due, starts a process that queries the agent and prints: a stuck agent must not block the
 * caller. */
void waiting_report_due(struct waiting *waiting);

/* The waiting is over. */
void waiting_deinit(struct waiting *waiting);
