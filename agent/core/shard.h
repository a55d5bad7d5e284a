/* A shard: the leases of one keeper, and its trust in the nodes. Passes each event to its lease, leader
 * query or node.
 *
 * Pure: time, commands and votes come as arguments; requests and reports go to the sink, whose functions
 * must not call the shard. Memory is given at the start, and none is allocated later. For one thread; the
 * simulator runs the same object files. */
#pragma once

#include "core/node-trust.h"
#include "core/shard-state.h"

/* The memory for this configuration. Most of it is never touched. */
size_t shard_memory_bytes(const struct shard_config *config);

/* `memory`: zeroed, aligned to 4,096. The caller frees it after the last use of the shard. */
void shard_init(struct shard *shard, const struct shard_config *config, const struct shard_sink *sink,
                void *memory);

void shard_command(struct shard *shard, const struct command *command, instant_ns now_ns);

/* Prefetches the lease of this ticket, whose vote follows soon. */
void shard_expect(const struct shard *shard, uint64_t ticket);

void shard_vote(struct shard *shard, unsigned node, uint64_t ticket, const struct vote *vote,
                instant_ns now_ns);

/* The front has the leases of these former processes: their other keys are orphans (core/foreign-key.h). */
void shard_succeed(struct shard *shard, const struct shard_predecessors *predecessors);

/* A subscription to the request's name began at `since_ns`; all subscriptions on the node have ended. */
void shard_subscribed(struct shard *shard, unsigned node, uint64_t request, instant_ns since_ns,
                      instant_ns now_ns);
void shard_unsubscribed(struct shard *shard, unsigned node, instant_ns now_ns);

/* A message on the node: the key of the request's name may be gone. */
void shard_freed(struct shard *shard, unsigned node, uint64_t request, instant_ns now_ns);

/* To be called before shard_freed() if the message was "left": the name is left to other programs for a
 * moment. */
void shard_left(struct shard *shard, uint64_t request, instant_ns now_ns);

/* Does what is due. */
void shard_tick(struct shard *shard, instant_ns now_ns);

/* When shard_tick() is due. */
instant_ns shard_due_ns(const struct shard *shard);
