/* Percentiles of recent latencies. */

#include "base/latency.h"

#include "tap.h"

static struct latency latency;

static void test_empty(void) {
    is_int(latency_us(&latency, 500, 7 * NS_PER_S), 0, "without latencies the median is 0");
    is_int(latency_us(&latency, 990, 7 * NS_PER_S), 0, "and every other percentile, too");
}

/* A percentile is at least the noted latency, and at most a quarter more. */
static void test_precision(void) {
    instant_ns now_ns = 1000 * NS_PER_S;
    unsigned wrong = 0;

    for (uint32_t us = 1; us < 10 * 1000 * 1000; us += 1 + us / 97) {
        latency = (struct latency){0};
        latency_note(&latency, us, now_ns);
        uint32_t got = latency_us(&latency, 500, now_ns);
        wrong += got < us || got > us + us / 4 + 1;
    }
    is_int(wrong, 0, "a percentile is at least the latency, and at most a quarter more");
    latency = (struct latency){0};
    latency_note(&latency, 0, now_ns);
    ok(latency_us(&latency, 500, now_ns) <= 1, "a latency of 0 stays at most 1 us");
    latency_note(&latency, UINT32_MAX, now_ns);
    ok(latency_us(&latency, 1000, now_ns) > 10 * 1000 * 1000,
       "a latency longer than all buckets counts in the last");
}

static void test_percentiles(void) {
    instant_ns now_ns = 2000 * NS_PER_S;

    latency = (struct latency){0};
    for (unsigned i = 0; i < 985; i++)
        latency_note(&latency, 100, now_ns);
    for (unsigned i = 0; i < 15; i++)
        latency_note(&latency, 50000, now_ns);
    ok(latency_us(&latency, 500, now_ns) < 130, "the median is a tenth of a millisecond");
    ok(latency_us(&latency, 985, now_ns) < 130, "as is the 985th thousandth");
    ok(latency_us(&latency, 990, now_ns) >= 50000, "the 990th is not");
}

static void test_windows(void) {
    instant_ns now_ns = 3000 * NS_PER_S, window_ns = LATENCY_WINDOW_MS * NS_PER_MS;

    latency = (struct latency){0};
    latency_note(&latency, 9000, now_ns);
    now_ns += window_ns;
    latency_note(&latency, 10, now_ns);
    ok(latency_us(&latency, 1000, now_ns) >= 9000, "the previous window counts");
    ok(latency_us(&latency, 500, now_ns) < 15, "together with the current one");
    now_ns += window_ns;
    ok(latency_us(&latency, 1000, now_ns) < 15, "and is dropped with the next");
    now_ns += 2 * window_ns;
    is_int(latency_us(&latency, 1000, now_ns), 0, "both are dropped after a long silence");
}

int main(void) {
    test_empty();
    test_precision();
    test_percentiles();
    test_windows();
    return done_testing();
}
