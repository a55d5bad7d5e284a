/* What is due when, beside a list that is searched from end to end. */

#include <stdlib.h>
#include <string.h>

#include "base/timer-queue.h"
#include "base/random.h"
#include "tap.h"

enum { ITEMS = 900, STEPS = 60000 };

static struct timer_queue agenda;
static instant_ns plain[ITEMS];
static struct random randomness;

static void begin(void) {
    void *memory = calloc(1, timer_queue_memory_bytes(ITEMS));

    if (!memory)
        abort();
    timer_queue_init(&agenda, memory, ITEMS);
    for (uint32_t i = 0; i < ITEMS; i++)
        plain[i] = INSTANT_NEVER;
}

static void end(void) {
    free(agenda.items); /* the first of its memory */
}

static uint32_t below(uint32_t bound) {
    return (uint32_t) random_between(&randomness, 0, (int64_t) bound - 1);
}

static void put(uint32_t item, instant_ns at) {
    timer_queue_set(&agenda, item, at);
    plain[item] = at;
}

static void drop(uint32_t item) {
    timer_queue_remove(&agenda, item);
    plain[item] = INSTANT_NEVER;
}

static instant_ns plain_earliest(void) {
    instant_ns earliest = INSTANT_NEVER;

    for (uint32_t i = 0; i < ITEMS; i++)
        earliest = instant_min(earliest, plain[i]);
    return earliest;
}

/* Each item once, at its instant, the instants in order. */
static bool walk_is_right(void) {
    static bool seen[ITEMS];
    struct timer_queue_walk walk;
    instant_ns last = INSTANT_LONG_AGO;
    uint32_t item, n = 0, there = 0;

    memset(seen, 0, sizeof(seen));
    for (uint32_t i = 0; i < ITEMS; i++)
        there += plain[i] != INSTANT_NEVER;
    timer_queue_walk_begin(&walk, &agenda);
    while ((item = timer_queue_walk_next(&walk)) != TIMER_QUEUE_ABSENT) {
        if (item >= ITEMS || seen[item] || plain[item] < last || plain[item] == INSTANT_NEVER)
            return false;
        seen[item] = true;
        last = plain[item];
        n++;
    }
    return n == there;
}

static bool neighbours_are_right(uint32_t item) {
    uint32_t n = 0, same = 0, at = item;

    for (uint32_t i = 0; i < ITEMS; i++)
        same += plain[i] == plain[item];
    do {
        if (plain[at] != plain[item])
            return false;
        at = timer_queue_neighbour(&agenda, at);
    } while (at != item && ++n < ITEMS);
    return n < same;
}

/* `instants`: how many there are; with few, many items share one. */
static void test_against_plain(uint32_t instants) {
    uint32_t wrong = 0;

    begin();
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t item = below(ITEMS), what = below(10);
        if (what < 7)
            put(item, 1000 + below(instants));
        else
            drop(item);
        wrong += timer_queue_at(&agenda, item) != plain[item];
        if (step % 16 == 0) {
            uint32_t first = timer_queue_first(&agenda);
            wrong += timer_queue_earliest(&agenda) != plain_earliest();
            wrong += first != TIMER_QUEUE_ABSENT && plain[first] != plain_earliest();
            wrong += first != TIMER_QUEUE_ABSENT && !neighbours_are_right(first);
        }
        if (step % 512 == 0)
            wrong += !walk_is_right();
    }
    ok(wrong == 0, "%u steps with %u instants (%u wrong)", STEPS, instants, wrong);
    for (uint32_t i = 0; i < ITEMS; i++)
        drop(i);
    ok(timer_queue_first(&agenda) == TIMER_QUEUE_ABSENT && timer_queue_earliest(&agenda) == INSTANT_NEVER &&
           agenda.moments.taken == 0,
       "and nothing is left in the end");
    end();
}

/* As leases go: those of a call are moved together, from one instant to the next. */
static void test_groups(void) {
    uint32_t wrong = 0;

    begin();
    for (uint32_t i = 0; i < ITEMS; i++)
        put(i, 1000 + i / 100);
    is_int(agenda.moments.taken, 9, "items that are due together share an instant");
    for (uint32_t turn = 0; turn < 90; turn++) {
        instant_ns now = timer_queue_earliest(&agenda);
        uint32_t moved = 0;
        while (timer_queue_earliest(&agenda) == now) {
            put(timer_queue_first(&agenda), now + 500);
            moved++;
        }
        wrong += moved != 100;
    }
    is_int(wrong, 0, "they go on together");
    is_int(agenda.moments.taken, 9, "and are no more instants than before");
    end();
}

static void test_never(void) {
    begin();
    put(1, 5);
    timer_queue_set(&agenda, 2, INSTANT_NEVER);
    timer_queue_remove(&agenda, 2);
    timer_queue_set(&agenda, 3, INSTANT_NEVER);
    ok(timer_queue_first(&agenda) == 1 && timer_queue_earliest(&agenda) == 5,
       "what is never due comes last");
    timer_queue_remove(&agenda, 1);
    is_int(timer_queue_first(&agenda), 3, "but it is there");
    end();
}

int main(void) {
    random_init(&randomness, 11);
    test_against_plain(5);
    test_against_plain(400);
    test_against_plain(1000000);
    test_groups();
    test_never();
    return done_testing();
}
