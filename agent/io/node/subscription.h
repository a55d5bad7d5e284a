/* One keeper's connection to one node for messages, beside the one for commands: in RESP2 a connection that
 * is subscribed can do nothing else. It stands only while somebody waits, connects anew with back-off, and
 * asks for a channel of its own from time to time, so that one that is dead shows.
 *
 * Built on hiredis' contexts and reader, without its asynchronous half: that one keeps books on channels of
 * its own, which in 0.14 are wrong when a channel is left and joined again, and takes no other command in
 * between. Writing is deferred to subscription_flush(), as in redis.h. Its server is the one that the other
 * connection has found. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <systemd/sd-event.h>

#include "config/config.h"
#include "io/loop/poller.h"

struct redis;
struct subscription;

struct subscription_callbacks {
    /* It stands, with no key joined. Or no more, and every key is left. */
    void (*on_up)(void *userdata, unsigned node);
    void (*on_down)(void *userdata, unsigned node);
    /* From now on the node tells when this key is gone; now it does. Keys are as on the node, and may be
     * none that was asked for. */
    void (*on_joined)(void *userdata, unsigned node, const char *key, size_t length);
    void (*on_freed)(void *userdata, unsigned node, const char *key, size_t length);
};

/* Without a connection. `poller` and `config_node` must outlive it. 0 or a negative errno. */
int subscription_new(sd_event *event, struct poller *poller, const struct config_node *config_node,
                     unsigned node, const struct subscription_callbacks *callbacks, void *userdata,
                     struct subscription **ret);

/* NULL is fine. Returns NULL. */
struct subscription *subscription_free(struct subscription *subscription);

/* Connects soon, to the server of `redis`, which is ready and lets its user subscribe; nothing happens when
 * that is so already. */
void subscription_open(struct subscription *subscription, const struct redis *redis);

/* Closes at once, without on_down(). */
void subscription_close(struct subscription *subscription);

bool subscription_is_up(const struct subscription *subscription);

/* Queues the key; nothing happens when it is not up. */
void subscription_join(struct subscription *subscription, const char *key, size_t length);
void subscription_leave(struct subscription *subscription, const char *key, size_t length);

/* Sends what is queued, in one write as far as the socket takes it: what is left before what is joined. May
 * call on_down(). */
void subscription_flush(struct subscription *subscription);
