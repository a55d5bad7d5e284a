/* The names for which a keeper listens, on a connection to each node that stands only meanwhile (see
 * io/subscription.h). It carries to the shard what is heard.
 *
 * Each keeper has its own: what is heard in the thread that tries next costs no hop between threads, and
 * threads share nothing. A name is listened for a little longer than it is waited for, since where hosts
 * take turns the next wait is near, and then it begins with a subscription that stands. */
#pragma once

#include <stdbool.h>

#include <systemd/sd-event.h>

#include "config/config.h"
#include "core/shard.h"
#include "io/poller.h"

struct ears;
struct redis;

/* `config` (nodes, key_format), `poller` and `shard` must outlive it. 0 or a negative errno. */
int ears_new(sd_event *event, struct poller *poller, const struct config *config, struct shard *shard,
             struct ears **ret);

/* NULL is fine. Returns NULL. */
struct ears *ears_free(struct ears *ears);

/* What the shard asks for. Never calls back. */
void ears_listen(struct ears *ears, uint64_t request, const struct text *name, bool wanted);

/* The connection for commands: its server lets its user subscribe. And is gone. */
void ears_node_ready(struct ears *ears, unsigned node, const struct redis *redis);
void ears_node_gone(struct ears *ears, unsigned node);

/* Whether ears_flush() has something to do. */
bool ears_pending(const struct ears *ears);

/* Sends what is to be sent in one write a node. Calls the shard. */
void ears_flush(struct ears *ears);
