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

#define YIELDING_TAKEN_NS INT64_C(500000)    /* who has the core for longer than this works for himself */
#define YIELDING_STOP_NS INT64_C(1000000000) /* what takes longer has stopped us, or the machine */
#define YIELDING_SPARE_NS INT64_C(10000000)  /* so much is lost before that counts */
#define YIELDING_SHARE 100                   /* one in so many of the time may be lost */

/* All zero to begin with. */
struct yielding {
    int64_t repaid_ns; /* when what was lost is one in YIELDING_SHARE of the time */
};

static inline bool yielding_may(const struct yielding *yielding, int64_t now_ns) {
    return yielding->repaid_ns - now_ns <= YIELDING_SPARE_NS * YIELDING_SHARE;
}

/* The core was yielded, and had again `lost_ns` later, which is now. */
static inline void yielding_note(struct yielding *yielding, int64_t now_ns, int64_t lost_ns) {
    if (lost_ns <= YIELDING_TAKEN_NS)
        return;
    int64_t from_ns = yielding->repaid_ns > now_ns ? yielding->repaid_ns : now_ns;
    yielding->repaid_ns =
        from_ns + (lost_ns < YIELDING_STOP_NS ? lost_ns : YIELDING_STOP_NS) * YIELDING_SHARE;
}
