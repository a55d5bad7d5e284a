#include "io/node/subscriber.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "core/wakeup.h"
#include "io/loop/clock.h"
#include "io/loop/loop.h"
#include "io/node/key-format.h"
#include "io/node/redis.h"
#include "io/node/subscription.h"

struct subscriber {
    const struct config *config;
    struct wakeup wakeup;
    void *memory; /* the wakeup's */
    size_t memory_bytes;
    struct subscription *nodes[NODES_MAX];
    const struct redis *redis[NODES_MAX]; /* the connections for commands, while they are ready */
    sd_event_source *timer;
    instant_ns timer_ns;
};

static void set_timer(struct subscriber *subscriber) {
    instant_ns due_ns = wakeup_due_ns(&subscriber->wakeup);

    if (due_ns >= subscriber->timer_ns)
        return;
    subscriber->timer_ns = due_ns;
    /* Fails only without memory; then no subscription would ever end. */
    if (loop_set_timer(subscriber->timer, due_ns) < 0)
        abort();
}

/* --- names and keys --- */

static size_t key_of(const struct subscriber *subscriber, const struct shared_string *name,
                     char key[static KEY_FORMAT_KEY_BYTES_MAX]) {
    return key_format_put(subscriber->config->key_prefix, subscriber->config->key_suffix, name->bytes,
                          name->head_length, key);
}

/* False for a key that is none of ours. */
static bool name_of(const struct subscriber *subscriber, const char *key, size_t length, const char **ret,
                    size_t *ret_length) {
    return key_format_name(subscriber->config->key_prefix, subscriber->config->key_suffix, key, length, ret,
                           ret_length);
}

/* --- the wake-up's requests --- */

static void open_node(void *userdata, unsigned node) {
    struct subscriber *subscriber = userdata;

    subscription_open(subscriber->nodes[node], subscriber->redis[node]);
}

static void close_node(void *userdata, unsigned node) {
    struct subscriber *subscriber = userdata;

    subscription_close(subscriber->nodes[node]);
}

static void subscribe(void *userdata, unsigned node, const struct shared_string *name) {
    struct subscriber *subscriber = userdata;
    char key[KEY_FORMAT_KEY_BYTES_MAX];

    subscription_join(subscriber->nodes[node], key, key_of(subscriber, name, key));
}

static void unsubscribe(void *userdata, unsigned node, const struct shared_string *name) {
    struct subscriber *subscriber = userdata;
    char key[KEY_FORMAT_KEY_BYTES_MAX];

    subscription_leave(subscriber->nodes[node], key, key_of(subscriber, name, key));
}

/* --- the subscriptions' events --- */

static void on_up(void *userdata, unsigned node) {
    struct subscriber *subscriber = userdata;

    wakeup_connected(&subscriber->wakeup, node);
}

static void on_down(void *userdata, unsigned node) {
    struct subscriber *subscriber = userdata;

    wakeup_disconnected(&subscriber->wakeup, node, clock_now_ns());
}

static void on_joined(void *userdata, unsigned node, const char *key, size_t length) {
    struct subscriber *subscriber = userdata;
    const char *name;

    if (name_of(subscriber, key, length, &name, &length))
        wakeup_subscribed(&subscriber->wakeup, node, name, length, clock_now_ns());
}

static void on_freed(void *userdata, unsigned node, const char *key, size_t length, bool left) {
    struct subscriber *subscriber = userdata;
    const char *name;

    if (!name_of(subscriber, key, length, &name, &length))
        return;
    if (left)
        wakeup_left(&subscriber->wakeup, name, length, clock_now_ns());
    wakeup_released(&subscriber->wakeup, node, name, length, clock_now_ns());
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    struct subscriber *subscriber = userdata;

    (void) source;
    (void) usec;
    subscriber->timer_ns = INSTANT_NEVER;
    wakeup_tick(&subscriber->wakeup, clock_now_ns());
    set_timer(subscriber);
    return 0;
}

/* --- the keeper's calls --- */

void subscriber_listen(struct subscriber *subscriber, uint64_t request, const struct shared_string *name,
                       bool wanted) {
    wakeup_listen(&subscriber->wakeup, request, name, wanted, clock_now_ns());
    set_timer(subscriber);
}

void subscriber_node_ready(struct subscriber *subscriber, unsigned node, const struct redis *redis) {
    subscriber->redis[node] = redis;
    wakeup_node_ready(&subscriber->wakeup, node);
}

void subscriber_node_gone(struct subscriber *subscriber, unsigned node) {
    wakeup_node_gone(&subscriber->wakeup, node, clock_now_ns());
}

bool subscriber_pending(const struct subscriber *subscriber) {
    return wakeup_pending(&subscriber->wakeup);
}

void subscriber_flush(struct subscriber *subscriber) {
    wakeup_settle(&subscriber->wakeup, clock_now_ns());
    for (unsigned i = 0; i < subscriber->config->n_nodes; i++)
        if (subscriber->wakeup.open & node_set_of(i))
            subscription_flush(subscriber->nodes[i]);
}

int subscriber_new(sd_event *event, struct poller *poller, const struct config *config, struct shard *shard,
                   uint32_t requests_max, struct subscriber **ret) {
    static const struct subscription_callbacks callbacks = {
        .on_up = on_up, .on_down = on_down, .on_joined = on_joined, .on_freed = on_freed};
    struct subscriber *subscriber = calloc(1, sizeof(*subscriber));
    uint64_t hash_key[2];

    if (!subscriber)
        return -ENOMEM;
    const struct wakeup_sink sink = {.open = open_node,
                                     .close = close_node,
                                     .subscribe = subscribe,
                                     .unsubscribe = unsubscribe,
                                     .userdata = subscriber};
    subscriber->config = config;
    subscriber->timer_ns = INSTANT_NEVER;
    subscriber->memory_bytes = wakeup_memory_bytes(requests_max);
    subscriber->memory = loop_reserve(subscriber->memory_bytes);
    int r = subscriber->memory ? 0 : -ENOMEM;
    if (r >= 0 && getrandom(hash_key, sizeof(hash_key), 0) != sizeof(hash_key))
        r = -EIO;
    if (r >= 0) {
        wakeup_init(&subscriber->wakeup, shard, config->n_nodes, requests_max, hash_key, &sink,
                    subscriber->memory);
        r = loop_add_timer(event, on_timer, subscriber, &subscriber->timer);
    }
    for (unsigned i = 0; i < config->n_nodes && r >= 0; i++)
        r = subscription_new(event, poller, &config->nodes[i], i, &callbacks, subscriber,
                             &subscriber->nodes[i]);
    if (r < 0) {
        subscriber_free(subscriber);
        return r;
    }
    *ret = subscriber;
    return 0;
}

struct subscriber *subscriber_free(struct subscriber *subscriber) {
    if (!subscriber)
        return NULL;
    for (unsigned i = 0; i < NODES_MAX; i++)
        subscriber->nodes[i] = subscription_free(subscriber->nodes[i]);
    sd_event_source_disable_unref(subscriber->timer);
    if (subscriber->memory)
        (void) munmap(subscriber->memory, subscriber->memory_bytes);
    free(subscriber);
    return NULL;
}
