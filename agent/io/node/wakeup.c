#include "io/node/wakeup.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/hash.h"
#include "base/list.h"
#include "io/loop/clock.h"
#include "io/loop/loop.h"
#include "io/node/redis.h"
#include "io/node/subscription.h"

enum { LINGER_MS = 1000, CLOSE_MS = 5000, LOOK_MS = 1000, BUCKETS_MIN = 64 };

/* A name that is listened for, or was just now. */
struct ear {
    struct ear *next; /* in its bucket */
    struct list link; /* among the idle ones, longest first; or among those to be told */
    uint64_t hash;
    uint64_t request;   /* that waits for it; 0: none, it lingers */
    instant_ns idle_ns; /* since when */
    node_set joined;
    instant_ns joined_ns[NODES_MAX]; /* since then, nothing that was told was lost on who waits next */
    size_t key_length;
    char key[];
};

struct wakeup {
    const struct config *config;
    struct shard *shard;
    struct subscription *nodes[NODES_MAX];
    const struct redis *redis[NODES_MAX]; /* where one may subscribe now; NULL elsewhere */
    node_set open;
    sd_event_source *timer; /* for what lingers; off when there is nothing */
    bool ticks;
    uint64_t hash_key[2];
    struct ear **buckets;
    size_t n_buckets, n_ears;
    struct list idle, to_tell;
    bool to_flush;
    instant_ns empty_ns; /* since when there is no ear */
};

static void tick_later(struct wakeup *ears) {
    /* Can only fail for want of memory; then nothing would ever be left again. */
    if (!ears->ticks && loop_set_timer(ears->timer, clock_now_ns() + LOOK_MS * NS_PER_MS) < 0)
        abort();
    ears->ticks = true;
}

static void open_nodes(struct wakeup *ears) {
    for (unsigned i = 0; i < ears->config->n_nodes; i++) {
        if (!ears->redis[i] || (ears->open & node_set_of(i)))
            continue;
        subscription_open(ears->nodes[i], ears->redis[i]);
        ears->open |= node_set_of(i);
    }
    tick_later(ears);
}

/* --- the table --- */

static struct ear **place_of(const struct wakeup *ears, uint64_t hash, const char *key, size_t length) {
    struct ear **at = &ears->buckets[hash & (ears->n_buckets - 1)];

    while (*at &&
           ((*at)->hash != hash || (*at)->key_length != length || memcmp((*at)->key, key, length) != 0))
        at = &(*at)->next;
    return at;
}

static struct ear *find(const struct wakeup *ears, const char *key, size_t length) {
    return *place_of(ears, hash_bytes(ears->hash_key, key, length), key, length);
}

static void grow(struct wakeup *ears) {
    size_t n = 2 * ears->n_buckets;
    struct ear **buckets = calloc(n, sizeof(struct ear *));

    if (!buckets)
        abort();
    for (size_t i = 0; i < ears->n_buckets; i++)
        for (struct ear *ear = ears->buckets[i], *next; ear; ear = next) {
            next = ear->next;
            ear->next = buckets[ear->hash & (n - 1)];
            buckets[ear->hash & (n - 1)] = ear;
        }
    free(ears->buckets);
    ears->buckets = buckets;
    ears->n_buckets = n;
}

static struct ear *add(struct wakeup *ears, uint64_t hash, const char *key, size_t length) {
    struct ear *ear = calloc(1, sizeof(*ear) + length);

    if (!ear)
        abort();
    if (ears->n_ears >= ears->n_buckets)
        grow(ears);
    ear->hash = hash;
    ear->key_length = length;
    memcpy(ear->key, key, length);
    list_init(&ear->link);
    struct ear **bucket = &ears->buckets[hash & (ears->n_buckets - 1)];
    ear->next = *bucket;
    *bucket = ear;
    ears->n_ears++;
    for (unsigned i = 0; i < ears->config->n_nodes; i++)
        subscription_join(ears->nodes[i], key, length);
    return ear;
}

static void drop(struct wakeup *ears, struct ear *ear) {
    *place_of(ears, ear->hash, ear->key, ear->key_length) = ear->next;
    list_unlink(&ear->link);
    ears->n_ears--;
    free(ear);
}

/* --- what the shard asks for --- */

static size_t key_of(const struct wakeup *ears, const struct shared_string *name,
                     char key[NAME_BYTES_MAX + 2 * KEY_AFFIX_BYTES_MAX + 1]) {
    size_t prefix = strlen(ears->config->key_prefix), suffix = strlen(ears->config->key_suffix);

    assert(prefix <= KEY_AFFIX_BYTES_MAX && suffix <= KEY_AFFIX_BYTES_MAX);
    assert(name->head_length <= NAME_BYTES_MAX);
    memcpy(key, ears->config->key_prefix, prefix);
    memcpy(key + prefix, name->bytes, name->head_length);
    memcpy(key + prefix + name->head_length, ears->config->key_suffix, suffix);
    return prefix + name->head_length + suffix;
}

void wakeup_listen(struct wakeup *ears, uint64_t request, const struct shared_string *name, bool wanted) {
    char key[NAME_BYTES_MAX + 2 * KEY_AFFIX_BYTES_MAX + 1];
    size_t length = key_of(ears, name, key);
    uint64_t hash = hash_bytes(ears->hash_key, key, length);
    struct ear *ear = *place_of(ears, hash, key, length);

    assert(request != 0);
    if (!wanted) {
        if (!ear || ear->request != request)
            return;
        ear->request = 0;
        ear->idle_ns = clock_now_ns();
        list_unlink(&ear->link);
        list_append(&ears->idle, &ear->link);
        return;
    }
    if (!ear)
        ear = add(ears, hash, key, length);
    ear->request = request;
    list_unlink(&ear->link);
    if (ear->joined != 0)
        list_append(&ears->to_tell, &ear->link);
    ears->to_flush = true;
    open_nodes(ears);
}

/* --- what the nodes say --- */

static void on_up(void *userdata, unsigned node) {
    struct wakeup *ears = userdata;

    for (size_t i = 0; i < ears->n_buckets; i++)
        for (const struct ear *ear = ears->buckets[i]; ear; ear = ear->next)
            subscription_join(ears->nodes[node], ear->key, ear->key_length);
}

static void all_left(struct wakeup *ears, unsigned node) {
    for (size_t i = 0; i < ears->n_buckets; i++)
        for (struct ear *ear = ears->buckets[i]; ear; ear = ear->next)
            ear->joined &= (node_set) ~node_set_of(node);
    shard_deaf(ears->shard, node, clock_now_ns());
}

static void on_down(void *userdata, unsigned node) {
    all_left(userdata, node);
}

static void on_joined(void *userdata, unsigned node, const char *key, size_t length) {
    struct wakeup *ears = userdata;
    struct ear *ear = find(ears, key, length);

    if (!ear)
        return;
    ear->joined |= node_set_of(node);
    ear->joined_ns[node] = clock_now_ns();
    if (ear->request != 0)
        shard_listening(ears->shard, node, ear->request, ear->joined_ns[node], ear->joined_ns[node]);
}

static void on_freed(void *userdata, unsigned node, const char *key, size_t length) {
    struct wakeup *ears = userdata;
    struct ear *ear = find(ears, key, length);

    if (!ear)
        return;
    if (ear->request != 0)
        shard_freed(ears->shard, node, ear->request, clock_now_ns());
    else
        ear->joined_ns[node] = clock_now_ns(); /* an attempt may be under way that has met the key */
}

void wakeup_node_ready(struct wakeup *ears, unsigned node, const struct redis *redis) {
    ears->redis[node] = redis;
    if (ears->n_ears > 0)
        open_nodes(ears);
}

void wakeup_node_gone(struct wakeup *ears, unsigned node) {
    ears->redis[node] = NULL;
    if (!(ears->open & node_set_of(node)))
        return;
    ears->open &= (node_set) ~node_set_of(node);
    subscription_close(ears->nodes[node]);
    all_left(ears, node);
}

/* --- the turns --- */

bool wakeup_pending(const struct wakeup *ears) {
    return ears->to_flush;
}

void wakeup_flush(struct wakeup *ears) {
    struct list *first;

    ears->to_flush = false;
    while ((first = list_first(&ears->to_tell))) {
        struct ear *ear = list_entry(first, struct ear, link);
        list_unlink(first);
        for (unsigned i = 0; i < ears->config->n_nodes && ear->request != 0; i++)
            if (ear->joined & node_set_of(i))
                shard_listening(ears->shard, i, ear->request, ear->joined_ns[i], clock_now_ns());
    }
    for (unsigned i = 0; i < ears->config->n_nodes; i++)
        if (ears->open & node_set_of(i))
            subscription_flush(ears->nodes[i]);
}

static void leave(struct wakeup *ears, struct ear *ear) {
    for (unsigned i = 0; i < ears->config->n_nodes; i++)
        subscription_leave(ears->nodes[i], ear->key, ear->key_length);
    drop(ears, ear);
    ears->to_flush = true;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    struct wakeup *ears = userdata;
    instant_ns now_ns = clock_now_ns();
    struct list *first;

    (void) source;
    (void) usec;
    ears->ticks = false;
    while ((first = list_first(&ears->idle))) {
        struct ear *ear = list_entry(first, struct ear, link);
        if (now_ns - ear->idle_ns < LINGER_MS * NS_PER_MS)
            break;
        leave(ears, ear);
        ears->empty_ns = now_ns;
    }
    if (ears->n_ears > 0 || now_ns - ears->empty_ns < CLOSE_MS * NS_PER_MS) {
        tick_later(ears);
        return 0;
    }
    for (unsigned i = 0; i < ears->config->n_nodes; i++)
        subscription_close(ears->nodes[i]);
    ears->open = 0;
    return 0;
}

int wakeup_new(sd_event *event, struct poller *poller, const struct config *config, struct shard *shard,
               struct wakeup **ret) {
    static const struct subscription_callbacks callbacks = {
        .on_up = on_up, .on_down = on_down, .on_joined = on_joined, .on_freed = on_freed};
    struct wakeup *ears = calloc(1, sizeof(*ears));

    if (!ears)
        return -ENOMEM;
    ears->config = config;
    ears->shard = shard;
    list_init(&ears->idle);
    list_init(&ears->to_tell);
    ears->n_buckets = BUCKETS_MIN;
    ears->buckets = calloc(ears->n_buckets, sizeof(struct ear *));
    int r = ears->buckets ? 0 : -ENOMEM;
    if (r >= 0 && getrandom(ears->hash_key, sizeof(ears->hash_key), 0) != sizeof(ears->hash_key))
        r = -EIO;
    if (r >= 0)
        r = loop_add_timer(event, on_timer, ears, &ears->timer);
    for (unsigned i = 0; i < config->n_nodes && r >= 0; i++)
        r = subscription_new(event, poller, &config->nodes[i], i, &callbacks, ears, &ears->nodes[i]);
    if (r < 0) {
        wakeup_free(ears);
        return r;
    }
    *ret = ears;
    return 0;
}

struct wakeup *wakeup_free(struct wakeup *ears) {
    if (!ears)
        return NULL;
    for (unsigned i = 0; i < NODES_MAX; i++)
        ears->nodes[i] = subscription_free(ears->nodes[i]);
    for (size_t i = 0; ears->buckets && i < ears->n_buckets; i++)
        for (struct ear *ear = ears->buckets[i], *next; ear; ear = next) {
            next = ear->next;
            free(ear);
        }
    free(ears->buckets);
    sd_event_source_disable_unref(ears->timer);
    free(ears);
    return NULL;
}
