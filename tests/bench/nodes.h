/* The nodes for the floor and the relay: called with the agent's own scripts, and arguments of the same
 * length as the agent's. */
#pragma once

#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "bench.h"
#include "core/limits.h"
#include "io/node/epoch.h"
#include "io/node/key-names.h"
#include "io/node/script.h"

/* As long as the agent's lock values. */
#define FLOOR_VALUE "0123456789abcdef0123456789abcdef01234567:benchhost:01234567:123456:0:"

struct node {
    const char *place; /* HOST:PORT, or the path of its Unix socket */
    redisContext *context;
    char epoch[EPOCH_BYTES_MAX]; /* as an agent has blessed the node */
    char shas[SCRIPTS_LOADED][41];
};

/* Connects, and loads the scripts. An agent must have blessed the node. */
void node_open(struct node *node, const char *place);
void node_close(struct node *node);

/* A connection and nothing else; the second one for hiredis' asynchronous calls. */
redisContext *node_connect(const char *place);
redisAsyncContext *node_connect_async(const char *place);

/* The number of places. */
unsigned nodes_count(char **places);

/* Larger than every token before, and than the floor of every node that was opened. */
long long fresh_token(void);

/* Formats one call, and gives its bytes and their number; redisFreeCommand() is the caller's. */
int node_format(const struct node *node, enum phase phase, const char *name, const char *value,
                long long token, char **ret);

/* Of an answer to a call of node_format(): is it a yes? Fails when it is an error. */
bool says_yes(enum phase phase, const redisReply *reply);

/* Fails unless it is the yes that was expected. */
void expect_yes(enum phase phase, const redisReply *reply);

/* Sends what is queued, waits, and takes one reply that is no error. */
void node_await(struct node *node);
