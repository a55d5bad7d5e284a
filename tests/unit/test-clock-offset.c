/* Rule 11: the interval of a node's clock, and its steps. A node's TIME is written as the agent's instant
 * plus a difference. */

#include "core/clock-offset.h"
#include "core/limits.h"
#include "tap.h"

static const int64_t epoch_us =
    INT64_C(1700000000) * 1000000; /* the nodes' clocks at the agent's instant 0 */

static int64_t update_ms(struct clock_offset *offset, int64_t clock_ms, int64_t sent_ms,
                         int64_t received_ms) {
    return clock_offset_update(offset, epoch_us + clock_ms * 1000, sent_ms * NS_PER_MS,
                               received_ms * NS_PER_MS) /
           NS_PER_MS;
}

static void test_offset(void) {
    struct clock_offset offset = {0};

    is_int(update_ms(&offset, 105, 100, 110), 0, "the first answer shows no step");
    is_int(clock_offset_time_us(&offset, 200 * NS_PER_MS) / 1000, epoch_us / 1000 + 200,
           "the node's time is the middle of the interval");
    is_int(update_ms(&offset, 1001, 1000, 1002), 0, "an answer that agrees shows no step");
    ok(offset.high_ns - offset.low_ns < 4 * NS_PER_MS, "a faster answer narrows the interval");
    is_int(update_ms(&offset, 11095, 11000, 11002), 0, "a clock may run 1 % fast");
    is_int(update_ms(&offset, 21000 - 5, 21000, 21002), 0, "a clock may run 1 % slow");

    offset = (struct clock_offset){0};
    (void) update_ms(&offset, 1000, 1000, 1000);
    int64_t step_ms = update_ms(&offset, 1100 + 3600000, 1100, 1101);
    ok(step_ms > 3599000 && step_ms <= 3600000, "rule 11: a clock set forward is reported as a step");
    is_int(update_ms(&offset, 1200 + 3600000, 1200, 1201), 0,
           "a step forward is reported once: the former interval is dropped");
    step_ms = update_ms(&offset, 1300 + 3599900, 1300, 1301);
    ok(step_ms < -90 && step_ms >= -100, "rule 11: a clock set back is reported as a step");
    is_int(update_ms(&offset, 1400 + 3599900, 1400, 1401), 0, "a step back is reported once");
    is_int(update_ms(&offset, 1600 + 3600902, 1510, 2600), 0,
           "a slow answer: a difference within its delay is no step");
    (void) update_ms(&offset, 3000 + 3599902, 3000, 3001);
    ok(update_ms(&offset, 3100 + 3604902, 3000, 3101) > 4000,
       "a difference larger than the delay is a step");
}

/* Two answers at one instant, the second one's clock so many microseconds ahead. */
static int64_t step_between(struct clock_offset *offset, int64_t ahead_us) {
    *offset = (struct clock_offset){0};
    (void) clock_offset_update(offset, epoch_us, NS_PER_S, NS_PER_S);
    return clock_offset_update(offset, epoch_us + ahead_us, NS_PER_S, NS_PER_S);
}

static void test_edges(void) {
    struct clock_offset offset;

    is_int(step_between(&offset, 1), 0, "intervals that touch agree");
    is_int(offset.high_ns, offset.low_ns, "intervals that touch leave one value");
    is_int(step_between(&offset, -1), 0, "intervals that touch at the lower end agree");
    is_int(offset.high_ns, offset.low_ns, "they leave one value, too");
    is_int(step_between(&offset, 1 + 2000), 0, "a step of 2 ms is within the allowance");
    is_int(step_between(&offset, 1 + 2001), 2001 * NS_PER_US, "rule 11: a step beyond 2 ms is reported");
    is_int(step_between(&offset, -1 - 2000), 0, "a step back of 2 ms is within the allowance");
    is_int(step_between(&offset, -1 - 2001), -2001 * NS_PER_US,
           "rule 11: a step back beyond 2 ms is reported");
}

/* The clock is set forward by 1 ms in each answer, one answer a millisecond. The number of steps that go
 * unnoticed. */
static unsigned count_small_steps(void) {
    struct clock_offset offset = {0};
    unsigned count = 0;

    (void) update_ms(&offset, 1000, 1000, 1000);
    for (int64_t ms = 1001; ms < 1100; ms++, count++)
        if (clock_offset_update(&offset, epoch_us + (ms + ms - 1000) * 1000, ms * NS_PER_MS,
                                ms * NS_PER_MS) != 0)
            break;
    return count;
}

/* The same of 1.5 ms, each beside an answer that is almost as slow. */
static unsigned count_hidden_steps(int direction) {
    struct clock_offset offset = {0};
    int64_t ahead_us = 0;
    unsigned count = 0;

    (void) update_ms(&offset, 1000, 1000, 1000);
    for (int64_t ms = 1010; ms < 2000; ms += 10, count++) {
        int64_t sent_us = ms * 1000, slow_us = 1490;
        ahead_us += direction * 1500;
        int64_t read_us = direction > 0 ? sent_us : sent_us + slow_us;
        int64_t step_ns = clock_offset_update(&offset, epoch_us + read_us + ahead_us, sent_us * NS_PER_US,
                                              (sent_us + slow_us) * NS_PER_US);
        int64_t later_ns = (sent_us + 5000) * NS_PER_US;
        step_ns += clock_offset_update(&offset, epoch_us + sent_us + 5000 + ahead_us, later_ns, later_ns);
        if (step_ns != 0)
            break;
    }
    return count;
}

/* A step of 2 ms, and another one when the time has passed, in which an answer comes each 40 ms. */
static int64_t step_after(int64_t ms) {
    struct clock_offset offset = {0};
    int64_t at_ms = 1000;

    (void) update_ms(&offset, at_ms, at_ms, at_ms);
    (void) update_ms(&offset, at_ms + 2, at_ms, at_ms);
    for (; at_ms < ms; at_ms += 40)
        (void) update_ms(&offset, at_ms + 2, at_ms, at_ms);
    return update_ms(&offset, at_ms + 4, at_ms, at_ms);
}

static void test_small_steps(void) {
    is_int(step_after(2 * (int64_t) TTL_MS_MAX), 0, "after the longest ttl the allowance is whole again");
    ok(step_after(TTL_MS_MAX / 2) != 0, "rule 11: but not before");
    is_int(count_small_steps(), 2, "rule 11: steps of 2 ms in all are within the allowance of each lease");
    is_int(count_hidden_steps(1), 1, "rule 11: so are those that slow answers almost explain");
    is_int(count_hidden_steps(-1), 1, "rule 11: those back, too");
}

/* An answer that took half a second explains all of a step but a millisecond. */
static void test_step_beside_slow_answer(void) {
    struct clock_offset offset = {0};

    (void) update_ms(&offset, 1000, 1000, 1000);
    is_int(update_ms(&offset, 1000 + 511, 1000, 1500), 0,
           "the least step that explains the answer is small");
    int64_t step_ms = update_ms(&offset, 1600 + 511, 1600, 1600);
    ok(step_ms > 400, "rule 11: a prompt answer shows how far a clock was set beside a slow one");
    offset = (struct clock_offset){0};
    (void) update_ms(&offset, 1000, 1000, 1000);
    is_int(update_ms(&offset, 1500 - 511, 1000, 1500), 0, "the same of a clock that was set back");
    ok(update_ms(&offset, 1600 - 511, 1600, 1600) < -400, "rule 11: and back");
}

int main(void) {
    test_offset();
    test_small_steps();
    test_step_beside_slow_answer();
    test_edges();
    return done_testing();
}
