#include "spin-wait.h"

#define NS_PER_US INT64_C(1000)
#define SPIN_NS (50 * NS_PER_US) /* about the time for two processes to wake each other */
#define QUEUE_RATIO 4            /* longer waits, in releases, mean a queue on this host */

bool spin_wait_begin(struct spin_wait *spin_wait, int64_t waited_ns, int64_t now_ns) {
    spin_wait->begun_ns = now_ns;
    return spin_wait->took_ns > 0 && spin_wait->took_ns <= SPIN_NS &&
           spin_wait->took_ns <= waited_ns / QUEUE_RATIO && spin_budget_may(&spin_wait->spin_budget, now_ns);
}

bool spin_wait_goes_on(struct spin_wait *spin_wait, int64_t yielded_ns, int64_t back_ns) {
    spin_budget_note(&spin_wait->spin_budget, back_ns, back_ns - yielded_ns);
    return back_ns - spin_wait->begun_ns < SPIN_NS;
}

void spin_wait_end(struct spin_wait *spin_wait, int64_t now_ns) {
    spin_wait->took_ns = now_ns - spin_wait->begun_ns;
}
