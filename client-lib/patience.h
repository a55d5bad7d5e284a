/* How to wait for an answer: asleep, or awake for a while first.
 *
 * What the agent knows without its nodes, such as that a lease went to the next one on this host, is here
 * sooner than a process is asleep and awake again, most of all where its core would idle meanwhile. So who
 * got the last answer that soon looks for the next one for as long, 50 us, before it sleeps, and lets others
 * run in between. Answers that take longer are slept for.
 *
 * A process that yields stays runnable: no answer takes the core away from one who has it now, as a wake-up
 * would. Beside a busy process that costs a time slice. So after one that has lost more than 500 us that way
 * the next look is put off for a hundred times as long. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

struct patience {
    bool pays;       /* the last answer came soon */
    int64_t from_ns; /* not before, on CLOCK_BOOTTIME */
};

/* Waits until the descriptor has one of its events, for `left_ns` at most (not less than 0; INT64_MAX: for
 * ever), and hardly longer. `patience` NULL: asleep. Returns what poll(2) does, and sets errno likewise. */
int patience_poll(struct patience *patience, struct pollfd *poll_fd, int64_t left_ns);
