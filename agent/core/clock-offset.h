/* The offset of a node's clock from ours, as an interval that each answer narrows.
 *
 * A node reads its TIME between our request and its answer. So the offset lies between TIME minus the
 * instant of the answer and TIME minus the instant of the request. The intervals of two answers overlap,
 * if the clocks' rates differ by at most 1 %. Otherwise a clock was set: Redis expires keys by its wall
 * clock, so the node's keys may have ended early. (Intersecting intervals: Marzullo, "Maintaining the Time
 * in a Distributed System".) */
#pragma once

#include <stdbool.h>

#include "base/instant.h"

struct clock_offset {
    bool known;
    int64_t low_ns, high_ns; /* the node's clock minus ours, at `at_ns` */
    instant_ns at_ns;
    instant_ns known_since_ns; /* no step since then */
    instant_ns sent_ns;        /* when the last answered request was sent */
    int64_t spent_ns;          /* small steps that were ignored, of CLOCK_SLACK_MS, */
    instant_ns restored_ns;    /* which was restored until then */
};

/* Adds an answer: the request was sent at `sent_ns`, the answer received at `received_ns`, which never goes
 * back. Returns 0, or the least step by which the clock was set; then the interval begins anew. */
int64_t clock_offset_update(struct clock_offset *offset, int64_t time_us, instant_ns sent_ns,
                            instant_ns received_ns);

/* The node's clock at `now_ns`, by the middle of the interval, which must be known. */
static inline int64_t clock_offset_time_us(const struct clock_offset *offset, instant_ns now_ns) {
    return (now_ns + offset->low_ns / 2 + offset->high_ns / 2) / NS_PER_US;
}
