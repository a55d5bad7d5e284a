/* Whether to poll for the reply to a RELEASE before sleeping. Pure: time is an argument.
 *
 * A hand-off to the next waiter on this host needs no nodes, and its reply arrives sooner than a process
 * falls asleep and wakes up. So if the last such release took at most 50 us, the next one polls for 50 us,
 * and yields the core between polls. Each connection has a budget for what yielding may cost
 * (spin-budget.h). Without polling, 8 processes reach 0.84 of the hand-offs, on one core 0.96. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "spin-budget.h"

/* Zeroed initially. */
struct spin_wait {
    int64_t took_ns;  /* of the last release; 0: none yet */
    int64_t begun_ns; /* when the present release was sent */
    struct spin_budget spin_budget;
};

/* A RELEASE was sent. True: poll for the reply. `waited_ns`: how long the lease waited for its grant. If the
 * last release took more than a quarter of that, the next one probably needs the nodes, which need the core
 * themselves. */
bool spin_wait_begin(struct spin_wait *spin_wait, int64_t waited_ns, int64_t now_ns);

/* The core was yielded from `yielded_ns` to `back_ns`. True: continue after the poll that is due now. */
bool spin_wait_goes_on(struct spin_wait *spin_wait, int64_t yielded_ns, int64_t back_ns);

/* The reply arrived, or waiting ended. */
void spin_wait_end(struct spin_wait *spin_wait, int64_t now_ns);
