/* The window: how many names are under way to a node at a time (as in flow control of a transport).
 *
 * A node answers in order, so each request waits for all earlier ones. Therefore the names under way to a
 * node are bounded, with more room for what matters more: below `attempts_max`, all is sent; below twice as
 * many, releases and extensions; below four times as many, extensions of leases that end within
 * WINDOW_URGENT_MS. A full window takes a node tens of milliseconds.
 *
 * Releases that are held back wait in shard->backlog. They are sent as answers arrive, while fewer names
 * than half of `attempts_max` are under way: a session that ends with very many leases leaves room for
 * others. Attempts and extensions that are held back try again at a place in one queue. Places are instants
 * WINDOW_STEP_NS apart, so a place takes no memory, and needs no removal. A request that does not wait fails
 * after two node time-outs without a place.
 *
 * A slow node (core/node.h) gets nothing but extensions while a majority is prompt: releases wait until the
 * node is prompt again, since the prompt majority frees the name. Without a prompt majority slow nodes count
 * as prompt ones: attempts and releases need them. A node time-out starts when the request is sent.
 *
 * A release is *owed* to the nodes that have not confirmed it. Keys end by their ttl anyway, so the oldest
 * owed release is dropped when a new request needs the slot; or, if none is owed, a lease whose keys wait
 * for the end of their cooldown. */
#pragma once

#include "core/event.h"

enum { WINDOW_URGENT_MS = 1500 };

struct lease;
struct shard;

/* The nodes for an attempt; none: the attempt is held back. At least a majority can be asked. */
node_set window_for_attempt(const struct shard *shard, instant_ns now_ns);

/* The nodes for a leader query; none: it is held back. At least a majority can be asked. Only full nodes are
 * left out: each of the others may have the vote that decides. */
node_set window_for_query(const struct shard *shard, instant_ns now_ns);

/* The nodes for an extension; none: the extension is held back. At least one can be asked. */
node_set window_for_extension(const struct shard *shard, const struct lease *lease, instant_ns now_ns);

/* The nodes of these that have room for a release. */
node_set window_for_release(const struct shard *shard, node_set nodes, instant_ns now_ns);

/* The same for a release from the backlog. */
node_set window_for_backlog(const struct shard *shard, node_set nodes, instant_ns now_ns);

/* The nodes of these that will have room soon: no room now, but prompt. */
node_set window_is_full(const struct shard *shard, node_set nodes, instant_ns now_ns);

/* The nodes of these that are prompt, or count as such. */
node_set window_prompt(const struct shard *shard, node_set nodes);

/* The next place in the queue. */
instant_ns window_place_ns(struct shard *shard, instant_ns now_ns);
