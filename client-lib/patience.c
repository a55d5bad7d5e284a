#include "patience.h"

#define NS_PER_US INT64_C(1000)
#define PATIENCE_NS (50 * NS_PER_US) /* about what it takes two processes to wake each other */
#define BEHIND_OTHERS 4              /* who waits there waits so many times as long as a hand-over takes */

bool patience_begin(struct patience *patience, int64_t waited_ns, int64_t now_ns) {
    patience->begun_ns = now_ns;
    return patience->took_ns > 0 && patience->took_ns <= PATIENCE_NS &&
           patience->took_ns <= waited_ns / BEHIND_OTHERS && yielding_may(&patience->yielding, now_ns);
}

bool patience_goes_on(struct patience *patience, int64_t yielded_ns, int64_t back_ns) {
    yielding_note(&patience->yielding, back_ns, back_ns - yielded_ns);
    return back_ns - patience->begun_ns < PATIENCE_NS;
}

void patience_end(struct patience *patience, int64_t now_ns) {
    patience->took_ns = now_ns - patience->begun_ns;
}
