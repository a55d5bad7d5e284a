/* Random delays that double with each failure, so that callers that failed together retry apart. */
#pragma once

#include "base/random.h"

/* Uniform in [d/2, d], with d = first × 2^failures, at most `most`. */
static inline int64_t back_off_delay(struct random *random, int64_t first, int64_t most, unsigned failures) {
    int64_t delay = first;

    for (unsigned i = 0; i < failures && delay < most; i++)
        delay *= 2;
    delay = delay < most ? delay : most;
    return random_between(random, delay / 2, delay);
}
