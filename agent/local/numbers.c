#include "local/numbers.h"

#include <assert.h>
#include <string.h>

#include "local/front-state.h"

/* --- sums --- */

static int64_t sum_at(const struct front_state *front, size_t offset) {
    uint64_t sum = 0;

    for (unsigned i = 0; i < front->identity.n_keepers; i++) {
        const void *counter = (const unsigned char *) &front->keepers[i].counters + offset;
        sum += *(const uint64_t *) counter;
    }
    return (int64_t) sum;
}

#define SUM(front, field) sum_at(front, offsetof(struct shard_counters, field))

static int64_t losses(const struct front_state *front) {
    uint64_t sum = 0;

    for (unsigned i = 0; i < REASON_COUNT; i++)
        sum += front->registry.losses[i];
    return (int64_t) sum;
}

static int64_t latest_extension_ms(const struct front_state *front) {
    int64_t late_ns = 0;

    for (unsigned i = 0; i < front->identity.n_keepers; i++)
        late_ns = instant_max(late_ns, front->keepers[i].counters.extension_late_ns);
    return late_ns / NS_PER_MS;
}

static int64_t closest_extension_percent(const struct front_state *front) {
    int64_t margin = 1000;

    for (unsigned i = 0; i < front->identity.n_keepers; i++)
        margin = instant_min(margin, front->keepers[i].counters.extension_margin_permille);
    return margin / 10;
}

/* --- the table --- */

#define GAUGE(metric, help) metric, NUMBER_GAUGE, NULL, 1, help
#define COUNTER(metric, help) metric, NUMBER_COUNTER, NULL, 1, help
#define SECONDS(metric, help) metric, NUMBER_GAUGE, "seconds", 1000, help
#define RATIO(metric, help) metric, NUMBER_GAUGE, "ratio", 100, help
#define NO_METRIC NULL, NUMBER_GAUGE, NULL, 1, NULL

size_t numbers_read(struct front_state *front, instant_ns now_ns, struct numbers_row ret[NUMBERS_MAX]) {
    const struct front_state_identity *identity = &front->identity;
    const struct numbers_row numbers[] = {
        {"pid", identity->pid, NO_METRIC},
        {"uptime", (now_ns - identity->started_ns) / NS_PER_MS,
         SECONDS("redlock_uptime_seconds", "Time since the agent's start.")},
        {"nodes", identity->n_nodes, GAUGE("redlock_nodes", "Configured nodes.")},
        {"quorum", identity->n_nodes / 2 + 1, GAUGE("redlock_quorum", "Nodes that make a majority.")},
        {"voting", front_state_voting(front),
         GAUGE("redlock_voting_nodes", "Nodes that vote for the keeper with the fewest.")},
        {"keepers", identity->n_keepers, GAUGE("redlock_keepers", "Threads that extend leases.")},
        {"sessions", front->sessions, GAUGE("redlock_sessions", "Connections of clients.")},
        {NULL, front->policy.max_sessions,
         GAUGE("redlock_sessions_max", "Connections that the configuration allows.")},
        {"leases", front->registry.held, GAUGE("redlock_leases", "Leases held on this host.")},
        {NULL, front->registry.limit,
         GAUGE("redlock_leases_max", "Leases and waiters that the configuration allows.")},
        {NULL, (int64_t) front->registry.quota.max[QUOTA_EXTENSIONS],
         GAUGE("redlock_extensions_max", "Extensions a minute that the configuration allows.")},
        {"waiters", front->registry.waiting, GAUGE("redlock_waiters", "Requests that wait for a lease.")},
        {"cooling", cooling_count(&front->cooling, now_ns),
         GAUGE("redlock_cooling_names", "Names that stay taken after their lease has ended.")},
        {"grants", SUM(front, grants), COUNTER("redlock_grants", "Leases granted by the nodes.")},
        {"releases", SUM(front, releases), COUNTER("redlock_releases", "Leases released at the nodes.")},
        {"handoffs", (int64_t) front->registry.handoffs,
         COUNTER("redlock_handoffs", "Leases handed to the next waiter of the host.")},
        {NULL, (int64_t) front->work.pauses,
         COUNTER("redlock_user_pauses", "Times that a user had to wait for its share of the work.")},
        {"losses", losses(front), NO_METRIC},
        {"extensions", SUM(front, extensions), COUNTER("redlock_extensions", "Extensions of leases.")},
        {"extensions_failed", SUM(front, extensions_failed),
         COUNTER("redlock_extension_failures", "Rounds of an extension that found no majority in time.")},
        {"extension_late", latest_extension_ms(front),
         SECONDS("redlock_extension_delay_max_seconds",
                 "The longest delay of an extension since the start.")},
        {"extension_margin", closest_extension_percent(front),
         RATIO("redlock_extension_margin_min_ratio",
               "The smallest part of the ttl that was left at an extension since the start.")},
    };

    static_assert(sizeof(numbers) <= NUMBERS_MAX * sizeof(numbers[0]), "there is room for all numbers");
    memcpy(ret, numbers, sizeof(numbers));
    return sizeof(numbers) / sizeof(numbers[0]);
}
