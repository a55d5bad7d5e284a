/* What yielding the core may cost: for threads that look for work, or for an answer, before they sleep.
 * Pure. In the agent and in the library.
 *
 * Who yields stays runnable: nothing that comes for him takes the core away from one who has it now, as a
 * wake-up would. Beside a busy process that costs a time slice, many times what looking saves. So one part
 * in a hundred of the time may be lost that way, beyond 10 ms: on a quiet machine a millisecond is lost now
 * and then, and puts nothing off. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define SPIN_BUDGET_TAKEN_NS INT64_C(500000)    /* who has the core for longer than this works for himself */
#define SPIN_BUDGET_STOP_NS INT64_C(1000000000) /* what takes longer has stopped us, or the machine */
#define SPIN_BUDGET_SPARE_NS INT64_C(10000000)  /* so much is lost before that counts */
#define SPIN_BUDGET_SHARE 100                   /* one in so many of the time may be lost */

/* All zero to begin with. */
struct spin_budget {
    int64_t repaid_ns; /* when what was lost is one in SPIN_BUDGET_SHARE of the time */
};

static inline bool spin_budget_may(const struct spin_budget *spin_budget, int64_t now_ns) {
    return spin_budget->repaid_ns - now_ns <= SPIN_BUDGET_SPARE_NS * SPIN_BUDGET_SHARE;
}

/* The core was yielded, and had again `lost_ns` later, which is now. */
static inline void spin_budget_note(struct spin_budget *spin_budget, int64_t now_ns, int64_t lost_ns) {
    if (lost_ns <= SPIN_BUDGET_TAKEN_NS)
        return;
    int64_t from_ns = spin_budget->repaid_ns > now_ns ? spin_budget->repaid_ns : now_ns;
    spin_budget->repaid_ns =
        from_ns + (lost_ns < SPIN_BUDGET_STOP_NS ? lost_ns : SPIN_BUDGET_STOP_NS) * SPIN_BUDGET_SHARE;
}
