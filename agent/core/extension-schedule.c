#include "core/extension-schedule.h"

#include "base/prefetch.h"
#include "core/lease.h"
#include "core/shard-state.h"

/* An interval: this share of the ttl. Longer ones cost less; but a failure wants time for more tries, and
 * for a holder that is at risk to finish. */
enum { INTERVAL_EIGHTHS = 3 };

/* Shares of an interval. */
enum {
    LAG_ONE = 1 << 24,
    LAG_USUAL = LAG_ONE / 10 * 9, /* from there to LAG_ONE, at random */
    LAG_MEAN = LAG_ONE / 20 * 19, /* of these */
    LAG_CROWD = LAG_ONE / 8 * 9,  /* an eighth of all leases has no room within one */
    LAG_CROWDED = LAG_ONE / 2,    /* from there on they find room */
};

enum {
    FILL_DIVISOR = 12,   /* of the ttl: so much before its time a lease goes along */
    RETRY_DIVISOR = 100, /* the same, when no other was in its turn: a try after a failure, say */
    STEPS = 256,         /* of an interval: at which leases are extended first */
    PASSED_MAX = 32,     /* others, besides those that were due: no long search when most are in trouble */
    AHEAD = 8,           /* leases that are fetched from memory before they are looked at */
};

static int64_t ttl_ns(const struct lease *lease) {
    return (int64_t) lease->ttl_ms * NS_PER_MS;
}

static int64_t interval_ns(const struct lease *lease) {
    return ttl_ns(lease) / 8 * INTERVAL_EIGHTHS;
}

instant_ns extension_schedule_first_ns(struct shard *shard, const struct lease *lease) {
    int64_t length_ns = interval_ns(lease), step_ns = length_ns / STEPS;
    instant_ns at_ns = lease->started_ns + length_ns - random_between(&shard->random, 0, length_ns / 10);

    return at_ns - at_ns % step_ns; /* those that are due together cost less than each by itself */
}

/* Turns are given times at the distance that spreads all leases evenly over a period. If the last one's time
 * and this distance come to less than usual, there is room, and the time is random. If they come to more
 * than is allowed, there is a crowd, whose turns are laid evenly from the middle on. */
static void turn_begins(struct shard *shard, int64_t interval_us, instant_ns now_ns) {
    struct shard_schedule *pace = &shard->pace;
    int64_t passed_us = instant_min((now_ns - pace->turn_ns) / NS_PER_US, interval_us);

    pace->lag -= passed_us * LAG_ONE / interval_us;
    pace->turn_ns = now_ns;
    if (pace->lag > LAG_CROWD) {
        pace->crowd = shard->counters.held > EXTENSION_TURN_NAMES;
        pace->lag = pace->crowd ? LAG_CROWDED : LAG_ONE;
    } else if (pace->lag >= LAG_USUAL || pace->lag < LAG_CROWDED) {
        pace->crowd = false;
    }
    if (pace->lag < LAG_USUAL && !pace->crowd)
        pace->lag = random_between(&shard->random, LAG_USUAL, LAG_ONE);
    pace->turn_lag = pace->lag < LAG_ONE ? pace->lag : LAG_ONE;
}

instant_ns extension_schedule_next_ns(struct shard *shard, const struct lease *lease, instant_ns now_ns) {
    int64_t interval_us = interval_ns(lease) / NS_PER_US;
    struct shard_schedule *pace = &shard->pace;

    if (pace->names++ % EXTENSION_TURN_NAMES == 0)
        turn_begins(shard, interval_us, now_ns);
    if (lease->risk == 0 && !lease->former) {
        pace->in_turn = true;
        pace->lag += LAG_MEAN / (shard->counters.held > 0 ? shard->counters.held : 1);
    }
    return now_ns + interval_us * pace->turn_lag / LAG_ONE * NS_PER_US;
}

void extension_schedule_begin(struct shard *shard) {
    shard->pace.names = 0;
    shard->pace.in_turn = false;
}

/* Held, and its next event is an extension: it may come earlier. */
static bool may_extend(const struct lease *lease, instant_ns now_ns) {
    return lease->state == LEASE_HELD && !lease->under_way && !lease->abandoned && lease->risk == 0 &&
           now_ns < lease->deadline_ns && lease->deadline_ns < lease->hold_until_ns &&
           now_ns < lease->beat_until_ns;
}

/* What is due next, some of it already on its way from memory. */
struct outlook {
    struct timer_queue_walk walk;
    uint32_t items[AHEAD];
    uint32_t taken, fetched;
};

/* TIMER_QUEUE_ABSENT at the end. */
static uint32_t outlook_next(struct outlook *outlook, const struct shard *shard) {
    while (outlook->fetched - outlook->taken < AHEAD) {
        uint32_t item = timer_queue_walk_next(&outlook->walk);
        outlook->items[outlook->fetched++ % AHEAD] = item;
        if (item == TIMER_QUEUE_ABSENT)
            break;
        if (item < shard->leases.capacity)
            prefetch(pool_at(&shard->leases, item), sizeof(struct lease));
    }
    return outlook->items[outlook->taken++ % AHEAD];
}

void extension_schedule_fill(struct shard *shard, instant_ns now_ns) {
    uint32_t due = shard->pace.names, total = due, item;
    int64_t divisor = shard->pace.in_turn ? FILL_DIVISOR : RETRY_DIVISOR;
    uint32_t items[EXTENSION_TURN_NAMES];
    struct outlook outlook;

    if (due == 0)
        return;
    outlook.taken = outlook.fetched = 0;
    timer_queue_walk_begin(&outlook.walk, &shard->due);
    for (uint32_t passed = 0; total < EXTENSION_TURN_NAMES && passed < due + PASSED_MAX;) {
        if ((item = outlook_next(&outlook, shard)) == TIMER_QUEUE_ABSENT)
            break;
        const struct lease *lease = item < shard->leases.capacity ? pool_at(&shard->leases, item) : NULL;
        if (!lease || !may_extend(lease, now_ns)) {
            passed++;
            continue;
        }
        if (lease->extend_ns - now_ns > ttl_ns(lease) / divisor)
            break;
        prefetch(lease->text, SHARED_STRING_USUAL_BYTES);
        items[total++ - due] = item;
    }
    for (uint32_t i = 0; i < total - due; i++)
        lease_extend(shard, pool_at(&shard->leases, items[i]), now_ns);
}
