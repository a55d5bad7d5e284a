/* What a keeper has to send, collected over one turn of the loop, then turned into as few script calls a
 * node as possible, and the nodes' answers taken apart again. Which calls these are is core/call-plan.h's;
 * here they get their bytes. */
#pragma once

#include <stdbool.h>

#include "config/config.h"
#include "core/shard.h"
#include "io/node/redis.h"

struct batcher;

/* 0 or -ENOMEM. `config` (nodes, key_format, host) and `agent_id` must outlive it. */
int batcher_new(const struct config *config, const char *agent_id, struct batcher **ret);

/* The nodes it has sent to must be gone: their calls under way have their bytes in here. NULL is fine.
 * Returns NULL. */
struct batcher *batcher_free(struct batcher *batcher);

/* Takes a request in; its bytes are copied. Never calls back. */
void batcher_add(struct batcher *batcher, const struct send *send);

/* This node's connection is to be given up at the next flush. */
void batcher_cut(struct batcher *batcher, unsigned node);

bool batcher_pending(const struct batcher *batcher);

/* Sends everything: what is alike shares script calls of up to BATCH_NAMES_MAX names, BATCH_ACQUIRES_MAX to
 * acquire, so that nobody else waits for long behind them. For each node, the order of what is asked of one
 * name is kept. What can't be sent comes back to the shard as cut off. May call the nodes' callbacks; more
 * can be pending afterwards. */
void batcher_flush(struct batcher *batcher, struct redis *const nodes[NODES_MAX], struct shard *shard,
                   instant_ns now_ns);

/* The answer to one script call: gives each of its tickets' votes to the shard. `reply` NULL: cut off. */
void batcher_answered(struct batcher *batcher, struct shard *shard, unsigned node, void *tag,
                      const redisReply *reply, instant_ns now_ns);
