#include "core/extension-schedule.h"

#include "base/prefetch.h"
#include "core/shard-state.h"

/* The interval: this share of the ttl. A longer one costs less, but leaves less time for further tries after
 * a failure, and for a holder at risk to finish. The nodes get a token again with an extension: so with a
 * token an interval has a bound. */
enum { INTERVAL_EIGHTHS = 3 };

/* Shares of an interval. The lag is the time from an extension to the next. */
enum {
    LAG_ONE = 1 << 24,
    LAG_USUAL = LAG_ONE / 10 * 9, /* usual lags are between this and LAG_ONE, at random */
    LAG_MEAN = LAG_ONE / 20 * 19, /* mean of the usual lags */
    LAG_CROWD = LAG_ONE / 8 * 9,  /* a crowd: an eighth of all leases has no room in an interval */
    LAG_CROWDED = LAG_ONE / 2,    /* the first turn of a crowd */
};

enum {
    FILL_PERCENT = 22, /* a lease is extended up to this share of its interval early, */
    RETRY_PERCENT = 3, /* or this one, when only retries and refreshes were due */
    STEPS = 256,       /* of an interval: the first extension of a lease is due at one of them */
    PASSED_MAX = 32,   /* items passed over, beyond the number of due ones: bounds the search */
    AHEAD = 8,         /* leases prefetched */
};

static int64_t interval_ns(const struct lease *lease) {
    int64_t share_ns = lease_state_ttl_ns(lease) / 8 * INTERVAL_EIGHTHS;

    return lease->token != 0 ? instant_min(share_ns, TOKEN_REFRESH_MS * NS_PER_MS) : share_ns;
}

instant_ns extension_schedule_first_ns(struct shard *shard, const struct lease *lease) {
    int64_t length_ns = interval_ns(lease), step_ns = length_ns / STEPS;
    instant_ns at_ns = lease->started_ns + length_ns - random_between(&shard->random, 0, length_ns / 10);

    return at_ns - at_ns % step_ns; /* leases that are due together cost less */
}

/* Turns are placed at the distance that spreads all leases evenly over an interval. If the last lag plus
 * this distance is below LAG_USUAL, there is room, and the new lag is random. If the sum exceeds LAG_CROWD,
 * there is a crowd, whose turns are placed evenly from the middle of the interval on. */
static void begin_turn(struct shard *shard, int64_t interval_us, instant_ns now_ns) {
    struct shard_schedule *schedule = &shard->schedule;
    int64_t passed_us = instant_min((now_ns - schedule->turn_ns) / NS_PER_US, interval_us);

    schedule->lag -= passed_us * LAG_ONE / interval_us;
    schedule->turn_ns = now_ns;
    if (schedule->lag > LAG_CROWD) {
        schedule->crowd = shard->counters.held > EXTENSION_TURN_NAMES;
        schedule->lag = schedule->crowd ? LAG_CROWDED : LAG_ONE;
    } else if (schedule->lag >= LAG_USUAL || schedule->lag < LAG_CROWDED) {
        schedule->crowd = false;
    }
    if (schedule->lag < LAG_USUAL && !schedule->crowd)
        schedule->lag = random_between(&shard->random, LAG_USUAL, LAG_ONE);
    schedule->turn_lag = schedule->lag < LAG_ONE ? schedule->lag : LAG_ONE;
}

instant_ns extension_schedule_next_ns(struct shard *shard, const struct lease *lease, instant_ns now_ns) {
    int64_t interval_us = interval_ns(lease) / NS_PER_US;
    struct shard_schedule *schedule = &shard->schedule;

    if (schedule->names++ % EXTENSION_TURN_NAMES == 0)
        begin_turn(shard, interval_us, now_ns);
    if (lease->risk == 0 && lease->failures == 0 && !lease->former) {
        schedule->in_turn = true;
        schedule->lag += LAG_MEAN / (shard->counters.held > 0 ? shard->counters.held : 1);
    }
    return now_ns + interval_us * schedule->turn_lag / LAG_ONE * NS_PER_US;
}

void extension_schedule_begin(struct shard *shard) {
    shard->schedule.names = 0;
    shard->schedule.in_turn = false;
}

/* True if the lease's next event is an extension, which may come earlier. */
static bool may_extend(const struct lease *lease, instant_ns now_ns) {
    if (lease->failures > 0)
        return false; /* a retry has a time of its own */
    return lease->state == LEASE_HELD && !lease->under_way && !lease->abandoned && lease->risk == 0 &&
           now_ns < lease->deadline_ns && lease->deadline_ns < lease->hold_until_ns &&
           now_ns < lease->beat_until_ns;
}

/* The items that are due next, with the first leases prefetched. */
struct lookahead {
    struct timer_queue_walk walk;
    uint32_t items[AHEAD];
    uint32_t taken, fetched;
};

/* TIMER_QUEUE_ABSENT at the end. */
static uint32_t lookahead_next(struct lookahead *lookahead, const struct shard *shard) {
    while (lookahead->fetched - lookahead->taken < AHEAD) {
        uint32_t item = timer_queue_walk_next(&lookahead->walk);
        lookahead->items[lookahead->fetched++ % AHEAD] = item;
        if (item == TIMER_QUEUE_ABSENT)
            break;
        if (item < shard->leases.capacity)
            prefetch(pool_at(&shard->leases, item), sizeof(struct lease));
    }
    return lookahead->items[lookahead->taken++ % AHEAD];
}

uint32_t extension_schedule_fill(const struct shard *shard, uint32_t ret_slots[EXTENSION_TURN_NAMES],
                                 instant_ns now_ns) {
    uint32_t due = shard->schedule.names, count = 0, item;
    int64_t percent = shard->schedule.in_turn ? FILL_PERCENT : RETRY_PERCENT;
    struct lookahead lookahead;

    if (due == 0)
        return 0;
    lookahead.taken = lookahead.fetched = 0;
    timer_queue_walk_begin(&lookahead.walk, &shard->due);
    for (uint32_t passed = 0; due + count < EXTENSION_TURN_NAMES && passed < due + PASSED_MAX;) {
        if ((item = lookahead_next(&lookahead, shard)) == TIMER_QUEUE_ABSENT)
            break;
        const struct lease *lease = item < shard->leases.capacity ? pool_at(&shard->leases, item) : NULL;
        if (!lease || !may_extend(lease, now_ns)) {
            passed++;
            continue;
        }
        if (lease->extend_ns - now_ns > interval_ns(lease) / 100 * percent)
            break;
        prefetch(lease->text, SHARED_STRING_USUAL_BYTES);
        ret_slots[count++] = item;
    }
    return count;
}
