/* Collects a keeper's requests over one turn of the loop, sends them as few script calls, and splits the
 * answers into votes. core/call-plan.h decides which requests share a call; io/node/call-words.h has its
 * words. */
#pragma once

#include <stdbool.h>

#include "config/config.h"
#include "core/shard.h"
#include "io/node/redis.h"

struct batcher;

enum { BATCHER_ALONE_MS = 3600 * 1000 }; /* so long after a refused name a node gets calls with one name */

/* 0 or -ENOMEM. `config` (nodes, key_format, host) and `agent_id` must outlive it. */
int batcher_new(const struct config *config, const char *agent_id, struct batcher **ret);

/* After the connections: the batcher owns the bytes of their calls. NULL is fine. Returns NULL. */
struct batcher *batcher_free(struct batcher *batcher);

/* Adds a request; its bytes are copied. Never calls back. */
void batcher_add(struct batcher *batcher, const struct send *send);

/* The node has a new connection, whose user may have other rights. */
void batcher_node_ready(struct batcher *batcher, unsigned node);

/* Closes this node's connection at the next flush. */
void batcher_cut(struct batcher *batcher, unsigned node);

bool batcher_pending(const struct batcher *batcher);

/* Sends everything: equal requests share script calls of up to BATCH_NAMES_MAX names, BATCH_ACQUIRES_MAX to
 * acquire, so that no other client waits for long behind them. For each node, the requests for one name keep
 * their order. A request that can't be sent returns to the shard as cut off. May call the connections'
 * callbacks; more can be pending afterwards. */
void batcher_flush(struct batcher *batcher, struct redis *const nodes[NODES_MAX], struct shard *shard,
                   instant_ns now_ns);

/* The answer to one script call: votes for each of its tickets. `reply` NULL: cut off. False: the script has
 * no such answer, so that the call counts as cut off, and so do the next ones when the caller closes the
 * connection. */
bool batcher_answered(struct batcher *batcher, struct shard *shard, unsigned node, void *tag,
                      const redisReply *reply, instant_ns now_ns);
