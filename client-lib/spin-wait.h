/* Whether to look for the answer to a RELEASE before sleeping for it. Pure: the time is given.
 *
 * When the lease goes to the next one on this host, which the agent does without its nodes, the answer is
 * here sooner than a process is asleep and awake again, most of all where its core would idle meanwhile. So
 * if the last one came within 50 us, the next is looked for, for 50 us, while others may run in between.
 *
 * Each connection has its own measure of what that may cost (spin-budget.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "spin-budget.h"

/* Of the releases of leases that were waited for. All zero to begin with. */
struct spin_wait {
    int64_t took_ns;  /* the last one; 0: there was none yet */
    int64_t begun_ns; /* when this one was sent */
    struct spin_budget spin_budget;
};

/* One is sent. True if its answer is worth a look. `waited_ns`: how long the lease was waited for. Where a
 * release takes about as long, the nodes are asked for both: they may need the core. */
bool spin_wait_begin(struct spin_wait *spin_wait, int64_t waited_ns, int64_t now_ns);

/* The core was yielded to others meanwhile. True if another look after the one that is due now is worth it.
 */
bool spin_wait_goes_on(struct spin_wait *spin_wait, int64_t yielded_ns, int64_t back_ns);

/* The answer came, or is waited for no longer. */
void spin_wait_end(struct spin_wait *spin_wait, int64_t now_ns);
