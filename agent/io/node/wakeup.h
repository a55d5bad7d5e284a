/* The names for which a keeper listens, on a connection to each node that stands only meanwhile (see
 * io/node/subscription.h). It carries to the shard what is heard.
 *
 * Each keeper has its own: what is heard in the thread that tries next costs no hop between threads, and
 * threads share nothing. A name is listened for a little longer than it is waited for, since where hosts
 * take turns the next wait is near, and then it begins with a subscription that stands. */
#pragma once

#include <stdbool.h>

#include <systemd/sd-event.h>

#include "config/config.h"
#include "core/shard.h"
#include "io/loop/poller.h"

struct wakeup;
struct redis;

/* `config` (nodes, key_format), `poller` and `shard` must outlive it. 0 or a negative errno. */
int wakeup_new(sd_event *event, struct poller *poller, const struct config *config, struct shard *shard,
               struct wakeup **ret);

/* NULL is fine. Returns NULL. */
struct wakeup *wakeup_free(struct wakeup *ears);

/* What the shard asks for. Never calls back. */
void wakeup_listen(struct wakeup *ears, uint64_t request, const struct shared_string *name, bool wanted);

/* The connection for commands: its server lets its user subscribe. And is gone. */
void wakeup_node_ready(struct wakeup *ears, unsigned node, const struct redis *redis);
void wakeup_node_gone(struct wakeup *ears, unsigned node);

/* Whether wakeup_flush() has something to do. */
bool wakeup_pending(const struct wakeup *ears);

/* Sends what is to be sent in one write a node. Calls the shard. */
void wakeup_flush(struct wakeup *ears);
