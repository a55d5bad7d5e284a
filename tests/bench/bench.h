/* What the parts of the benchmark share. */
#pragma once

#include <stddef.h>

#include "io/redis.h"
#include "redlock.h"

enum { NODES = 5, MAJORITY = NODES / 2 + 1, ROUNDS_MAX = 99 };

/* In microseconds since 1970: the year 2100, larger than what the nodes have accepted. */
#define FIRST_TOKEN 4102444800000000LL

/* As long as the agent's lock values. */
#define FLOOR_VALUE "0123456789abcdef0123456789abcdef01234567:benchhost:01234567:123456:"

struct result {
    double values[ROUNDS_MAX];
};

_Noreturn void fail(const char *what, const char *why);
double now_us(void);
double percentile(double *samples, size_t count, double p);
void print_row(const char *what, const char *unit, struct result *ours, struct result *base,
               struct result *ratio, unsigned rounds);

redisContext *bench_connect(const char *directory, unsigned node);
void bench_read_epoch(redisContext *context, char epoch[EPOCH_BYTES_MAX]);
void bench_load(redisContext *context, enum redis_script script, char sha[41]);

/* Asks for the acquire script's run on this name: fresh token, and the agent's terms. */
void bench_append_acquire(redisContext *context, const char *sha, const char *epoch, const char *name,
                          const char *value, long long token);

/* A lease goes from a holder at one agent to one that waits at another. */
void run_remote(const char *directory, struct redlock *holder, struct redlock *waiter, unsigned rounds);

/* Hand-offs between processes of this host that contend for one name: handoff.c. */
void run_handoff(const char *socket_path, unsigned rounds);
