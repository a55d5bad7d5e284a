/* A question to all nodes: whose is this name? Answered as soon as a majority agrees, or can't. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/instant.h"
#include "core/quorum.h"

struct shard;

enum { LEADER_QUERIES_MAX = 1024 };

struct leader_query {
    uint32_t pool_link;
    uint32_t serial;
    uint64_t request; /* 0 while the slot is free */
    struct shared_string *text;
    bool fencing; /* the token is wanted */
    bool unsent;  /* it waits for nodes that are not known yet */
    node_set asked;
    node_set answered;
    node_set occupied;
    uint64_t hash[NODES_MAX]; /* of each value seen */
    int64_t ttl_left_ms[NODES_MAX];
    int64_t token[NODES_MAX]; /* the largest that it has accepted */
};

void leader_query_begin(struct shard *shard, const struct command *command, instant_ns now_ns);
void leader_query_vote(struct shard *shard, struct leader_query *look, unsigned node,
                       const struct vote *vote);
void leader_query_tick(struct shard *shard, struct leader_query *look);

/* A node votes, or one that was not known yet does not. */
void leader_query_node_judged(struct shard *shard, struct leader_query *look, instant_ns now_ns);
