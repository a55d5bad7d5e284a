#include "core/pace.h"

#include "core/shard.h"

/* Shares of a third of the ttl. */
enum {
    LAG_ONE = 1 << 24,
    LAG_USUAL = LAG_ONE / 10 * 9, /* from there to LAG_ONE, at random */
    LAG_MEAN = LAG_ONE / 20 * 19, /* of these */
    LAG_CROWD = LAG_ONE / 8 * 9,  /* an eighth of all leases has no room within a third */
    LAG_CROWDED = LAG_ONE / 2,    /* from there on they find room */
};

enum {
    FILL_DIVISOR = 12,   /* of the ttl: so much before its time a lease goes along when a call has room */
    WHOLE_DIVISOR = 100, /* and when there are enough of them for another call */
    PASSED_MAX = 32,     /* others, besides those that were due: no long search when most are in trouble */
};

static int64_t ttl_ns(const struct lease *lease) {
    return (int64_t) lease->ttl_ms * NS_PER_MS;
}

instant_ns pace_first_ns(struct shard *shard, const struct lease *lease) {
    int64_t third_ns = ttl_ns(lease) / 3;

    return lease->started_ns + third_ns - random_between(&shard->random, 0, third_ns / 10);
}

/* Calls are given times at the distance that spreads all leases evenly over a period. If the last one's time
 * and this distance come to less than usual, there is room, and the time is random. If they come to more
 * than is allowed, there is a crowd, whose calls are laid evenly from the middle on. */
static void call_begins(struct shard *shard, int64_t third_us, instant_ns now_ns) {
    struct pace *pace = &shard->pace;
    int64_t passed_us = instant_min((now_ns - pace->call_ns) / NS_PER_US, third_us);

    pace->lag -= passed_us * LAG_ONE / third_us;
    pace->call_ns = now_ns;
    if (pace->lag > LAG_CROWD) {
        pace->crowd = shard->counters.held > EXTENSION_TURN_NAMES;
        pace->lag = pace->crowd ? LAG_CROWDED : LAG_ONE;
    } else if (pace->lag >= LAG_USUAL || pace->lag < LAG_CROWDED) {
        pace->crowd = false;
    }
    if (pace->lag < LAG_USUAL && !pace->crowd)
        pace->lag = random_between(&shard->random, LAG_USUAL, LAG_ONE);
    pace->call_lag = pace->lag < LAG_ONE ? pace->lag : LAG_ONE;
}

instant_ns pace_next_ns(struct shard *shard, const struct lease *lease, instant_ns now_ns) {
    int64_t third_us = ttl_ns(lease) / 3 / NS_PER_US;
    struct pace *pace = &shard->pace;

    if (pace->names++ % BATCH_NAMES_MAX == 0)
        call_begins(shard, third_us, now_ns);
    if (lease->risk == 0 && !lease->former) {
        pace->in_turn = true;
        pace->lag += LAG_MEAN / (shard->counters.held > 0 ? shard->counters.held : 1);
    }
    return now_ns + third_us * pace->call_lag / LAG_ONE * NS_PER_US;
}

void pace_begin(struct shard *shard) {
    shard->pace.names = 0;
    shard->pace.in_turn = false;
}

/* Held, and its next event is an extension: it may come earlier. */
static bool may_extend(const struct lease *lease, instant_ns now_ns) {
    return lease->state == LEASE_HELD && !lease->under_way && !lease->abandoned && lease->risk == 0 &&
           now_ns < lease->deadline_ns && lease->deadline_ns < lease->hold_until_ns &&
           now_ns < lease->beat_until_ns;
}

static uint32_t whole_calls(uint32_t names) {
    return names / BATCH_NAMES_MAX * BATCH_NAMES_MAX;
}

void pace_fill(struct shard *shard, instant_ns now_ns) {
    uint32_t due = shard->pace.names, full = whole_calls(due + BATCH_NAMES_MAX - 1), total = due, item;
    uint32_t most = full > EXTENSION_TURN_NAMES ? full : EXTENSION_TURN_NAMES;
    int64_t fill = shard->pace.in_turn ? FILL_DIVISOR : WHOLE_DIVISOR;
    uint32_t items[EXTENSION_TURN_NAMES];
    struct heap_walk walk;

    if (due == 0)
        return;
    heap_walk_begin(&walk, &shard->due);
    for (uint32_t passed = 0; total < most && passed < due + PASSED_MAX;) {
        if ((item = heap_walk_next(&walk)) == HEAP_ABSENT)
            break;
        const struct lease *lease = item < shard->leases.capacity ? pool_at(&shard->leases, item) : NULL;
        if (!lease || !may_extend(lease, now_ns)) {
            passed++;
            continue;
        }
        if (lease->extend_ns - now_ns > ttl_ns(lease) / (total < full ? fill : WHOLE_DIVISOR))
            break;
        items[total++ - due] = item;
    }
    if (total > full)
        total = whole_calls(total);
    for (uint32_t i = 0; i < total - due; i++)
        lease_extend(shard, pool_at(&shard->leases, items[i]), now_ns);
}
