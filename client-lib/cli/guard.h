/* The guard: a process of `redlock run` that has the connection, holds the lease, starts the command and
 * ends the command's whole tree of processes before the lease ends.
 *
 *   shell --- redlock (the relay, signal-relay.h) --- guard --- command --- ...
 *             `---------- process group of the job ----------'
 *
 * The lease belongs to the guard. So when the redlock that was started is killed, nothing is released: the
 * guard ends the tree first. It is a child subreaper: what the command leaves behind becomes its child, also
 * after setsid(2). When the guard itself is killed, the lease lingers, and the relay, a subreaper too, ends
 * the tree.
 *
 * The command belongs to the process group in which redlock was started, as under flock(1): the terminal and
 * the shell treat redlock and the command as one job. The guard leaves it: what stops or kills the job does
 * not reach it. It leaves the session too, or the job would not count as orphaned when the shell ends
 * (setpgid(2)). */
#pragma once

#include "cli.h"
#include "run.h"

enum guard_word {
    GUARD_GRANTED, /* guard: the lease is held; may the command start? */
    GUARD_GO, /* relay: yes; signals are passed on from here. And, when the command has ended: understood */
    GUARD_SIGNAL,        /* relay: pass this signal on to the command */
    GUARD_ENDED,         /* guard: exit with this status */
    GUARD_COMMAND_ENDED, /* guard: the command has ended with this status of waitpid(2) */
};

struct guard_message {
    enum guard_word word;
    int value;
};

/* False when the other side has gone. */
bool guard_send(int channel, enum guard_word word, int value);
bool guard_receive(int channel, struct guard_message *ret);

/* Runs the command under the lease; `channel` is a socketpair to the relay. Returns when this process is to
 * end. */
void guard_run(const struct cli *cli, const struct run *run, int channel);
