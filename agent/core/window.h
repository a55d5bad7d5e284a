/* How much is under way to the nodes at a time.
 *
 * A node answers in order, so each request waits for all that were sent before it. Therefore what is under
 * way is bounded, with more room for what matters more: no attempt begins at a node with `attempts_max`
 * names under way; no release, and no extension, is sent to a node with twice as many; and an extension of a
 * lease that ends within WINDOW_URGENT_MS is sent as long as there are fewer than four times as many. So
 * nothing waits at a node for longer than the node takes for that: tens of milliseconds.
 *
 * Releases that are held back wait in shard->backlog, and go when answers come, as long as fewer names than
 * half of `attempts_max` are under way: a session that ends with very many leases leaves room for others.
 * Attempts and extensions that are held back try again at places of one queue. Places are moments,
 * WINDOW_STEP_NS apart: so a place costs no memory, and a lease that is withdrawn leaves no trace. A request
 * that does not wait fails if it has been held back for two time-outs of its nodes.
 *
 * A slow node (core/node.h) is asked for nothing but extensions, as long as a majority is prompt: what it is
 * owed waits until it is prompt again. Time-outs of nodes begin when the request is sent.
 *
 * A failed attempt or a lease that was let go is *owed* to nodes which have not confirmed its end. This is
 * an optimisation beyond the keys' ttl, so the oldest such record gives way when a request needs its slot.
 */
#pragma once

#include <stdbool.h>

#include "core/event.h"

enum { WINDOW_URGENT_MS = 1500 };

struct lease;
struct shard;

/* The nodes that an attempt asks now; none: it is held back. At least a majority can be asked. */
node_set window_for_attempt(const struct shard *shard, instant_ns now_ns);

/* The nodes that an extension goes to now; none: it is held back. At least one can be asked. */
node_set window_for_extension(const struct shard *shard, const struct lease *lease, instant_ns now_ns);

/* Those of `nodes` that a release is sent to now. */
node_set window_for_release(const struct shard *shard, node_set nodes, instant_ns now_ns);

/* The same for one from the backlog. */
node_set window_for_backlog(const struct shard *shard, node_set nodes, instant_ns now_ns);

/* Those of `nodes` for which it is worth waiting: they have no room now, and are not slow. */
node_set window_is_full(const struct shard *shard, node_set nodes, instant_ns now_ns);

/* Those of `nodes` that are not slow. */
node_set window_prompt(const struct shard *shard, node_set nodes);

/* The next place in the queue. */
instant_ns window_place_ns(struct shard *shard, instant_ns now_ns);
