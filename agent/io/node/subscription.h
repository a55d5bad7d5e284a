/* A keeper's connection to a node for messages, beside the one for commands: in RESP2 a subscribed
 * connection can do nothing else. It is open only while a name is listened for, reconnects with back-off,
 * and detects a dead server by subscribing to a channel of its own every few seconds.
 *
 * Uses hiredis' contexts and reader, but not its asynchronous half, whose table of channels is wrong in 0.14
 * when a channel is left and joined again. Writing is deferred to subscription_flush(), as in redis.h. The
 * connection goes to the same server as that for commands. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <systemd/sd-event.h>

#include "config/config.h"
#include "io/loop/poller.h"

struct redis;
struct subscription;

struct subscription_callbacks {
    /* Connected, without any subscription. Or disconnected, and every subscription has ended. */
    void (*on_up)(void *userdata, unsigned node);
    void (*on_down)(void *userdata, unsigned node);
    /* The node confirmed the subscription to this key; it published that the key is gone. Keys are as on the
     * node; a key may be one that was not asked for. */
    void (*on_joined)(void *userdata, unsigned node, const char *key, size_t length);
    void (*on_freed)(void *userdata, unsigned node, const char *key, size_t length, bool left);
};

/* Closed at first. `poller` and `config_node` must outlive it. 0 or a negative errno. */
int subscription_new(sd_event *event, struct poller *poller, const struct config_node *config_node,
                     unsigned node, const struct subscription_callbacks *callbacks, void *userdata,
                     struct subscription **ret);

/* NULL is fine. Returns NULL. */
struct subscription *subscription_free(struct subscription *subscription);

/* Connects to the server of `redis`, which is ready and permits its user to subscribe. Nothing happens when
 * it is open already. */
void subscription_open(struct subscription *subscription, const struct redis *redis);

/* Closes at once, without on_down(). */
void subscription_close(struct subscription *subscription);

/* Queues the key; nothing happens while disconnected. */
void subscription_join(struct subscription *subscription, const char *key, size_t length);
void subscription_leave(struct subscription *subscription, const char *key, size_t length);

/* Sends what is queued, in one write as far as the socket takes bytes: UNSUBSCRIBE before SUBSCRIBE. May
 * call on_down(). */
void subscription_flush(struct subscription *subscription);
