/* How far a node's clock is ahead of ours, as an interval that each of its answers narrows.
 *
 * A node tells its TIME somewhere between our request and its answer; so the offset lies between that time
 * less the instant of the answer and that time less the instant of the request. Two answers must agree,
 * when clocks may run apart by 1 % in between. When they can't, one of the clocks was set: Redis expires
 * keys by its wall clock, so what that node promised may not hold. (Intersecting intervals: Marzullo,
 * "Maintaining the Time in a Distributed System".) */
#pragma once

#include <stdbool.h>

#include "base/instant.h"

struct clock_offset {
    bool known;
    int64_t low_ns, high_ns; /* the node's clock less ours, as of: */
    instant_ns at_ns;
    instant_ns known_since_ns; /* without a step */
    instant_ns sent_ns;        /* of the request that was last answered */
    int64_t spent_ns;          /* of CLOCK_SLACK_MS: small steps that were let pass */
};

/* The node told `time_us` in an answer to what was sent at `sent_ns` and received at `received_ns`, which
 * never goes back. Returns by how much its clock was set at least, 0 when it was not; then nothing that was
 * known before counts any more. */
int64_t clock_offset_update(struct clock_offset *offset, int64_t time_us, instant_ns sent_ns,
                            instant_ns received_ns);

/* The node's clock at `now_ns`, by the middle of the interval. Only when known. */
static inline int64_t clock_offset_time_us(const struct clock_offset *offset, instant_ns now_ns) {
    return (now_ns + offset->low_ns / 2 + offset->high_ns / 2) / NS_PER_US;
}
