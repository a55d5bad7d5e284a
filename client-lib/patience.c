#include "patience.h"

#define NS_PER_US INT64_C(1000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)
#define PATIENCE_NS (50 * NS_PER_US) /* about what it takes two processes to wake each other */
#define BEHIND_OTHERS 4              /* who waits there waits so many times as long as a hand-over takes */

/* As in agent/io/poller.c. */
#define TAKEN_NS (500 * NS_PER_US)      /* who has the core for longer than this works for himself */
#define TAKEN_SHARE 100                 /* one in so many of the time may be lost to him */
#define TAKEN_SPARE_NS (10 * NS_PER_MS) /* so much is lost before that counts */
#define TAKEN_NS_MAX NS_PER_S           /* what takes longer has stopped us, or the machine */

bool patience_begin(struct patience *patience, int64_t waited_ns, int64_t now_ns) {
    patience->begun_ns = now_ns;
    return patience->took_ns > 0 && patience->took_ns <= PATIENCE_NS &&
           patience->took_ns <= waited_ns / BEHIND_OTHERS &&
           patience->repaid_ns - now_ns <= TAKEN_SPARE_NS * TAKEN_SHARE;
}

bool patience_goes_on(struct patience *patience, int64_t yielded_ns, int64_t back_ns) {
    int64_t lost_ns = back_ns - yielded_ns;

    if (lost_ns > TAKEN_NS) {
        int64_t from_ns = patience->repaid_ns > back_ns ? patience->repaid_ns : back_ns;
        patience->repaid_ns = from_ns + (lost_ns < TAKEN_NS_MAX ? lost_ns : TAKEN_NS_MAX) * TAKEN_SHARE;
    }
    return back_ns - patience->begun_ns < PATIENCE_NS;
}

void patience_end(struct patience *patience, int64_t now_ns) {
    patience->took_ns = now_ns - patience->begun_ns;
}
