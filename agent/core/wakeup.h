/* The subscriptions of a keeper, by name and node, with their begin: a release wakes the waiting lease.
 *
 * A node publishes a message when it deletes a key (agent/scripts/release.lua, keyspace notifications). A
 * message is a hint: it brings an attempt forward and counts for nothing in it. core/retry.h proves that no
 * wake-up is lost, on two conditions, which this file ensures: since the instant that shard_subscribed()
 * names, each message of that node has reached the shard; and shard_unsubscribed() reports when that ends.
 *
 * A subscription outlives the wait by `linger_ns`: where hosts take turns, the next wait begins soon, and
 * has the subscription from its beginning. Connections for messages open with the first name, and close
 * WAKEUP_CLOSE_MS after the last.
 *
 * Pure: time and events are arguments. All memory is given at the start. Owned by the keeper's thread; the
 * simulator runs the same object file. The sink's functions must not call back. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash-table.h"
#include "base/instant.h"
#include "base/list.h"
#include "core/node-set.h"

enum { WAKEUP_LINGER_MS = 1000, WAKEUP_CLOSE_MS = 5000 };

struct shard;

struct wakeup_sink {
    /* Connect to the node for messages, and connect again after each failure, until `close`. */
    void (*open)(void *userdata, unsigned node);
    void (*close)(void *userdata, unsigned node);
    /* Subscribe to the releases of this name, or no longer. Only while connected. */
    void (*subscribe)(void *userdata, unsigned node, const struct shared_string *name);
    void (*unsubscribe)(void *userdata, unsigned node, const struct shared_string *name);
    void *userdata;
};

struct wakeup {
    struct wakeup_sink sink;
    struct shard *shard;
    unsigned n_nodes;
    node_set ready;     /* nodes on which the agent's user may subscribe */
    node_set open;      /* of them those with a connection, or one under way */
    node_set connected; /* of those the ones that are connected */
    struct hash_table names;
    struct shared_string_pool texts;
    uint64_t hash_key[2];
    struct list idle;      /* names without a request, longest first */
    struct list to_report; /* names whose request begins with a subscription */
    int64_t linger_ns;     /* WAKEUP_LINGER_MS; a test may have less */
    instant_ns empty_ns;   /* when the last name was removed */
    bool pending;
};

/* The memory that wakeup_init() needs for that many names. Most of it is never touched. */
size_t wakeup_memory_bytes(uint32_t names_max);

/* `names_max`: requests that can wait at a time. `hash_key`: random. `memory`: wakeup_memory_bytes() zeroed
 * bytes, aligned to 4,096. `shard` and `memory` must outlive it. */
void wakeup_init(struct wakeup *wakeup, struct shard *shard, unsigned n_nodes, uint32_t names_max,
                 const uint64_t hash_key[2], const struct wakeup_sink *sink, void *memory);

/* The shard's request to listen for a name, or no longer (shard_sink.listen). Does not call the shard. */
void wakeup_listen(struct wakeup *wakeup, uint64_t request, const struct shared_string *name, bool wanted,
                   instant_ns now_ns);

/* A node is ready for commands, and the agent's user may subscribe there; or no longer. */
void wakeup_node_ready(struct wakeup *wakeup, unsigned node);
void wakeup_node_gone(struct wakeup *wakeup, unsigned node, instant_ns now_ns);

/* The connection that `open` requested is made, without any subscription; or it broke. */
void wakeup_connected(struct wakeup *wakeup, unsigned node);
void wakeup_disconnected(struct wakeup *wakeup, unsigned node, instant_ns now_ns);

/* The node confirmed a subscription; it published that the name's key is deleted or has expired. Names
 * without a request are ignored. */
void wakeup_subscribed(struct wakeup *wakeup, unsigned node, const char *name, size_t length,
                       instant_ns now_ns);
void wakeup_released(struct wakeup *wakeup, unsigned node, const char *name, size_t length,
                     instant_ns now_ns);

/* To be called before wakeup_released() if the message was "left": the name is left to other programs for a
 * moment. */
void wakeup_left(struct wakeup *wakeup, const char *name, size_t length, instant_ns now_ns);

/* Whether wakeup_settle() has something to do, or the sink's owner something to send. */
static inline bool wakeup_pending(const struct wakeup *wakeup) {
    return wakeup->pending;
}

/* Reports to the shard the subscriptions with which requests begin. Call at the end of each turn. */
void wakeup_settle(struct wakeup *wakeup, instant_ns now_ns);

/* Ends subscriptions and connections that have lingered for long enough. Returns when to call next, or
 * INSTANT_NEVER. */
void wakeup_tick(struct wakeup *wakeup, instant_ns now_ns);
instant_ns wakeup_due_ns(const struct wakeup *wakeup);
