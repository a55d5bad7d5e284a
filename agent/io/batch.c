#include "io/batch.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/votes.h"

enum { TOKEN_DIGITS = 20 };

/* One request of this turn: where its key and value lie in the arena. */
struct item {
    enum operation operation;
    bool quiet;
    node_set nodes;
    uint64_t ticket;
    size_t key_offset, key_length;
    size_t value_offset, value_length;
    size_t ttl_offset, ttl_length;
    size_t fence_offset, fence_length; /* the fence key; no length: no fencing */
    size_t token_offset, token_length;
    size_t last_offset, last_length;     /* of its block; no length: it is alone */
    size_t former_offset, former_length; /* another value that may stand there; no length: none */
};

/* One script call under way: the tickets of its names, in order. */
struct batch {
    struct batch *next;     /* in a free list, or among the bounced */
    struct batch *next_all; /* of all that were ever made */
    unsigned node;
    enum operation operation;
    uint32_t count;
    uint32_t room;
    instant_ns sent_ns;
    uint64_t tickets[];
};

struct batcher {
    const struct config *config;
    char identity[IDENTITY_BYTES_MAX + 1]; /* ":host:agent:" */
    size_t identity_length;
    char skew_us[TOKEN_DIGITS], retention_ms[TOKEN_DIGITS];
    char *arena;
    size_t arena_used, arena_room;
    struct item *items;
    size_t n_items, items_room;
    struct batch *free_singles, *free_full;
    struct batch *bounced; /* could not be sent */
    struct batch *all;
    node_set cut;
};

int batcher_new(const struct config *config, const char *agent_id, struct batcher **ret) {
    struct batcher *batcher = calloc(1, sizeof(*batcher));

    if (!batcher)
        return -ENOMEM;
    batcher->config = config;
    int length =
        snprintf(batcher->identity, sizeof(batcher->identity), ":%.64s:%s:", config->host, agent_id);
    assert(length > 0 && (size_t) length < sizeof(batcher->identity));
    batcher->identity_length = (size_t) length;
    (void) snprintf(batcher->skew_us, sizeof(batcher->skew_us), "%lld",
                    (long long) config->fence_skew_ms * 1000);
    (void) snprintf(batcher->retention_ms, sizeof(batcher->retention_ms), "%lld",
                    (long long) config->fence_retention_ms);
    *ret = batcher;
    return 0;
}

struct batcher *batcher_free(struct batcher *batcher) {
    if (!batcher)
        return NULL;
    while (batcher->all) {
        struct batch *batch = batcher->all;
        batcher->all = batch->next_all;
        free(batch);
    }
    free(batcher->items);
    free(batcher->arena);
    free(batcher);
    return NULL;
}

/* --- collecting --- */

/* Grows to the largest turn seen, then never again. Out of memory a lease could not be kept: better to start
 * anew. */
static void *grow(void *memory, size_t *room, size_t wanted, size_t each) {
    size_t larger = *room ? *room : 64;

    if (wanted <= *room)
        return memory;
    while (larger < wanted)
        larger *= 2;
    memory = reallocarray(memory, larger, each);
    if (!memory)
        abort();
    *room = larger;
    return memory;
}

static size_t put(struct batcher *batcher, const void *bytes, size_t length) {
    size_t offset = batcher->arena_used;

    batcher->arena = grow(batcher->arena, &batcher->arena_room, offset + length, 1);
    if (length > 0)
        memcpy(batcher->arena + offset, bytes, length);
    batcher->arena_used += length;
    return offset;
}

/* Returns where it is; its end is the arena's. */
static size_t put_value(struct batcher *batcher, const uint8_t *secret, const struct text *text,
                        bool orphan) {
    static const char digits[] = "0123456789abcdef";
    char hex[2 * SECRET_BYTES];

    for (unsigned i = 0; i < SECRET_BYTES; i++) {
        hex[2 * i] = digits[secret[i] >> 4];
        hex[2 * i + 1] = digits[secret[i] & 15];
    }
    size_t offset = put(batcher, hex, sizeof(hex));
    if (!orphan)
        (void) put(batcher, batcher->identity, batcher->identity_length);
    (void) put(batcher, text_tail(text), text->tail_length);
    return offset;
}

static size_t put_integer(struct batcher *batcher, int64_t number, size_t *ret_length) {
    char text[TOKEN_DIGITS + 4];
    int length = snprintf(text, sizeof(text), "%lld", (long long) number);

    assert(length > 0 && (size_t) length < sizeof(text));
    *ret_length = (size_t) length;
    return put(batcher, text, (size_t) length);
}

/* The name's key, behind `prefix`. */
static size_t put_key(struct batcher *batcher, const char *prefix, const struct send *send) {
    size_t offset = put(batcher, prefix, strlen(prefix));

    (void) put(batcher, batcher->config->key_prefix, strlen(batcher->config->key_prefix));
    (void) put(batcher, send->text->bytes, send->text->head_length);
    (void) put(batcher, batcher->config->key_suffix, strlen(batcher->config->key_suffix));
    return offset;
}

static void put_fence(struct batcher *batcher, struct item *item, const struct send *send) {
    item->fence_offset = put_key(batcher, REDIS_FENCE_KEY, send);
    item->fence_length = batcher->arena_used - item->fence_offset;
    item->token_offset = put_integer(batcher, send->token, &item->token_length);
    if (send->token_last > send->token || send->operation == OPERATION_REFRESH)
        item->last_offset = put_integer(batcher, send->token_last, &item->last_length);
}

/* Goes with the epoch, and its answer tells the time: whatever changes a key but releases. */
static bool is_guarded(enum operation operation) {
    return operation != OPERATION_RELEASE && operation != OPERATION_LOOK;
}

void batcher_add(struct batcher *batcher, const struct send *send) {
    struct item item = {
        .operation = send->operation, .quiet = send->quiet, .nodes = send->nodes, .ticket = send->ticket};

    item.key_offset = put_key(batcher, "", send);
    item.key_length = batcher->arena_used - item.key_offset;
    if (send->operation != OPERATION_LOOK) {
        item.value_offset = put_value(batcher, send->secret, send->text, send->orphan);
        item.value_length = batcher->arena_used - item.value_offset;
    }
    if (send->former && (send->operation == OPERATION_REFRESH || send->operation == OPERATION_RELEASE)) {
        item.former_offset = put_value(batcher, send->former, send->former_text, false);
        item.former_length = batcher->arena_used - item.former_offset;
    }
    if (is_guarded(send->operation) && send->operation != OPERATION_RAISE)
        item.ttl_offset = put_integer(batcher, send->ttl_ms, &item.ttl_length);
    if (send->token != 0 && send->operation != OPERATION_EXTEND && send->operation != OPERATION_RELEASE &&
        send->operation != OPERATION_ADOPT)
        put_fence(batcher, &item, send);
    batcher->items = grow(batcher->items, &batcher->items_room, batcher->n_items + 1, sizeof(item));
    batcher->items[batcher->n_items++] = item;
}

void batcher_cut(struct batcher *batcher, unsigned node) {
    batcher->cut |= node_set_of(node);
}

bool batcher_pending(const struct batcher *batcher) {
    return batcher->n_items > 0 || batcher->cut != 0 || batcher->bounced;
}

/* --- sending --- */

static bool shares_calls(enum operation operation) {
    return operation == OPERATION_EXTEND || operation == OPERATION_RELEASE || operation == OPERATION_ADOPT;
}

static struct batch *batch_new(struct batcher *batcher, uint32_t count) {
    struct batch **list = count == 1 ? &batcher->free_singles : &batcher->free_full;
    struct batch *batch = *list;

    if (batch) {
        *list = batch->next;
        return batch;
    }
    uint32_t room = count == 1 ? 1 : BATCH_NAMES_MAX;
    batch = malloc(sizeof(*batch) + room * sizeof(batch->tickets[0]));
    if (!batch)
        abort();
    batch->room = room;
    batch->next_all = batcher->all;
    batcher->all = batch;
    return batch;
}

static void batch_give(struct batcher *batcher, struct batch *batch) {
    struct batch **list = batch->room == 1 ? &batcher->free_singles : &batcher->free_full;

    batch->next = *list;
    *list = batch;
}

static enum redis_script script_of(enum operation operation) {
    static const enum redis_script scripts[] = {
        [OPERATION_ACQUIRE] = SCRIPT_ACQUIRE, [OPERATION_RAISE] = SCRIPT_RAISE,
        [OPERATION_EXTEND] = SCRIPT_EXTEND,   [OPERATION_REFRESH] = SCRIPT_REFRESH,
        [OPERATION_RELEASE] = SCRIPT_RELEASE, [OPERATION_LOOK] = SCRIPT_LOOK,
        [OPERATION_ADOPT] = SCRIPT_ADOPT,
    };
    return scripts[operation];
}

static bool goes_along(const struct item *item, const struct item *first) {
    return shares_calls(item->operation) && item->operation == first->operation &&
           item->quiet == first->quiet && (item->former_length > 0) == (first->former_length > 0);
}

static struct redis_item piece(const struct batcher *batcher, size_t offset, size_t length) {
    return (struct redis_item){batcher->arena + offset, length};
}

static struct redis_item word(const char *text) {
    return (struct redis_item){text, strlen(text)};
}

static const char *last_word(const char *text) {
    const char *blank = strrchr(text, ' ');
    return blank ? blank + 1 : text;
}

/* Keys, then values, then ttls or the token, as far as the operation has them. What grants or extends goes
 * with the epoch, and what grants with the fence. */
static void send_call(struct batcher *batcher, struct redis *redis, const struct item *const *items,
                      uint32_t count, instant_ns now_ns) {
    struct redis_item arguments[3 * BATCH_NAMES_MAX + 10];
    const struct item *first = items[0];
    enum operation operation = first->operation;
    struct batch *batch = batch_new(batcher, count);
    bool guarded = is_guarded(operation);
    size_t n = 0;

    for (uint32_t i = 0; i < count; i++)
        arguments[n++] = piece(batcher, items[i]->key_offset, items[i]->key_length);
    if (guarded)
        arguments[n++] = word(REDIS_EPOCH_KEY);
    if (first->fence_length > 0)
        arguments[n++] = piece(batcher, first->fence_offset, first->fence_length);
    size_t n_keys = n;
    for (uint32_t i = 0; i < count && operation != OPERATION_LOOK; i++)
        arguments[n++] = piece(batcher, items[i]->value_offset, items[i]->value_length);
    for (uint32_t i = 0; i < count && operation == OPERATION_RELEASE && first->former_length > 0; i++)
        arguments[n++] = piece(batcher, items[i]->former_offset, items[i]->former_length);
    for (uint32_t i = 0; i < count && items[i]->ttl_length > 0; i++)
        arguments[n++] = piece(batcher, items[i]->ttl_offset, items[i]->ttl_length);
    if (operation == OPERATION_RELEASE)
        arguments[n++] = word(first->quiet || !redis_rights(redis)->listen ? "" : REDIS_FREE_CHANNEL);
    if (operation == OPERATION_RAISE)
        arguments[n++] = piece(batcher, first->token_offset, first->token_length);
    if (guarded)
        arguments[n++] = word(redis_epoch(redis));
    if (operation == OPERATION_REFRESH)
        arguments[n++] = piece(batcher, first->former_offset, first->former_length);
    if ((operation == OPERATION_ACQUIRE || operation == OPERATION_REFRESH) && first->fence_length > 0)
        arguments[n++] = piece(batcher, first->token_offset, first->token_length);
    if ((operation == OPERATION_ACQUIRE || operation == OPERATION_RAISE) && first->fence_length > 0) {
        arguments[n++] = word(last_word(redis_epoch(redis)));
        arguments[n++] = word(batcher->skew_us);
        arguments[n++] = word(batcher->retention_ms);
    }
    if (first->last_length > 0)
        arguments[n++] = piece(batcher, first->last_offset, first->last_length);
    if (operation == OPERATION_REFRESH && first->fence_length > 0)
        arguments[n++] = word(batcher->retention_ms);
    batch->operation = operation;
    batch->count = count;
    for (uint32_t i = 0; i < count; i++)
        batch->tickets[i] = items[i]->ticket;
    batch->node = redis_index(redis);
    batch->sent_ns = now_ns;
    if (redis_send(redis, script_of(operation), arguments, n_keys, n - n_keys, batch) < 0) {
        batch->next = batcher->bounced;
        batcher->bounced = batch;
    }
}

static void send_to_node(struct batcher *batcher, struct redis *redis, instant_ns now_ns) {
    const struct item *together[BATCH_NAMES_MAX];
    node_set bit = node_set_of(redis_index(redis));
    uint32_t count = 0;

    for (size_t i = 0; i < batcher->n_items; i++) {
        const struct item *item = &batcher->items[i];
        if (!(item->nodes & bit))
            continue;
        if (count > 0 && (count == BATCH_NAMES_MAX || !goes_along(item, together[0]))) {
            send_call(batcher, redis, together, count, now_ns);
            count = 0;
        }
        together[count++] = item;
    }
    if (count > 0)
        send_call(batcher, redis, together, count, now_ns);
}

/* The connection broke within this very turn: as good as cut off. */
static void give_back_bounced(struct batcher *batcher, struct shard *shard, instant_ns now_ns) {
    while (batcher->bounced) {
        struct batch *batch = batcher->bounced;
        batcher->bounced = batch->next;
        batch_answered(batcher, shard, batch->node, batch, NULL, now_ns);
    }
}

void batcher_flush(struct batcher *batcher, struct redis *const nodes[NODES_MAX], struct shard *shard,
                   instant_ns now_ns) {
    unsigned n_nodes = batcher->config->n_nodes;
    node_set cut = batcher->cut, used = 0;

    for (size_t i = 0; i < batcher->n_items; i++)
        used |= batcher->items[i].nodes;
    for (unsigned i = 0; i < n_nodes; i++)
        if (used & node_set_of(i))
            send_to_node(batcher, nodes[i], now_ns);
    batcher->n_items = 0;
    batcher->arena_used = 0;
    batcher->cut = 0;
    for (unsigned i = 0; i < n_nodes; i++) {
        if (cut & node_set_of(i))
            redis_cut(nodes[i], "stopped answering");
        else if (used & node_set_of(i))
            redis_flush(nodes[i]);
    }
    give_back_bounced(batcher, shard, now_ns);
}

/* --- answers --- */

void batch_answered(struct batcher *batcher, struct shard *shard, unsigned node, void *tag,
                    const redisReply *reply, instant_ns now_ns) {
    struct batch *batch = tag;
    int64_t time_us = votes_time_us(batch->operation, reply);

    if (time_us >= 0)
        shard_node_time(shard, node, time_us, batch->sent_ns, now_ns);
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct vote vote = votes_of(batch->operation, batch->count, reply, i);
        shard_vote(shard, node, batch->tickets[i], &vote, now_ns);
    }
    batch_give(batcher, batch);
}
