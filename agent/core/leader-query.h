/* A leader query: asks the nodes that have room (core/window.h) for the holder of a name: one that hangs
 * would get all queries until it stalls. Ends as soon as a majority agrees, or cannot. */
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
    uint64_t request; /* the front's number; 0: the slot is free */
    uint8_t origin;   /* enum report_origin */
    struct shared_string *text;
    bool fencing; /* the answer has the token */
    bool unsent;  /* waits until each node was examined once, and until the nodes have room */
    instant_ns until_ns; /* a node time-out after the begin: then it is answered, sent or not */
    node_set asked;
    node_set answered;
    node_set occupied;
    uint64_t hash[NODES_MAX];       /* of the value on each node */
    uint64_t lease_hash[NODES_MAX]; /* of the part that all values of a lease have; 0: not an agent's */
    uint64_t agent_hash[NODES_MAX]; /* of "host:agent"; 0: not an agent's */
    int64_t ttl_left_ms[NODES_MAX];
    int64_t token[NODES_MAX]; /* the largest that the node has accepted */
};

void leader_query_begin(struct shard *shard, const struct command *command, instant_ns now_ns);
void leader_query_vote(struct shard *shard, struct leader_query *query, unsigned node,
                       const struct vote *vote);
void leader_query_tick(struct shard *shard, struct leader_query *query, instant_ns now_ns);

/* A node became trusted, or was examined and is not. */
void leader_query_node_judged(struct shard *shard, struct leader_query *query, instant_ns now_ns);
