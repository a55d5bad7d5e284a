#include "core/wakeup.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory-layout.h"
#include "core/shard.h"

/* A name with a subscription, or with a request that waits for one. */
struct name {
    struct hash_table_key key;
    struct list link;   /* of idle or to_report, or of none */
    uint64_t request;   /* the request that waits; 0: none, the subscription lingers */
    instant_ns idle_ns; /* when its request ended */
    node_set subscribed;
    instant_ns since_ns[NODES_MAX]; /* since then no message is missed, for the next request */
};

/* --- memory --- */

static size_t text_bytes(uint32_t names_max) {
    return shared_string_pool_bytes(names_max, SHARED_STRING_BYTES_MAX);
}

static size_t lay_out(struct wakeup *wakeup, uint32_t names_max, unsigned char *memory) {
    size_t offset = 0;
    void *names = memory_layout_next(memory, &offset, (size_t) names_max * sizeof(struct name));
    void *buckets =
        memory_layout_next(memory, &offset, (size_t) hash_table_buckets(names_max) * sizeof(uint32_t));
    void *texts = memory_layout_next(memory, &offset, text_bytes(names_max));

    if (memory) {
        hash_table_init(&wakeup->names, names, sizeof(struct name), names_max, buckets, &wakeup->texts);
        shared_string_pool_init(&wakeup->texts, texts, text_bytes(names_max));
    }
    return offset;
}

size_t wakeup_memory_bytes(uint32_t names_max) {
    return lay_out(NULL, names_max, NULL);
}

void wakeup_init(struct wakeup *wakeup, struct shard *shard, unsigned n_nodes, uint32_t names_max,
                 const uint64_t hash_key[2], const struct wakeup_sink *sink, void *memory) {
    assert(n_nodes > 0 && n_nodes <= NODES_MAX && names_max > 0 && memory);

    *wakeup = (struct wakeup){
        .sink = *sink, .shard = shard, .n_nodes = n_nodes, .linger_ns = WAKEUP_LINGER_MS * NS_PER_MS};
    memcpy(wakeup->hash_key, hash_key, sizeof(wakeup->hash_key));
    list_init(&wakeup->idle);
    list_init(&wakeup->to_report);
    (void) lay_out(wakeup, names_max, memory);
}

/* --- the table of names --- */

static struct name *find(const struct wakeup *wakeup, const char *bytes, size_t length) {
    return hash_table_find(&wakeup->names, hash_bytes(wakeup->hash_key, bytes, length), bytes, length);
}

static void drop(struct wakeup *wakeup, struct name *name) {
    list_unlink(&name->link);
    hash_table_remove(&wakeup->names, pool_index(&wakeup->names.pool, struct name, name));
}

static void unsubscribe(struct wakeup *wakeup, struct name *name, instant_ns now_ns) {
    assert(name->request == 0);

    for (unsigned i = 0; i < wakeup->n_nodes; i++)
        if (wakeup->connected & node_set_of(i))
            wakeup->sink.unsubscribe(wakeup->sink.userdata, i, name->key.text);
    drop(wakeup, name);
    wakeup->empty_ns = now_ns;
    wakeup->pending = true;
}

/* If the table is full, drops the name that has lingered for longest. NULL: no memory, and the request
 * polls. */
static struct name *add(struct wakeup *wakeup, uint64_t hash, const struct shared_string *text,
                        instant_ns now_ns) {
    struct list *oldest = list_first(&wakeup->idle);

    if (wakeup->names.pool.taken == wakeup->names.pool.capacity && oldest)
        unsubscribe(wakeup, list_entry(oldest, struct name, link), now_ns);
    struct name *name = hash_table_add(&wakeup->names, hash, text->bytes, text->head_length);
    if (!name)
        return NULL;
    list_init(&name->link);
    for (unsigned i = 0; i < wakeup->n_nodes; i++)
        if (wakeup->connected & node_set_of(i))
            wakeup->sink.subscribe(wakeup->sink.userdata, i, name->key.text);
    return name;
}

/* --- the shard's requests --- */

static void open_nodes(struct wakeup *wakeup) {
    node_set missing = wakeup->ready & (node_set) ~wakeup->open;

    wakeup->open |= missing;
    for (unsigned i = 0; i < wakeup->n_nodes; i++)
        if (missing & node_set_of(i))
            wakeup->sink.open(wakeup->sink.userdata, i);
}

void wakeup_listen(struct wakeup *wakeup, uint64_t request, const struct shared_string *text, bool wanted,
                   instant_ns now_ns) {
    uint64_t hash = hash_bytes(wakeup->hash_key, text->bytes, text->head_length);
    struct name *name = hash_table_find(&wakeup->names, hash, text->bytes, text->head_length);

    assert(request != 0);
    if (!wanted) {
        if (!name || name->request != request)
            return;
        name->request = 0;
        name->idle_ns = now_ns;
        list_unlink(&name->link);
        list_append(&wakeup->idle, &name->link);
        return;
    }
    if (!name)
        name = add(wakeup, hash, text, now_ns);
    if (!name)
        return;
    name->request = request;
    list_unlink(&name->link);
    if (name->subscribed != 0)
        list_append(&wakeup->to_report, &name->link);
    wakeup->pending = true;
    open_nodes(wakeup);
}

void wakeup_settle(struct wakeup *wakeup, instant_ns now_ns) {
    struct list *first;

    wakeup->pending = false;
    while ((first = list_first(&wakeup->to_report))) {
        struct name *name = list_entry(first, struct name, link);
        list_unlink(first);
        for (unsigned i = 0; i < wakeup->n_nodes && name->request != 0; i++)
            if (name->subscribed & node_set_of(i))
                shard_subscribed(wakeup->shard, i, name->request, name->since_ns[i], now_ns);
    }
}

/* --- the nodes --- */

void wakeup_node_ready(struct wakeup *wakeup, unsigned node) {
    wakeup->ready |= node_set_of(node);
    if (wakeup->names.pool.taken > 0)
        open_nodes(wakeup);
}

void wakeup_node_gone(struct wakeup *wakeup, unsigned node, instant_ns now_ns) {
    wakeup->ready &= (node_set) ~node_set_of(node);
    if (!(wakeup->open & node_set_of(node)))
        return;
    wakeup->open &= (node_set) ~node_set_of(node);
    wakeup->sink.close(wakeup->sink.userdata, node);
    wakeup_disconnected(wakeup, node, now_ns);
}

void wakeup_connected(struct wakeup *wakeup, unsigned node) {
    assert(wakeup->open & node_set_of(node));

    wakeup->connected |= node_set_of(node);
    for (uint32_t i = 0; i < wakeup->names.pool.touched; i++) {
        const struct name *name = pool_at(&wakeup->names.pool, i);
        if (name->key.text)
            wakeup->sink.subscribe(wakeup->sink.userdata, node, name->key.text);
    }
    wakeup->pending = true;
}

void wakeup_disconnected(struct wakeup *wakeup, unsigned node, instant_ns now_ns) {
    wakeup->connected &= (node_set) ~node_set_of(node);
    for (uint32_t i = 0; i < wakeup->names.pool.touched; i++) {
        struct name *name = pool_at(&wakeup->names.pool, i);
        name->subscribed &= (node_set) ~node_set_of(node);
    }
    shard_unsubscribed(wakeup->shard, node, now_ns);
}

void wakeup_subscribed(struct wakeup *wakeup, unsigned node, const char *bytes, size_t length,
                       instant_ns now_ns) {
    struct name *name = find(wakeup, bytes, length);

    if (!name)
        return;
    name->subscribed |= node_set_of(node);
    name->since_ns[node] = now_ns;
    if (name->request != 0)
        shard_subscribed(wakeup->shard, node, name->request, now_ns, now_ns);
}

void wakeup_released(struct wakeup *wakeup, unsigned node, const char *bytes, size_t length,
                     instant_ns now_ns) {
    struct name *name = find(wakeup, bytes, length);

    if (!name)
        return;
    if (name->request != 0)
        shard_freed(wakeup->shard, node, name->request, now_ns);
    else
        name->since_ns[node] = now_ns; /* an attempt that has met the key may be under way */
}

void wakeup_left(struct wakeup *wakeup, const char *bytes, size_t length, instant_ns now_ns) {
    const struct name *name = find(wakeup, bytes, length);

    if (name && name->request != 0)
        shard_left(wakeup->shard, name->request, now_ns);
}

/* --- time --- */

void wakeup_tick(struct wakeup *wakeup, instant_ns now_ns) {
    struct list *first;

    while ((first = list_first(&wakeup->idle))) {
        struct name *name = list_entry(first, struct name, link);
        if (now_ns < name->idle_ns + wakeup->linger_ns)
            break;
        unsubscribe(wakeup, name, now_ns);
    }
    if (wakeup->names.pool.taken > 0 || now_ns < wakeup->empty_ns + WAKEUP_CLOSE_MS * NS_PER_MS)
        return;
    for (unsigned i = 0; i < wakeup->n_nodes; i++)
        if (wakeup->open & node_set_of(i))
            wakeup->sink.close(wakeup->sink.userdata, i);
    wakeup->open = wakeup->connected = 0;
}

instant_ns wakeup_due_ns(const struct wakeup *wakeup) {
    const struct list *first = list_first(&wakeup->idle);

    if (first)
        return list_entry(first, const struct name, link)->idle_ns + wakeup->linger_ns;
    return wakeup->names.pool.taken == 0 && wakeup->open != 0
               ? wakeup->empty_ns + WAKEUP_CLOSE_MS * NS_PER_MS
               : INSTANT_NEVER;
}
