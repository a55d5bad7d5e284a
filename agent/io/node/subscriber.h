/* A keeper's subscriptions: connects core/wakeup.h with a connection for messages to each node
 * (io/node/subscription.h). Names become keys here (key_format), and keys names.
 *
 * Each keeper has its own, so a message reaches the waiting lease without a hop between threads. Belongs to
 * the keeper's thread. */
#pragma once

#include <stdbool.h>

#include <systemd/sd-event.h>

#include "config/config.h"
#include "core/shard.h"
#include "io/loop/poller.h"

struct redis;
struct subscriber;

/* `config` (nodes, key_format), `poller` and `shard` must outlive it. `requests_max`: requests that can wait
 * at a time. 0 or a negative errno. */
int subscriber_new(sd_event *event, struct poller *poller, const struct config *config, struct shard *shard,
                   uint32_t requests_max, struct subscriber **ret);

/* NULL is fine. Returns NULL. */
struct subscriber *subscriber_free(struct subscriber *subscriber);

/* The shard's request to listen (shard_sink.listen). Never calls back. */
void subscriber_listen(struct subscriber *subscriber, uint64_t request, const struct shared_string *name,
                       bool wanted);

/* The connection for commands is ready, and its server lets the user subscribe. Or it is gone. */
void subscriber_node_ready(struct subscriber *subscriber, unsigned node, const struct redis *redis);
void subscriber_node_gone(struct subscriber *subscriber, unsigned node);

/* Whether subscriber_flush() has something to do. */
bool subscriber_pending(const struct subscriber *subscriber);

/* Sends the queued commands in one write a node. Calls the shard. */
void subscriber_flush(struct subscriber *subscriber);
