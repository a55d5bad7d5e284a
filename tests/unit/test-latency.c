/* Percentiles of the last minutes. */

#include "base/latency.h"

#include "tap.h"

static struct latency latency;

static void test_empty(void) {
    is_int(latency_us(&latency, 500, 7 * NS_PER_S), 0, "nothing was noted: 0");
    is_int(latency_us(&latency, 990, 7 * NS_PER_S), 0, "for every percentile");
}

/* What comes back is never less, and at most a quarter more. */
static void test_precision(void) {
    instant_ns now_ns = 1000 * NS_PER_S;
    unsigned wrong = 0;

    for (uint32_t us = 1; us < 10 * 1000 * 1000; us += 1 + us / 97) {
        latency = (struct latency){0};
        latency_note(&latency, us, now_ns);
        uint32_t got = latency_us(&latency, 500, now_ns);
        wrong += got < us || got > us + us / 4 + 1;
    }
    is_int(wrong, 0, "one value comes back as at most a quarter more, never as less");
    latency = (struct latency){0};
    latency_note(&latency, 0, now_ns);
    ok(latency_us(&latency, 500, now_ns) <= 1, "nothing at all is next to nothing");
    latency_note(&latency, UINT32_MAX, now_ns);
    ok(latency_us(&latency, 1000, now_ns) > 10 * 1000 * 1000,
       "what is longer than all buckets is in the last");
}

static void test_percentiles(void) {
    instant_ns now_ns = 2000 * NS_PER_S;

    latency = (struct latency){0};
    for (unsigned i = 0; i < 985; i++)
        latency_note(&latency, 100, now_ns);
    for (unsigned i = 0; i < 15; i++)
        latency_note(&latency, 50000, now_ns);
    ok(latency_us(&latency, 500, now_ns) < 130, "half took a tenth of a millisecond");
    ok(latency_us(&latency, 985, now_ns) < 130, "and 985 of a thousand");
    ok(latency_us(&latency, 990, now_ns) >= 50000, "but not 990");
}

static void test_windows(void) {
    instant_ns now_ns = 3000 * NS_PER_S, window_ns = LATENCY_WINDOW_MS * NS_PER_MS;

    latency = (struct latency){0};
    latency_note(&latency, 9000, now_ns);
    now_ns += window_ns;
    latency_note(&latency, 10, now_ns);
    ok(latency_us(&latency, 1000, now_ns) >= 9000, "the window before counts");
    ok(latency_us(&latency, 500, now_ns) < 15, "with the one under way");
    now_ns += window_ns;
    ok(latency_us(&latency, 1000, now_ns) < 15, "and is forgotten with the next");
    now_ns += 2 * window_ns;
    is_int(latency_us(&latency, 1000, now_ns), 0, "as all are when nothing comes for long");
}

int main(void) {
    test_empty();
    test_precision();
    test_percentiles();
    test_windows();
    return done_testing();
}
