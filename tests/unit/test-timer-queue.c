/* The timer queue, compared with a plain list. */

#include <stdlib.h>
#include <string.h>

#include "base/timer-queue.h"
#include "base/random.h"
#include "tap.h"

enum { ITEMS = 900, STEPS = 60000 };

static struct timer_queue queue;
static instant_ns plain[ITEMS];
static struct random randomness;

static void begin(void) {
    void *memory = calloc(1, timer_queue_memory_bytes(ITEMS));

    if (!memory)
        abort();
    timer_queue_init(&queue, memory, ITEMS);
    for (uint32_t i = 0; i < ITEMS; i++)
        plain[i] = INSTANT_NEVER;
}

static void end(void) {
    free(queue.items); /* its memory begins there */
}

static uint32_t below(uint32_t bound) {
    return (uint32_t) random_between(&randomness, 0, (int64_t) bound - 1);
}

static void put(uint32_t item, instant_ns at) {
    timer_queue_set(&queue, item, at);
    plain[item] = at;
}

static void drop(uint32_t item) {
    timer_queue_remove(&queue, item);
    plain[item] = INSTANT_NEVER;
}

static instant_ns plain_earliest(void) {
    instant_ns earliest = INSTANT_NEVER;

    for (uint32_t i = 0; i < ITEMS; i++)
        earliest = instant_min(earliest, plain[i]);
    return earliest;
}

/* A walk visits each item once, in the order of the instants. */
static bool walk_is_right(void) {
    static bool seen[ITEMS];
    struct timer_queue_walk walk;
    instant_ns last = INSTANT_LONG_AGO;
    uint32_t item, n = 0, there = 0;

    memset(seen, 0, sizeof(seen));
    for (uint32_t i = 0; i < ITEMS; i++)
        there += plain[i] != INSTANT_NEVER;
    timer_queue_walk_begin(&walk, &queue);
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
        at = timer_queue_neighbour(&queue, at);
    } while (at != item && ++n < ITEMS);
    return n < same;
}

/* With few instants, many items share each. */
static void test_against_plain(uint32_t instants) {
    uint32_t wrong = 0;

    begin();
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t item = below(ITEMS), what = below(10);
        if (what < 7)
            put(item, 1000 + below(instants));
        else
            drop(item);
        wrong += timer_queue_at(&queue, item) != plain[item];
        if (step % 16 == 0) {
            uint32_t first = timer_queue_first(&queue);
            wrong += timer_queue_earliest(&queue) != plain_earliest();
            wrong += first != TIMER_QUEUE_ABSENT && plain[first] != plain_earliest();
            wrong += first != TIMER_QUEUE_ABSENT && !neighbours_are_right(first);
        }
        if (step % 512 == 0)
            wrong += !walk_is_right();
    }
    ok(wrong == 0, "%u steps with %u instants (%u wrong)", STEPS, instants, wrong);
    for (uint32_t i = 0; i < ITEMS; i++)
        drop(i);
    ok(timer_queue_first(&queue) == TIMER_QUEUE_ABSENT && timer_queue_earliest(&queue) == INSTANT_NEVER &&
           queue.slots.taken == 0,
       "and nothing is left in the end");
    end();
}

/* The leases of one script call move together, from one instant to the next. */
static void test_groups(void) {
    uint32_t wrong = 0;

    begin();
    for (uint32_t i = 0; i < ITEMS; i++)
        put(i, 1000 + i / 100);
    is_int(queue.slots.taken, 9, "items that are due together share a slot");
    for (uint32_t turn = 0; turn < 90; turn++) {
        instant_ns now = timer_queue_earliest(&queue);
        uint32_t moved = 0;
        while (timer_queue_earliest(&queue) == now) {
            put(timer_queue_first(&queue), now + 500);
            moved++;
        }
        wrong += moved != 100;
    }
    is_int(wrong, 0, "the items move together");
    is_int(queue.slots.taken, 9, "and use no more slots");
    end();
}

static void test_never(void) {
    begin();
    put(1, 5);
    timer_queue_set(&queue, 2, INSTANT_NEVER);
    timer_queue_remove(&queue, 2);
    timer_queue_set(&queue, 3, INSTANT_NEVER);
    ok(timer_queue_first(&queue) == 1 && timer_queue_earliest(&queue) == 5,
       "a timer without a due time comes last");
    timer_queue_remove(&queue, 1);
    is_int(timer_queue_first(&queue), 3, "the other item follows");
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
