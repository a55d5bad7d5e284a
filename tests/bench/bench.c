/* bench NODES-DIRECTORY AGENT-SOCKET OTHER-SOCKET PLAIN-SOCKET ROUNDS: acquire and release through the
 * agent, beside the bare floor, and beside an agent without fencing tokens; and a lease's way from one agent
 * to another.
 *
 * The floor sends the very same commands (the agent's scripts by EVALSHA) with hiredis alone, to all nodes
 * at once, and is done when a majority has answered. Both take turns within each round, so that a busy
 * machine slows both; the ratios of the rounds' medians are what counts.
 *
 * PARALLEL pairs at a time, through the agent each on a connection of its own with libredlock's calls for
 * event loops; then one pair at a time; then what redlock_valid() costs beside reading the clock; then what
 * handoff.c measures. */

#include <errno.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "bench.h"

enum {
    SAMPLES = 1000, /* pairs in each turn of part 1 */
    PARALLEL = 64,
    PAIRS = 16000,   /* pairs in each turn of part 2 */
    QUEUE = 1 << 16, /* replies that a node may owe: a slow one lags behind the majority */
};

enum phase { ACQUIRE, RELEASE, PHASES };

static const char *const phase_names[PHASES] = {"acquire", "release"};

_Noreturn void fail(const char *what, const char *why) {
    (void) fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(1);
}

double now_us(void) {
    struct timespec t;

    (void) clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e6 + (double) t.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

double percentile(double *samples, size_t count, double p) {
    qsort(samples, count, sizeof(samples[0]), by_size);
    return samples[(size_t) ((double) (count - 1) * p)];
}

/* --- the floor --- */

struct owed {
    unsigned slot;
    unsigned number; /* of the slot's operation: a late reply to an earlier one counts for nothing */
};

struct floor_node {
    redisContext *context;
    char sha[PHASES][41];
    char epoch[EPOCH_BYTES_MAX]; /* as the agent has blessed the node */
    struct owed owed[QUEUE];     /* a ring: replies come in the order of the requests */
    unsigned first, count;
};

struct floor_slot {
    unsigned number;
    unsigned answers;
    enum phase phase;
};

static struct floor_node floor_nodes[NODES];

redisContext *bench_connect(const char *directory, unsigned node) {
    char path[256];

    (void) snprintf(path, sizeof(path), "%s/%c.sock", directory, 'a' + (char) node);
    redisContext *context = redisConnectUnix(path);
    if (!context || context->err)
        fail(path, "can't connect");
    return context;
}

void bench_read_epoch(redisContext *context, char epoch[EPOCH_BYTES_MAX]) {
    redisReply *reply = redisCommand(context, "GET %s", REDIS_EPOCH_KEY);

    if (!reply || reply->type != REDIS_REPLY_STRING)
        fail("a node", "is not blessed");
    (void) snprintf(epoch, EPOCH_BYTES_MAX, "%s", reply->str);
    freeReplyObject(reply);
}

void bench_load(redisContext *context, enum redis_script script, char sha[41]) {
    redisReply *reply = redisCommand(context, "SCRIPT LOAD %s", redis_scripts[script].text);

    if (!reply || reply->type != REDIS_REPLY_STRING)
        fail("a node", "SCRIPT LOAD failed");
    (void) snprintf(sha, 41, "%s", reply->str);
    freeReplyObject(reply);
}

void bench_append_acquire(redisContext *context, const char *sha, const char *epoch, const char *name,
                          const char *value, long long token) {
    (void) redisAppendCommand(
        context, "EVALSHA %s 3 %s %s " REDIS_FENCE_KEY "%s %s 10000 %s %lld %s 1000000000000 604800000", sha,
        name, REDIS_EPOCH_KEY, name, value, epoch, token, strrchr(epoch, ' ') + 1);
}

static void floor_connect(const char *directory) {
    static const enum redis_script scripts[PHASES] = {SCRIPT_ACQUIRE, SCRIPT_RELEASE};

    for (unsigned i = 0; i < NODES; i++) {
        struct floor_node *node = &floor_nodes[i];
        node->context = bench_connect(directory, i);
        bench_read_epoch(node->context, node->epoch);
        for (enum phase phase = ACQUIRE; phase < PHASES; phase++)
            bench_load(node->context, scripts[phase], node->sha[phase]);
    }
}

/* Asks all nodes for one slot; floor_wait() sends it. The value is as long as the agent's. */
static void floor_ask(struct floor_slot *slots, unsigned slot, enum phase phase) {
    static long long tokens;
    long long token = FIRST_TOKEN + ++tokens;
    char name[32];

    (void) snprintf(name, sizeof(name), "floor-%u", slot);
    slots[slot].number++;
    slots[slot].answers = 0;
    slots[slot].phase = phase;
    for (unsigned i = 0; i < NODES; i++) {
        struct floor_node *node = &floor_nodes[i];
        if (phase == ACQUIRE)
            bench_append_acquire(node->context, node->sha[phase], node->epoch, name, FLOOR_VALUE, token);
        else
            (void) redisAppendCommand(node->context, "EVALSHA %s 1 %s %s %s", node->sha[phase], name,
                                      FLOOR_VALUE, REDIS_FREE_CHANNEL);
        if (node->count == QUEUE)
            fail("the floor", "a node owes too many replies");
        node->owed[(node->first + node->count++) % QUEUE] = (struct owed){slot, slots[slot].number};
    }
}

/* Sends what was asked, one write a node; waits for replies and counts them; calls `decided` for each slot
 * that got its majority. */
static void floor_wait(struct floor_slot *slots, void (*decided)(struct floor_slot *slots, unsigned slot)) {
    struct pollfd polls[NODES];

    for (unsigned i = 0; i < NODES; i++) {
        redisContext *context = floor_nodes[i].context;
        int done = 0;
        while (!done)
            if (redisBufferWrite(context, &done) != REDIS_OK)
                fail("a node", context->errstr);
        polls[i] = (struct pollfd){.fd = context->fd, .events = POLLIN};
    }
    if (poll(polls, NODES, -1) < 0)
        fail("poll", strerror(errno));
    for (unsigned i = 0; i < NODES; i++) {
        struct floor_node *node = &floor_nodes[i];
        void *reply;
        if (!(polls[i].revents & POLLIN))
            continue;
        if (redisBufferRead(node->context) != REDIS_OK)
            fail("a node", node->context->errstr);
        while (redisGetReplyFromReader(node->context, &reply) == REDIS_OK && reply) {
            struct owed owed = node->owed[node->first];
            if (((redisReply *) reply)->type == REDIS_REPLY_ERROR)
                fail("a node", ((redisReply *) reply)->str);
            freeReplyObject(reply);
            node->first = (node->first + 1) % QUEUE;
            node->count--;
            if (owed.number == slots[owed.slot].number && ++slots[owed.slot].answers == MAJORITY)
                decided(slots, owed.slot);
        }
    }
}

static bool floor_done;

static void note_decided(struct floor_slot *slots, unsigned slot) {
    (void) slots;
    (void) slot;
    floor_done = true;
}

static bool floor_owes(void) {
    for (unsigned i = 0; i < NODES; i++)
        if (floor_nodes[i].count > 0)
            return true;
    return false;
}

static void floor_single(double samples[PHASES][SAMPLES]) {
    struct floor_slot slot = {0};

    for (unsigned i = 0; i < SAMPLES; i++)
        for (enum phase phase = ACQUIRE; phase < PHASES; phase++) {
            double begun = now_us();
            floor_done = false;
            floor_ask(&slot, 0, phase);
            while (!floor_done)
                floor_wait(&slot, note_decided);
            samples[phase][i] = now_us() - begun;
        }
    while (floor_owes())
        floor_wait(&slot, note_decided);
}

static unsigned floor_begun, floor_ended;

static void floor_go_on(struct floor_slot *slots, unsigned slot) {
    if (slots[slot].phase == ACQUIRE) {
        floor_ask(slots, slot, RELEASE);
        return;
    }
    floor_ended++;
    if (floor_begun < PAIRS) {
        floor_begun++;
        floor_ask(slots, slot, ACQUIRE);
    }
}

/* Pairs per second. */
static double floor_parallel(void) {
    struct floor_slot slots[PARALLEL] = {{0}};
    double begun = now_us();

    floor_ended = 0;
    for (floor_begun = 0; floor_begun < PARALLEL; floor_begun++)
        floor_ask(slots, floor_begun, ACQUIRE);
    while (floor_ended < PAIRS)
        floor_wait(slots, floor_go_on);
    double took = now_us() - begun;
    while (floor_owes())
        floor_wait(slots, note_decided);
    return PAIRS * 1e6 / took;
}

/* --- through the agent --- */

static void agent_single(struct redlock *connection, double samples[PHASES][SAMPLES]) {
    for (unsigned i = 0; i < SAMPLES; i++) {
        struct redlock_lease *lease;
        double begun = now_us();
        if (redlock_acquire(connection, "agent-0", NULL, &lease) != REDLOCK_OK)
            fail("redlock_acquire", redlock_error_text(connection));
        samples[ACQUIRE][i] = now_us() - begun;
        begun = now_us();
        if (redlock_release(lease) != 1)
            fail("redlock_release", redlock_error_text(connection));
        samples[RELEASE][i] = now_us() - begun;
    }
}

struct agent_slot {
    struct redlock *connection;
    struct redlock_lease *lease;
    char name[32];
    bool granted;
};

static void on_granted(struct redlock_lease *lease, void *userdata) {
    struct agent_slot *slot = userdata;

    (void) lease;
    slot->granted = true;
}

static void on_failed(struct redlock_lease *lease, enum redlock_error error, const char *text,
                      void *userdata) {
    (void) lease;
    (void) error;
    (void) userdata;
    fail("a request", text);
}

static void agent_connect(struct agent_slot *slot, const char *socket_path, unsigned number, int epoll_fd) {
    struct redlock_callbacks callbacks = {.size = sizeof(callbacks)};

    callbacks.granted = on_granted;
    callbacks.failed = on_failed;
    if (redlock_connect(socket_path, &slot->connection) != REDLOCK_OK)
        fail(socket_path, "can't connect");
    (void) snprintf(slot->name, sizeof(slot->name), "agent-%u", number);
    redlock_set_callbacks(slot->connection, &callbacks, slot);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = slot};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, redlock_fd(slot->connection), &event) < 0)
        fail("epoll_ctl", strerror(errno));
}

static void agent_ask(struct agent_slot *slot) {
    slot->granted = false;
    if (redlock_acquire_async(slot->connection, slot->name, NULL, &slot->lease) != REDLOCK_OK)
        fail("redlock_acquire_async", redlock_error_text(slot->connection));
}

/* Pairs per second. A slot asks for its next lease right behind its release. */
static double agent_parallel(struct agent_slot *slots, int epoll_fd) {
    struct epoll_event events[PARALLEL];
    unsigned pairs_begun = PARALLEL, pairs_ended = 0;
    double begun = now_us();

    for (unsigned i = 0; i < PARALLEL; i++)
        agent_ask(&slots[i]);
    while (pairs_ended < PAIRS) {
        int n = epoll_wait(epoll_fd, events, PARALLEL, -1);
        for (int i = 0; i < n; i++) {
            struct agent_slot *slot = events[i].data.ptr;
            if (redlock_dispatch(slot->connection) != REDLOCK_OK)
                fail("redlock_dispatch", redlock_error_text(slot->connection));
            if (!slot->granted)
                continue;
            slot->granted = false;
            if (redlock_release_async(slot->lease) != REDLOCK_OK)
                fail("redlock_release_async", redlock_error_text(slot->connection));
            pairs_ended++;
            if (pairs_begun++ < PAIRS)
                agent_ask(slot);
        }
    }
    return PAIRS * 1e6 / (now_us() - begun);
}

/* --- the rounds --- */

static double median_of(struct result *result, unsigned rounds) {
    return percentile(result->values, rounds, 0.5);
}

void print_row(const char *what, const char *unit, struct result *ours, struct result *base,
               struct result *ratio, unsigned rounds) {
    double low = percentile(ratio->values, rounds, 0), high = percentile(ratio->values, rounds, 1);

    (void) printf("%-24s %10.0f %10.0f %-7s %6.2f   (%.2f to %.2f)\n", what, median_of(ours, rounds),
                  median_of(base, rounds), unit, median_of(ratio, rounds), low, high);
}

static void run_single(struct redlock *connection, struct redlock *plain_connection, unsigned rounds) {
    static const double points[] = {0.5, 0.99};
    static double agent[PHASES][SAMPLES], base[PHASES][SAMPLES], plain[PHASES][SAMPLES];
    static struct result ours[PHASES][2], bare[PHASES][2], ratio[PHASES][2];
    static struct result fencing, without, fencing_ratio;
    char what[64];

    for (unsigned round = 0; round < rounds; round++) {
        floor_single(base);
        agent_single(connection, agent);
        agent_single(plain_connection, plain);
        fencing.values[round] = percentile(agent[ACQUIRE], SAMPLES, 0.5);
        without.values[round] = percentile(plain[ACQUIRE], SAMPLES, 0.5);
        fencing_ratio.values[round] = fencing.values[round] / without.values[round];
        for (enum phase phase = ACQUIRE; phase < PHASES; phase++)
            for (unsigned i = 0; i < 2; i++) {
                double a = percentile(agent[phase], SAMPLES, points[i]);
                double b = percentile(base[phase], SAMPLES, points[i]);
                ours[phase][i].values[round] = a;
                bare[phase][i].values[round] = b;
                ratio[phase][i].values[round] = a / b;
            }
    }
    for (enum phase phase = ACQUIRE; phase < PHASES; phase++)
        for (unsigned i = 0; i < 2; i++) {
            (void) snprintf(what, sizeof(what), "%s p%.0f, 1 client", phase_names[phase], 100 * points[i]);
            print_row(what, "us", &ours[phase][i], &bare[phase][i], &ratio[phase][i], rounds);
        }
    (void) printf("%-24s %10s %10s\n", "", "fencing", "without");
    print_row("acquire p50, 1 client", "us", &fencing, &without, &fencing_ratio, rounds);
}

static void run_parallel(const char *socket_path, unsigned rounds) {
    static struct agent_slot slots[PARALLEL];
    static struct result ours, bare, ratio;
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);

    if (epoll_fd < 0)
        fail("epoll_create1", strerror(errno));
    for (unsigned i = 0; i < PARALLEL; i++)
        agent_connect(&slots[i], socket_path, i, epoll_fd);
    for (unsigned round = 0; round < rounds; round++) {
        bare.values[round] = floor_parallel();
        ours.values[round] = agent_parallel(slots, epoll_fd);
        ratio.values[round] = ours.values[round] / bare.values[round];
    }
    for (unsigned i = 0; i < PARALLEL; i++)
        redlock_close(slots[i].connection);
    print_row("pairs, 64 at a time", "per s", &ours, &bare, &ratio, rounds);
}

static volatile bool sink;

static void run_valid(struct redlock *connection, unsigned rounds) {
    enum { CALLS = 1000000 };
    static struct result ours, bare, ratio;
    struct redlock_lease *lease;
    struct timespec t;

    if (redlock_acquire(connection, "valid", NULL, &lease) != REDLOCK_OK)
        fail("redlock_acquire", redlock_error_text(connection));
    for (unsigned round = 0; round < rounds; round++) {
        double begun = now_us();
        for (unsigned i = 0; i < CALLS; i++)
            (void) clock_gettime(CLOCK_BOOTTIME, &t);
        bare.values[round] = (now_us() - begun) * 1e3 / CALLS;
        begun = now_us();
        for (unsigned i = 0; i < CALLS; i++)
            sink = redlock_valid(lease);
        ours.values[round] = (now_us() - begun) * 1e3 / CALLS;
        ratio.values[round] = ours.values[round] / bare.values[round];
    }
    (void) redlock_release(lease);
    (void) printf("%-24s %10s %10s\n", "", "a call", "the clock");
    print_row("redlock_valid()", "ns", &ours, &bare, &ratio, rounds);
}

int main(int argc, char **argv) {
    struct redlock *connection, *other_connection, *plain_connection;

    if (argc != 6)
        fail("usage", "bench NODES-DIRECTORY AGENT-SOCKET OTHER-SOCKET PLAIN-SOCKET ROUNDS; tests/bench/run "
                      "starts it");
    unsigned rounds = (unsigned) atoi(argv[5]);
    if (rounds < 1 || rounds > ROUNDS_MAX)
        fail("ROUNDS", "wants 1 to 99");
    floor_connect(argv[1]);
    if (redlock_connect(argv[2], &connection) != REDLOCK_OK)
        fail(argv[2], "can't connect");
    if (redlock_connect(argv[3], &other_connection) != REDLOCK_OK)
        fail(argv[3], "can't connect");
    if (redlock_connect(argv[4], &plain_connection) != REDLOCK_OK)
        fail(argv[4], "can't connect");
    (void) printf("%-24s %10s %10s %-7s %6s   %s\n", "median of the rounds", "agent", "floor", "", "ratio",
                  "(lowest to highest)");
    run_remote(argv[1], connection, other_connection, rounds);
    run_parallel(argv[2], rounds);
    run_single(connection, plain_connection, rounds);
    run_valid(connection, rounds);
    run_handoff(argv[2], rounds);
    redlock_close(connection);
    redlock_close(other_connection);
    redlock_close(plain_connection);
    return 0;
}
