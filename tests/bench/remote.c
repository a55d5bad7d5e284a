/* The hand-off between hosts: from the call that lets go at one agent to the grant at another, where one
 * waits.
 *
 * The floor does the same with hiredis alone. Who lets go deletes and publishes on all nodes by the agent's
 * own script; who waits is subscribed on all of them by connections of their own, acquires on all as soon as
 * a majority has told, and is done when a majority has answered. It is tried with the first message instead
 * of a majority's, too: the better one counts. */

#include <errno.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

enum { HANDOFFS = 200, PAUSE_US = 2000 };

#define NAME "remote"
#define HOLDER_VALUE "f" FLOOR_VALUE
#define WAITER_VALUE "e" FLOOR_VALUE

static struct remote_node {
    redisContext *holder, *waiter, *messages;
    char epoch[EPOCH_BYTES_MAX], acquire[41], release[41];
    unsigned owes; /* answers to the waiter */
} nodes[NODES];

static long long last_token = FIRST_TOKEN + 1000000000;

static void get_reply(redisContext *context) {
    void *reply;

    if (redisGetReply(context, &reply) != REDIS_OK || ((redisReply *) reply)->type == REDIS_REPLY_ERROR)
        fail("a node", "does not answer");
    freeReplyObject(reply);
}

static void write_out(redisContext *context) {
    int done = 0;

    while (!done)
        if (redisBufferWrite(context, &done) != REDIS_OK)
            fail("a node", context->errstr);
}

static void connect_all(const char *directory) {
    for (unsigned i = 0; i < NODES; i++) {
        nodes[i].holder = bench_connect(directory, i);
        nodes[i].waiter = bench_connect(directory, i);
        nodes[i].messages = bench_connect(directory, i);
        bench_read_epoch(nodes[i].holder, nodes[i].epoch);
        bench_load(nodes[i].holder, SCRIPT_ACQUIRE, nodes[i].acquire);
        bench_load(nodes[i].holder, SCRIPT_RELEASE, nodes[i].release);
        freeReplyObject(redisCommand(nodes[i].messages, "SUBSCRIBE " REDIS_FREE_CHANNEL "floor-" NAME));
    }
}

static void disconnect_all(void) {
    for (unsigned i = 0; i < NODES; i++) {
        redisFree(nodes[i].holder);
        redisFree(nodes[i].waiter);
        redisFree(nodes[i].messages);
    }
}

static void append_release(redisContext *context, const char *sha, const char *value, const char *prefix) {
    (void) redisAppendCommand(context, "EVALSHA %s 1 floor-" NAME " %s %s", sha, value, prefix);
}

static void try_to_acquire(void) {
    last_token++;
    for (unsigned i = 0; i < NODES; i++) {
        bench_append_acquire(nodes[i].waiter, nodes[i].acquire, nodes[i].epoch, "floor-" NAME, WAITER_VALUE,
                             last_token);
        nodes[i].owes++;
        write_out(nodes[i].waiter);
    }
}

/* What is there: of messages the number, of answers that of those that say yes. */
static unsigned take(redisContext *context, unsigned *ret_taken) {
    unsigned yes = 0;
    void *reply;

    *ret_taken = 0;
    if (redisBufferRead(context) != REDIS_OK)
        fail("a node", context->errstr);
    while (redisGetReplyFromReader(context, &reply) == REDIS_OK && reply) {
        const redisReply *answer = reply;
        if (answer->type == REDIS_REPLY_ERROR)
            fail("a node", answer->str);
        yes += answer->elements > 0 && answer->element[0]->type == REDIS_REPLY_INTEGER &&
               answer->element[0]->integer == 1;
        (*ret_taken)++;
        freeReplyObject(reply);
    }
    return yes;
}

/* The instant of the majority. A try that came too early is taken back and repeated. */
static double wait_for_majority(unsigned enough) {
    struct pollfd polls[2 * NODES];
    unsigned told = 0, yes = 0, answers = 0, taken;

    for (unsigned i = 0; i < NODES; i++) {
        polls[i] = (struct pollfd){.fd = nodes[i].messages->fd, .events = POLLIN};
        polls[NODES + i] = (struct pollfd){.fd = nodes[i].waiter->fd, .events = POLLIN};
    }
    while (yes < MAJORITY) {
        if (poll(polls, 2 * NODES, -1) < 0)
            fail("poll", strerror(errno));
        for (unsigned i = 0; i < NODES; i++) {
            if (polls[i].revents & POLLIN) {
                (void) take(nodes[i].messages, &taken);
                for (; taken > 0; taken--)
                    if (++told == enough)
                        try_to_acquire();
            }
            if (polls[NODES + i].revents & POLLIN) {
                yes += take(nodes[i].waiter, &taken);
                answers += taken;
                nodes[i].owes -= taken;
            }
        }
        if (answers - yes > NODES - MAJORITY) {
            for (unsigned i = 0; i < NODES; i++) {
                for (; nodes[i].owes > 0; nodes[i].owes--)
                    get_reply(nodes[i].waiter);
                append_release(nodes[i].waiter, nodes[i].release, WAITER_VALUE, "");
                get_reply(nodes[i].waiter);
            }
            answers = yes = 0;
            try_to_acquire();
        }
    }
    double done = now_us();
    for (unsigned i = 0; i < NODES; i++) /* the rest, so that the next time begins with nothing */
        for (; nodes[i].owes > 0; nodes[i].owes--)
            get_reply(nodes[i].waiter);
    for (; told < NODES; told++) {
        struct pollfd rest[NODES];
        memcpy(rest, polls, sizeof(rest));
        if (poll(rest, NODES, -1) < 0)
            fail("poll", strerror(errno));
        for (unsigned i = 0; i < NODES; i++)
            if (rest[i].revents & POLLIN) {
                (void) take(nodes[i].messages, &taken);
                told += taken > 0 ? taken - 1 : 0;
                break;
            }
    }
    return done;
}

static void floor_samples(unsigned enough, double samples[HANDOFFS]) {
    for (unsigned k = 0; k < HANDOFFS; k++) {
        last_token++;
        for (unsigned i = 0; i < NODES; i++) {
            bench_append_acquire(nodes[i].holder, nodes[i].acquire, nodes[i].epoch, "floor-" NAME,
                                 HOLDER_VALUE, last_token);
            get_reply(nodes[i].holder);
        }
        (void) usleep(PAUSE_US);
        double begun = now_us();
        for (unsigned i = 0; i < NODES; i++) {
            append_release(nodes[i].holder, nodes[i].release, HOLDER_VALUE, REDIS_FREE_CHANNEL);
            write_out(nodes[i].holder);
        }
        samples[k] = wait_for_majority(enough) - begun;
        for (unsigned i = 0; i < NODES; i++) {
            get_reply(nodes[i].holder);
            append_release(nodes[i].waiter, nodes[i].release, WAITER_VALUE, "");
            get_reply(nodes[i].waiter);
        }
    }
}

static void on_granted(struct redlock_lease *lease, void *userdata) {
    (void) lease;
    *(bool *) userdata = true;
}

static void wait_for_grant(struct redlock *holder, struct redlock *waiter, const bool *granted) {
    struct pollfd polls[2] = {{.fd = redlock_fd(holder), .events = POLLIN},
                              {.fd = redlock_fd(waiter), .events = POLLIN}};

    while (!*granted) {
        if (poll(polls, 2, -1) < 0)
            fail("poll", strerror(errno));
        if ((polls[0].revents && redlock_dispatch(holder) != REDLOCK_OK) ||
            (polls[1].revents && redlock_dispatch(waiter) != REDLOCK_OK))
            fail("redlock_dispatch", redlock_error_text(waiter));
    }
}

static void agent_samples(struct redlock *holder, struct redlock *waiter, const bool *granted_now,
                          bool *granted, double samples[HANDOFFS]) {
    struct redlock_options options = REDLOCK_OPTIONS_INIT;

    options.wait_ms = -1;
    for (unsigned k = 0; k < HANDOFFS; k++) {
        struct redlock_lease *held, *wanted;
        if (redlock_acquire(holder, NAME, &options, &held) != REDLOCK_OK)
            fail("redlock_acquire", redlock_error_text(holder));
        *granted = false;
        if (redlock_acquire_async(waiter, NAME, &options, &wanted) != REDLOCK_OK)
            fail("redlock_acquire_async", redlock_error_text(waiter));
        (void) usleep(PAUSE_US);
        double begun = now_us();
        if (redlock_release_async(held) != REDLOCK_OK)
            fail("redlock_release_async", redlock_error_text(holder));
        wait_for_grant(holder, waiter, granted_now);
        samples[k] = now_us() - begun;
        if (redlock_release(wanted) != 1)
            fail("redlock_release", redlock_error_text(waiter));
    }
}

static void print_remote(double agent[ROUNDS_MAX][HANDOFFS], double base[ROUNDS_MAX][HANDOFFS],
                         const char *floor_name, double p, unsigned rounds) {
    static struct result ours, bare, ratio;
    char what[64];

    for (unsigned round = 0; round < rounds; round++) {
        ours.values[round] = percentile(agent[round], HANDOFFS, p);
        bare.values[round] = percentile(base[round], HANDOFFS, p);
        ratio.values[round] = ours.values[round] / bare.values[round];
    }
    (void) snprintf(what, sizeof(what), "hand-off p%.0f, %s", 100 * p, floor_name);
    print_row(what, "us", &ours, &bare, &ratio, rounds);
}

void run_remote(const char *directory, struct redlock *holder, struct redlock *waiter, unsigned rounds) {
    static double agent[ROUNDS_MAX][HANDOFFS], first[ROUNDS_MAX][HANDOFFS], majority[ROUNDS_MAX][HANDOFFS];
    struct redlock_callbacks callbacks = {.size = sizeof(callbacks)};
    bool granted = false;

    callbacks.granted = on_granted;
    redlock_set_callbacks(waiter, &callbacks, &granted);
    connect_all(directory);
    for (unsigned round = 0; round < rounds; round++) {
        floor_samples(MAJORITY, majority[round]);
        floor_samples(1, first[round]);
        agent_samples(holder, waiter, &granted, &granted, agent[round]);
    }
    disconnect_all();
    (void) printf("%-24s %10s %10s\n", "between two agents", "agents", "floor");
    print_remote(agent, majority, "majority", 0.5, rounds);
    print_remote(agent, first, "first", 0.5, rounds);
    print_remote(agent, majority, "majority", 0.99, rounds);
}
