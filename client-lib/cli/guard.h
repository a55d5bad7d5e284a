/* The guard: a process of `redlock run` that has the connection (guard-lease.h), starts the command and ends
 * the command's whole tree of processes (command-tree.h) before the lease ends.
 *
 *   shell --- redlock (the relay, signal-relay.h) --- guard --- command --- ...
 *             `---------- process group of the job ----------'
 *
 * The lease belongs to the guard. When the relay is killed, the guard ends the tree before it releases the
 * lease. The guard is a child subreaper: processes that outlive their parents become its children, also
 * after setsid(2). When the guard itself is killed, the lease lingers, and the relay, a subreaper too, ends
 * the tree.
 *
 * The command belongs to the process group in which redlock was started, as under flock(1): the terminal and
 * the shell treat redlock and the command as one job. The guard leaves this group: what stops or kills the
 * job does not reach the guard. The guard leaves the session too, or the job would not count as orphaned
 * when the shell ends (setpgid(2)). */
#pragma once

#include <sys/types.h>

#include "cli.h"
#include "run-options.h"

/* Runs the command under the lease; `channel` is a socketpair to the relay, the parent process. Returns when
 * this process is to end. */
void guard_run(const struct cli *cli, const struct run_options *run, int channel, pid_t relay);
