/* The spacing of extensions: a shard with given time, and one node that grants everything. */

#include <assert.h>
#include <sys/mman.h>

#include "core/extension-schedule.h"
#include "core/lease-table.h"
#include "core/shard-state.h"
#include "core/shard.h"
#include "tap.h"

enum { LEASES_MAX = 1 << 17, TTL_MS = 10000, ANSWER_US = 500, LATE_US = 50 };

#define PERIOD_NS (TTL_MS * NS_PER_MS / 8 * 3)

static struct world {
    struct shard shard;
    instant_ns now_ns;
    void *memory;
    size_t memory_bytes;
    uint64_t tickets[LEASES_MAX];
    uint32_t n_tickets;
    instant_ns asked_ns[2 * LEASES_MAX]; /* by item: its last request */
    uint32_t names;                      /* extended in this turn */
    int64_t longest_ns;                  /* between two extensions of a lease */
    uint32_t ended;                      /* reports of other kinds than granted and extended */
    uint32_t lost;
} world;

static void on_send(void *userdata, const struct send *send) {
    instant_ns *asked_ns = &world.asked_ns[(uint32_t) send->ticket];

    (void) userdata;
    if (send->operation == OPERATION_EXTEND) {
        world.names++;
        world.longest_ns = instant_max(world.longest_ns, world.now_ns - *asked_ns);
    }
    *asked_ns = world.now_ns;
    world.tickets[world.n_tickets++] = send->ticket;
}

static void on_report(void *userdata, const struct report *report) {
    (void) userdata;
    world.lost += report->kind == REPORT_LOST;
    world.ended +=
        report->kind != REPORT_NODE && report->kind != REPORT_GRANTED && report->kind != REPORT_EXTENDED;
}

static void on_probe(void *userdata, unsigned node, const struct inquiry *inquiry) {
    (void) userdata;
    (void) node;
    (void) inquiry;
}

static void on_bless(void *userdata, unsigned node, const struct blessing *blessing) {
    (void) userdata;
    (void) node;
    (void) blessing;
}

static void on_cut(void *userdata, unsigned node) {
    (void) userdata;
    (void) node;
}

static void on_secret(void *userdata, uint8_t secret[SECRET_BYTES]) {
    (void) userdata;
    memset(secret, 1, SECRET_BYTES);
}

static void on_listen(void *userdata, uint64_t request, const struct shared_string *name, bool wanted) {
    (void) userdata;
    (void) request;
    (void) name;
    (void) wanted;
}

static const struct probe blessed = {
    .blessed = true, .rested = true, .max_ttl_ms = TTL_MS_MAX, .time_us = -1, .floor_us = 1};

static void world_begin(void) {
    static const char *const names[] = {"a"};
    const struct shard_config config = {
        .nodes = 1, .requests_max = LEASES_MAX, .node_names = names, .max_ttl_ms = TTL_MS_MAX, .seed = 7};
    const struct shard_sink sink = {.send = on_send,
                                    .report = on_report,
                                    .probe = on_probe,
                                    .bless = on_bless,
                                    .cut = on_cut,
                                    .secret = on_secret,
                                    .listen = on_listen};

    if (world.memory)
        (void) munmap(world.memory, world.memory_bytes);
    memset(&world, 0, sizeof(world));
    world.now_ns = 1000 * NS_PER_S;
    world.memory_bytes = shard_memory_bytes(&config);
    world.memory = mmap(NULL, world.memory_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert(world.memory != MAP_FAILED);
    shard_init(&world.shard, &config, &sink, world.memory);
    node_trust_ready(&world.shard, 0, world.now_ns);
    node_trust_probed(&world.shard, 0, &blessed, world.now_ns);
}

static void answer_all(void) {
    static const struct vote yes = {.kind = VOTE_YES, .text = ""};

    for (uint32_t i = 0; i < world.n_tickets; i++)
        shard_vote(&world.shard, 0, world.tickets[i], &yes, world.now_ns);
    world.n_tickets = 0;
}

/* The counts between two instants. */
struct span {
    uint32_t turns, calls, names;
    uint32_t most_names; /* of a turn */
    uint32_t most_in_10_ms, most_in_100_ms;
};

struct slot {
    int64_t length_ns;
    instant_ns begun_ns;
    uint32_t names;
};

static void count_slot(struct slot *slot, uint32_t *most) {
    if (world.now_ns - slot->begun_ns >= slot->length_ns)
        *slot = (struct slot){.length_ns = slot->length_ns, .begun_ns = world.now_ns};
    slot->names += world.names;
    *most = slot->names > *most ? slot->names : *most;
}

/* Turns come when they are due, answers after ANSWER_US. */
static struct span pass(int64_t duration_ns) {
    instant_ns until_ns = world.now_ns + duration_ns;
    struct slot shorter = {.length_ns = 10 * NS_PER_MS}, longer = {.length_ns = 100 * NS_PER_MS};
    struct span span = {0};

    while (shard_due_ns(&world.shard) <= until_ns) {
        world.now_ns = instant_max(world.now_ns, shard_due_ns(&world.shard)) + LATE_US * NS_PER_US;
        world.names = 0;
        shard_tick(&world.shard, world.now_ns);
        if (world.shard.nodes[0].probing)
            node_trust_probed(&world.shard, 0, &blessed, world.now_ns);
        count_slot(&shorter, &span.most_in_10_ms);
        count_slot(&longer, &span.most_in_100_ms);
        span.turns += world.names > 0 ? 1 : 0;
        span.calls += (world.names + BATCH_NAMES_MAX - 1) / BATCH_NAMES_MAX;
        span.names += world.names;
        span.most_names = world.names > span.most_names ? world.names : span.most_names;
        world.now_ns += ANSWER_US * NS_PER_US;
        answer_all();
    }
    world.now_ns = instant_max(world.now_ns, until_ns);
    return span;
}

/* Acquires so many leases, evenly in this time, with requests from `first` on. */
static void take(uint64_t first, uint32_t count, uint32_t ttl_ms, int64_t within_ns) {
    instant_ns begun_ns = world.now_ns;
    struct command command = {.kind = COMMAND_CONTEND,
                              .terms.ttl_ms = ttl_ms,
                              .terms.node_timeout_ms = 100,
                              .text = "x42:",
                              .head_length = 1,
                              .tail_length = 3};

    for (uint32_t i = 0; i < count; i++) {
        (void) pass(instant_max(0, begun_ns + within_ns / count * i - world.now_ns));
        command.request = first + i;
        shard_command(&world.shard, &command, world.now_ns);
        answer_all();
    }
}

static void test_few(void) {
    world_begin();
    take(1, 1000, TTL_MS, PERIOD_NS);
    (void) pass(2 * PERIOD_NS);
    const struct span span = pass(10 * PERIOD_NS);
    ok(span.turns <= 10 * 3, "1,000 leases are extended in at most 3 turns an interval (%u in ten)",
       span.turns);
    ok(span.names >= span.calls * 120, "with 120 names or more in a call (%u in %u)", span.names,
       span.calls);
    ok(span.names <= 10 * 1100,
       "and each hardly more often than after three eighths of its ttl (%u in ten intervals)", span.names);
    ok(world.longest_ns <= PERIOD_NS + NS_PER_MS, "but never later");
    is_int(world.ended, 0, "none is lost");
}

static void test_very_few(void) {
    world_begin();
    take(1, 20, TTL_MS, PERIOD_NS);
    (void) pass(2 * PERIOD_NS);
    const struct span span = pass(10 * PERIOD_NS);
    ok(span.turns <= 10 * 5, "20 leases are extended in at most 5 turns an interval (%u in ten)",
       span.turns);
}

static void test_one_at_a_time(void) {
    world_begin();
    take(1, 1, TTL_MS, NS_PER_MS);
    const instant_ns granted_ns = world.asked_ns[0];
    (void) pass(PERIOD_NS / 10 * 9 - 2 * NS_PER_MS);
    ok(world.asked_ns[0] == granted_ns, "a single lease is not extended before nine tenths of its interval");
    (void) pass(PERIOD_NS / 10 + 3 * NS_PER_MS);
    ok(world.asked_ns[0] > granted_ns, "but after three eighths of its ttl at the latest");
}

/* All acquired at once, as after a start. */
static void test_crowd(uint32_t count, int64_t within_ms) {
    world_begin();
    take(1, count, TTL_MS, within_ms * NS_PER_MS);
    const struct span first = pass(PERIOD_NS), second = pass(PERIOD_NS);
    (void) pass(14 * PERIOD_NS);
    const struct span span = pass(2 * PERIOD_NS);
    const uint32_t fair = (uint32_t) ((uint64_t) count * 100 * NS_PER_MS / PERIOD_NS);

    (void) printf("# %u leases taken in %d ms: in 100 ms %u go out, then %u, at last %u; evenly %u would\n",
                  count, (int) within_ms, first.most_in_100_ms, second.most_in_100_ms, span.most_in_100_ms,
                  fair);
    ok(second.most_in_100_ms <= 7 * fair || second.most_in_100_ms <= 2 * EXTENSION_TURN_NAMES,
       "%u leases of one instant part at once: two turns, or seven times their share", count);
    ok(span.most_in_100_ms <= 2 * fair + EXTENSION_TURN_NAMES,
       "some intervals later they are spread over an interval");
    ok(span.most_in_10_ms <= 2 * EXTENSION_TURN_NAMES, "no 10 ms has more than two turns' names");
    ok(span.most_names <= EXTENSION_TURN_NAMES, "and no turn more than %u", EXTENSION_TURN_NAMES);
    ok(span.names >= span.calls * 126, "their calls are full (%u names in %u)", span.names, span.calls);
    ok(span.names <= 2 * count / 10 * 11, "each is extended hardly more often than necessary");
    ok(world.longest_ns <= PERIOD_NS + 300 * NS_PER_MS, "nor later than the crowd can be served (%d ms)",
       (int) ((world.longest_ns - PERIOD_NS) / NS_PER_MS));
    is_int(world.ended, 0, "none is lost");
}

static void test_mixed(void) {
    enum { COUNT = 2000 };

    world_begin();
    take(1, COUNT, 1000, NS_PER_S / 3);
    take(1 + COUNT, COUNT, 30000, NS_PER_S);
    (void) pass(20 * NS_PER_S);
    const struct span span = pass(30 * NS_PER_S);
    const uint32_t must = COUNT * 80 + COUNT * 8 / 3;
    ok(span.names <= must / 4 * 5,
       "leases of different ttls: each hardly more often than necessary (%u, %u)", span.names, must);
    ok(span.names >= span.calls * 100, "in calls that are nearly full (%u names in %u)", span.names,
       span.calls);
    is_int(world.ended, 0, "none is lost");
}

/* A node that answers each request, but later than its time-out. */
static void test_slow_node(uint32_t ttl_ms, uint32_t slow_ms) {
    enum { LONG_TTLS = 20 };
    static struct {
        uint64_t ticket;
        instant_ns at_ns;
    } answers[LEASES_MAX];
    static const struct vote yes = {.kind = VOTE_YES, .text = ""};
    uint32_t first = 0, last = 0;

    world_begin();
    take(1, 100, ttl_ms, NS_PER_S / 10);
    const instant_ns until_ns = world.now_ns + (int64_t) LONG_TTLS * ttl_ms * NS_PER_MS;
    while (world.now_ns < until_ns) {
        instant_ns due_ns = shard_due_ns(&world.shard);
        bool answers_next = first < last && answers[first].at_ns <= due_ns;
        world.now_ns = instant_max(world.now_ns, answers_next ? answers[first].at_ns : due_ns);
        if (answers_next)
            shard_vote(&world.shard, 0, answers[first++].ticket, &yes, world.now_ns);
        else
            shard_tick(&world.shard, world.now_ns);
        if (world.shard.nodes[0].probing)
            node_trust_probed(&world.shard, 0, &blessed, world.now_ns);
        for (uint32_t i = 0; i < world.n_tickets && last < LEASES_MAX; i++) {
            answers[last].ticket = world.tickets[i];
            answers[last++].at_ns = world.now_ns + slow_ms * NS_PER_MS;
        }
        world.n_tickets = 0;
    }
    ok(world.lost == 0, "with answers after %u ms no lease of %u ms is lost (%u)", slow_ms, ttl_ms,
       world.lost);
    ok(last <= 100 * LONG_TTLS * 4, "and none is asked for more often than usual (%u requests)", last);
}

/* The interval of a lease with this ttl, in seconds. */
static int64_t interval_s(uint32_t ttl_ms, int64_t token) {
    const struct lease lease = {.terms.ttl_ms = ttl_ms, .token = token, .started_ns = world.now_ns};
    int64_t first_ns = extension_schedule_first_ns(&world.shard, &lease);

    extension_schedule_begin(&world.shard);
    return (instant_max(first_ns, extension_schedule_next_ns(&world.shard, &lease, world.now_ns)) -
            world.now_ns) /
           NS_PER_S;
}

/* The nodes get a token again with extensions. */
static void test_long_ttls(void) {
    world_begin();
    ok(interval_s(TTL_MS_MAX, 5) <= 10 * 60, "with a ttl of a day and a token: 10 minutes");
    ok(interval_s(TTL_MS_MAX, 0) >= 8 * 3600, "without a token: three eighths of the ttl, or nearly");
    ok(interval_s(1600000, 5) >= 540, "with a ttl of 26 minutes the same, also with a token");
}

/* A turn of a short lease is filled with others that are due soon, by their own interval. */
static void test_long_beside_short(void) {
    enum { COUNT = 200 };

    world_begin();
    take(1, 1, 1000, NS_PER_S / 10);
    take(2, COUNT, TTL_MS_MAX, NS_PER_S);
    for (uint32_t item = 0; item < world.shard.leases.touched; item++) {
        struct lease *lease = pool_at(&world.shard.leases, item);
        lease->token = 5;
        lease->extend_ns = extension_schedule_first_ns(&world.shard, lease);
        lease_table_set_due(&world.shard, lease, lease->extend_ns);
    }
    (void) pass(60 * NS_PER_S);
    const struct span span = pass(1200 * NS_PER_S);
    ok(span.names <= 1200 * 3 + COUNT * 4,
       "leases of a day with a token beside one of a second: %u extensions", span.names);
    is_int(world.ended, 0, "none is lost");
}

static uint32_t count_in(enum lease_state state) {
    uint32_t count = 0;

    for (uint32_t item = 0; item < world.shard.leases.touched; item++)
        count += ((const struct lease *) pool_at(&world.shard.leases, item))->state == state;
    return count;
}

/* Extensions wait behind what a turn does before. */
static void test_cooldowns_end_together(void) {
    enum { COUNT = 20000 };

    world_begin();
    take(1, COUNT, TTL_MS, NS_PER_S);
    instant_ns end_ns = world.now_ns + NS_PER_S;
    for (uint64_t request = 1; request <= COUNT; request++)
        shard_command(
            &world.shard,
            &(struct command){.kind = COMMAND_RELEASE, .request = request, .cooldown_until_ns = end_ns},
            world.now_ns);
    world.now_ns = end_ns;
    shard_tick(&world.shard, world.now_ns);
    is_int(count_in(LEASE_LOST), COUNT - RELEASES_TURN, "of many cooldowns' ends a turn serves some");
    for (unsigned ms = 0; ms < COUNT / RELEASES_TURN; ms++) {
        world.now_ns += NS_PER_MS;
        shard_tick(&world.shard, world.now_ns);
        answer_all();
    }
    is_int(count_in(LEASE_LOST), 0, "and the others within a millisecond for each turn");
}

int main(void) {
    test_cooldowns_end_together();
    test_few();
    test_very_few();
    test_one_at_a_time();
    test_crowd(100000, 200);
    test_crowd(100000, 1000);
    test_crowd(5000, 50);
    test_mixed();
    test_long_ttls();
    test_long_beside_short();
    test_slow_node(1000, 200);
    test_slow_node(10000, 1500); /* it stalls meanwhile */
    return done_testing();
}
