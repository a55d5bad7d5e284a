/* A keeper's leases and what it believes of the nodes. Pure: it is given the time, the commands and the
 * votes, and gives requests and reports to its sink. Owned by one thread; the simulator drives the same
 * object files.
 *
 * All memory is given at the start, none is allocated later. The sink's functions must not call back into
 * the shard. */
#pragma once

#include "core/node-trust.h"
#include "core/shard-state.h"

/* How much memory shard_init() wants for this configuration. Most of it is never touched. */
size_t shard_memory_bytes(const struct shard_config *config);

/* `memory`: that many zeroed bytes, aligned to 4,096, to be freed by the caller after the shard's last use.
 */
void shard_init(struct shard *shard, const struct shard_config *config, const struct shard_sink *sink,
                void *memory);

void shard_command(struct shard *shard, const struct command *command, instant_ns now_ns);
/* A vote for this ticket is about to come: what it touches may be fetched. */
void shard_expect(const struct shard *shard, uint64_t ticket);

void shard_vote(struct shard *shard, unsigned node, uint64_t ticket, const struct vote *vote,
                instant_ns now_ns);

/* The front goes on from this process's ledger: its leases stand in the front's lines already. */
void shard_succeed(struct shard *shard, const struct shard_predecessor *predecessor);

/* The node is listened to for the request's name, since then. Or for no name any more. */
void shard_listening(struct shard *shard, unsigned node, uint64_t request, instant_ns since_ns,
                     instant_ns now_ns);
void shard_deaf(struct shard *shard, unsigned node, instant_ns now_ns);

/* It tells that the key of the request's name may be gone: a hint. */
void shard_freed(struct shard *shard, unsigned node, uint64_t request, instant_ns now_ns);

/* Does what is due by now. */
void shard_tick(struct shard *shard, instant_ns now_ns);

/* When shard_tick() has something to do. */
instant_ns shard_due_ns(const struct shard *shard);
