#include "core/clock-offset.h"

#include <assert.h>

#include "core/limits.h"

/* How far two clocks may run apart in that time. */
static int64_t drift_ns(int64_t elapsed_ns) {
    return elapsed_ns / DRIFT_DIVISOR;
}

/* The drift allowance of each lease covers one small step, but not many. So small steps use up
 * CLOCK_SLACK_MS, which is restored over the longest ttl. True if this step is small enough. */
static bool spend(struct clock_offset *offset, int64_t step_ns, instant_ns now_ns) {
    static const int64_t back_divisor = (int64_t) TTL_MS_MAX / CLOCK_SLACK_MS;
    int64_t restored_ns = (now_ns - offset->restored_ns) / back_divisor;

    offset->restored_ns += restored_ns * back_divisor; /* whole nanoseconds: answers may be close together */
    offset->spent_ns = instant_max(offset->spent_ns - restored_ns, 0);
    offset->spent_ns += step_ns < 0 ? -step_ns : step_ns;
    return offset->spent_ns <= CLOCK_SLACK_MS * NS_PER_MS;
}

int64_t clock_offset_update(struct clock_offset *offset, int64_t time_us, instant_ns sent_ns,
                            instant_ns received_ns) {
    /* TIME is cut to whole microseconds. */
    int64_t error_ns = drift_ns(received_ns - sent_ns);
    int64_t low_ns = time_us * NS_PER_US - received_ns - error_ns;
    int64_t high_ns = (time_us + 1) * NS_PER_US - sent_ns + error_ns;
    int64_t step_ns = 0, spent_ns = 0;
    instant_ns restored_ns = received_ns;
    instant_ns known_since_ns = offset->known ? offset->known_since_ns : received_ns;

    assert(sent_ns <= received_ns && (!offset->known || offset->at_ns <= received_ns));
    if (offset->known) {
        int64_t widening_ns = drift_ns(received_ns - offset->at_ns);
        int64_t known_low_ns = offset->low_ns - widening_ns, known_high_ns = offset->high_ns + widening_ns;
        if (low_ns > known_high_ns) {
            step_ns = low_ns - known_high_ns;
        } else if (high_ns < known_low_ns) {
            step_ns = high_ns - known_low_ns;
        } else {
            low_ns = instant_max(low_ns, known_low_ns);
            high_ns = instant_min(high_ns, known_high_ns);
        }
        if (spend(offset, step_ns, received_ns)) {
            /* The clock counts as set by the least step that explains this answer: if the step was larger,
             * a later answer is charged with the rest. */
            if (step_ns > 0)
                high_ns = low_ns;
            else if (step_ns < 0)
                low_ns = high_ns;
            step_ns = 0;
            spent_ns = offset->spent_ns;
            restored_ns = offset->restored_ns;
        }
    }
    *offset = (struct clock_offset){.known = true,
                                    .low_ns = low_ns,
                                    .high_ns = high_ns,
                                    .at_ns = received_ns,
                                    .known_since_ns = step_ns == 0 ? known_since_ns : received_ns,
                                    .sent_ns = sent_ns,
                                    .spent_ns = spent_ns,
                                    .restored_ns = restored_ns};
    return step_ns;
}
