/* What `redlock top` knows at one instant: the agent's STATUS, NODES, METRICS and latest grants. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct redlock;

enum {
    TOP_SAMPLE_THREADS_MAX = 32,
    TOP_SAMPLE_WORDS_MAX = 24,
    TOP_SAMPLE_USERS_MAX = 256,
    TOP_SAMPLE_NODES_MAX = 32,
    TOP_SAMPLE_GRANTS_MAX = 20,
    TOP_SAMPLE_BOUNDS_MAX = 32,
    TOP_SAMPLE_WORD_BYTES = 40,
    TOP_SAMPLE_TEXT_BYTES = 128,
    TOP_SAMPLE_NAME_BYTES = 513,
};

/* Counts up to each bound in seconds, since the agent's start. */
struct top_sample_histogram {
    unsigned n;
    double bounds[TOP_SAMPLE_BOUNDS_MAX];
    double counts[TOP_SAMPLE_BOUNDS_MAX];
};

struct top_sample_thread {
    char name[TOP_SAMPLE_WORD_BYTES];
    struct top_sample_histogram lag;
};

struct top_sample_count {
    char word[TOP_SAMPLE_WORD_BYTES];
    double count;
};

struct top_sample_user {
    char uid[TOP_SAMPLE_WORD_BYTES];
    double sessions, leases, extensions, observations, buffered_bytes;
};

struct top_sample_node {
    char name[TOP_SAMPLE_WORD_BYTES], state[TOP_SAMPLE_WORD_BYTES], reason[TOP_SAMPLE_TEXT_BYTES];
    int64_t since_ms, p50_us, p99_us, outstanding;
};

struct top_sample_grant {
    char name[TOP_SAMPLE_NAME_BYTES], state[TOP_SAMPLE_WORD_BYTES];
    int64_t since_ms, pid, uid, fence;
};

struct top_sample {
    int64_t at_ns;
    char version[TOP_SAMPLE_WORD_BYTES], host[2 * TOP_SAMPLE_WORD_BYTES], state[TOP_SAMPLE_WORD_BYTES];
    char agent[TOP_SAMPLE_WORD_BYTES]; /* of the process: counters of another one begin anew */
    int64_t uptime_ms, nodes, quorum, voting, sessions, leases, waiters, cooling;
    int64_t grants, handoffs, releases, losses, extensions, extensions_failed;
    bool metrics; /* what follows is known, up to `users` */
    struct top_sample_histogram acquisitions, waits;
    struct top_sample_thread threads[TOP_SAMPLE_THREADS_MAX];
    struct top_sample_count words[TOP_SAMPLE_WORDS_MAX], reasons[TOP_SAMPLE_WORDS_MAX];
    struct top_sample_user users[TOP_SAMPLE_USERS_MAX];
    unsigned n_threads, n_words, n_reasons, n_users;
    struct top_sample_node node_rows[TOP_SAMPLE_NODES_MAX];
    struct top_sample_grant grant_rows[TOP_SAMPLE_GRANTS_MAX]; /* the latest first */
    unsigned n_node_rows, n_grant_rows;
    bool latest; /* the agent lists its latest grants: earlier ones can't */
};

/* REDLOCK_OK, or the connection's error. */
int top_sample_take(struct top_sample *sample, struct redlock *connection);
