/* The time that a spinning thread may lose by yielding its core; for the agent's threads and the library.
 * Pure.
 *
 * A yielding thread stays runnable, so incoming work does not preempt the running thread, as a wake-up
 * would: beside a busy process a yield costs a time slice, many times what spinning saves. If yields of more
 * than 500 us cost over 1 % of the time (after the first 10 ms, which a quiet machine loses too), spinning
 * stops. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define SPIN_BUDGET_YIELD_NS INT64_C(500000) /* shorter yields cost nothing */
#define SPIN_BUDGET_STOP_NS \
    INT64_C(1000000000) /* longer ones are a stopped process or machine, and count as this */
#define SPIN_BUDGET_SPARE_NS INT64_C(10000000) /* may be lost before spinning stops */
#define SPIN_BUDGET_SHARE 100                  /* 1/100 of the time may be lost */

/* Zeroed initially. */
struct spin_budget {
    int64_t repaid_ns; /* when the loss has become 1/SPIN_BUDGET_SHARE of the time */
};

/* Whether the thread may spin. */
static inline bool spin_budget_may(const struct spin_budget *spin_budget, int64_t now_ns) {
    return spin_budget->repaid_ns - now_ns <= SPIN_BUDGET_SPARE_NS * SPIN_BUDGET_SHARE;
}

/* A yield ended now, and took `lost_ns`. */
static inline void spin_budget_note(struct spin_budget *spin_budget, int64_t now_ns, int64_t lost_ns) {
    if (lost_ns <= SPIN_BUDGET_YIELD_NS)
        return;
    int64_t from_ns = spin_budget->repaid_ns > now_ns ? spin_budget->repaid_ns : now_ns;
    spin_budget->repaid_ns =
        from_ns + (lost_ns < SPIN_BUDGET_STOP_NS ? lost_ns : SPIN_BUDGET_STOP_NS) * SPIN_BUDGET_SHARE;
}
