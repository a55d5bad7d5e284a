#include "io/node/batcher.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "core/call-plan.h"
#include "core/lock-value.h"
#include "io/loop/multi-write.h"
#include "io/node/batch.h"
#include "io/node/evalsha.h"
#include "io/node/key-names.h"
#include "io/node/script-replies.h"
#include "io/node/script.h"

enum {
    TOKEN_DIGITS = 20,
    CALL_ITEMS_MAX = 3 * BATCH_NAMES_MAX + 8,
    OWN_MAX = 2, /* words of a node's own in a call */
};

static_assert(5 * BATCH_ACQUIRES_MAX <= 3 * BATCH_NAMES_MAX, "a call's keys and arguments have room");

/* The words of a call: one for each name whose item has it, or one for all. */
enum word {
    WORD_KEY,
    WORD_VALUE,
    WORD_TTL,
    WORD_TOKEN,  /* none: no fencing */
    WORD_LAST,   /* of the token's block; none: a block of one */
    WORD_FORMER, /* another value that the key may have; none: only ours */
    FIELDS,      /* of an item */
    WORD_EPOCH_KEY = FIELDS,
    WORD_FENCES, /* this table and the former one; only with fencing */
    WORD_FORMER_FENCES,
    WORD_SKEW,
    WORD_RETENTION,
    WORD_EACH,  /* whether the words after the values are one for all names, or one for each */
    WORD_EPOCH, /* from here on: the node's own; adjacent in a call */
    WORD_FLOOR, /* the epoch's; empty without fencing */
    WORD_CHANNEL,
    WORD_END, /* of the keys, or of the arguments */
    WORD_OWN = WORD_EPOCH,
};

enum { WORDS_MAX = 15 };

/* As the scripts' head comments say. */
static const struct layout {
    enum script_id script;
    uint8_t words[WORDS_MAX];
} layouts[CALL_PLAN_OPERATIONS] = {
    [OPERATION_ACQUIRE] = {SCRIPT_ACQUIRE,
                           {WORD_EPOCH_KEY, WORD_FENCES, WORD_FORMER_FENCES, WORD_KEY, WORD_END, WORD_EPOCH,
                            WORD_FLOOR, WORD_SKEW, WORD_RETENTION, WORD_EACH, WORD_VALUE, WORD_TTL,
                            WORD_TOKEN, WORD_LAST, WORD_END}},
    [OPERATION_RAISE] = {SCRIPT_RAISE,
                         {WORD_KEY, WORD_EPOCH_KEY, WORD_FENCES, WORD_FORMER_FENCES, WORD_END, WORD_VALUE,
                          WORD_TOKEN, WORD_EPOCH, WORD_FLOOR, WORD_SKEW, WORD_LAST, WORD_END}},
    [OPERATION_EXTEND] = {SCRIPT_EXTEND,
                          {WORD_KEY, WORD_EPOCH_KEY, WORD_END, WORD_VALUE, WORD_TTL, WORD_EPOCH, WORD_END}},
    [OPERATION_REFRESH] = {SCRIPT_REFRESH,
                           {WORD_KEY, WORD_EPOCH_KEY, WORD_FENCES, WORD_FORMER_FENCES, WORD_END, WORD_VALUE,
                            WORD_TTL, WORD_EPOCH, WORD_FORMER, WORD_TOKEN, WORD_END}},
    [OPERATION_RELEASE] = {SCRIPT_RELEASE,
                           {WORD_KEY, WORD_END, WORD_VALUE, WORD_FORMER, WORD_CHANNEL, WORD_END}},
    [OPERATION_QUERY] = {SCRIPT_QUERY, {WORD_KEY, WORD_FENCES, WORD_FORMER_FENCES, WORD_END, WORD_END}},
    [OPERATION_ADOPT] = {SCRIPT_ADOPT,
                         {WORD_KEY, WORD_EPOCH_KEY, WORD_END, WORD_VALUE, WORD_TTL, WORD_EPOCH, WORD_END}},
};

/* A word's place in the arena; no length: no word. */
struct piece {
    size_t offset, length;
};

/* A number that many requests of a turn share: the arena has it once. */
struct number {
    int64_t value;
    struct piece piece; /* no length: not in the arena yet */
};

/* The words of one request of this turn. */
struct item {
    struct piece fields[FIELDS];
};

/* A call's keys and arguments, except for the node's own words. */
struct words {
    size_t count, n_keys;
    size_t own_at, n_own; /* the place and number of the node's own */
    const uint8_t *own;
    bool each; /* numbers for each name, or one for all */
    struct evalsha_item items[CALL_ITEMS_MAX];
};

/* The arguments of batcher_flush(). */
struct flush {
    struct batcher *batcher;
    struct redis *const *nodes;
    instant_ns now_ns;
};

struct batcher {
    const struct config *config;
    struct lock_value_identity identity;
    char skew_us[TOKEN_DIGITS], retention_ms[TOKEN_DIGITS];
    char *arena;
    size_t arena_used, arena_room;
    struct number ttl, token, last; /* the last ones put */
    struct call_plan_turn turn;
    struct item *items; /* the words of the turn's items */
    size_t items_room;
    struct batch_pool batches;
    struct batch *bounced;
    node_set cut;
    struct multi_write burst;
};

int batcher_new(const struct config *config, const char *agent_id, struct batcher **ret) {
    struct batcher *batcher = calloc(1, sizeof(*batcher));

    if (!batcher)
        return -ENOMEM;
    batcher->config = config;
    multi_write_init(&batcher->burst);
    lock_value_identify(&batcher->identity, config->host, agent_id);
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
    batch_pool_deinit(&batcher->batches);
    multi_write_deinit(&batcher->burst);
    free(batcher->turn.items);
    free(batcher->items);
    free(batcher->arena);
    free(batcher);
    return NULL;
}

/* --- collecting --- */

/* The offset of `length` uninitialised bytes. */
static size_t reserve(struct batcher *batcher, size_t length) {
    size_t offset = batcher->arena_used;

    batcher->arena = batch_grow(batcher->arena, &batcher->arena_room, offset + length, 1);
    batcher->arena_used += length;
    return offset;
}

static size_t put(struct batcher *batcher, const void *bytes, size_t length) {
    size_t offset = reserve(batcher, length);

    if (length > 0)
        memcpy(batcher->arena + offset, bytes, length);
    return offset;
}

static struct piece put_value(struct batcher *batcher, const struct send *send, const uint8_t *secret,
                              const struct shared_string *text) {
    static const struct lock_value_identity in_tail = {.length = 0};
    const struct lock_value_identity *identity = send->orphan ? &in_tail : &batcher->identity;
    size_t time_length = send->legacy_setnx ? LOCK_VALUE_FAR_FUTURE_BYTES : 0;
    size_t length = lock_value_bytes(identity, text->tail_length);
    size_t offset = reserve(batcher, time_length + length);
    char *value = batcher->arena + offset;

    memcpy(value, LOCK_VALUE_FAR_FUTURE, time_length);
    lock_value_put(value + time_length, secret, identity, shared_string_tail(text), text->tail_length);
    return (struct piece){offset, time_length + length};
}

static struct piece put_number(struct batcher *batcher, struct number *number, int64_t value) {
    char text[TOKEN_DIGITS + 4];

    if (number->piece.length > 0 && number->value == value)
        return number->piece;
    int length = snprintf(text, sizeof(text), "%lld", (long long) value);
    assert(length > 0 && (size_t) length < sizeof(text));
    *number = (struct number){value, {put(batcher, text, (size_t) length), (size_t) length}};
    return number->piece;
}

static struct piece put_key(struct batcher *batcher, const struct send *send) {
    size_t offset = put(batcher, batcher->config->key_prefix, strlen(batcher->config->key_prefix));

    (void) put(batcher, send->text->bytes, send->text->head_length);
    (void) put(batcher, batcher->config->key_suffix, strlen(batcher->config->key_suffix));
    return (struct piece){offset, batcher->arena_used - offset};
}

static bool has_ttl(enum operation operation) {
    return operation != OPERATION_RELEASE && operation != OPERATION_QUERY && operation != OPERATION_RAISE;
}

/* Adds the request to the turn; both arrays of items have the same room. */
static const struct call_plan_item *add_item(struct batcher *batcher, const struct send *send,
                                             const struct piece *key) {
    static const uint64_t hash_key[2] = {0, 0};
    size_t room = batcher->items_room, wanted = (size_t) batcher->turn.count + 1;

    batcher->turn.items = batch_grow(batcher->turn.items, &room, wanted, sizeof(batcher->turn.items[0]));
    batcher->items = batch_grow(batcher->items, &batcher->items_room, wanted, sizeof(batcher->items[0]));
    return call_plan_add(&batcher->turn, send,
                         hash_bytes(hash_key, batcher->arena + key->offset, key->length));
}

void batcher_add(struct batcher *batcher, const struct send *send) {
    struct item item = {.fields[WORD_KEY] = put_key(batcher, send)};
    const struct call_plan_item *planned = add_item(batcher, send, &item.fields[WORD_KEY]);

    if (send->operation != OPERATION_QUERY)
        item.fields[WORD_VALUE] = put_value(batcher, send, send->secret, send->text);
    if (planned->has_former)
        item.fields[WORD_FORMER] = put_value(batcher, send, send->former, send->former_text);
    if (has_ttl(send->operation))
        item.fields[WORD_TTL] = put_number(batcher, &batcher->ttl, send->ttl_ms);
    if (planned->has_token)
        item.fields[WORD_TOKEN] = put_number(batcher, &batcher->token, send->token);
    if (planned->has_block)
        item.fields[WORD_LAST] = put_number(batcher, &batcher->last, send->token_last);
    batcher->items[batcher->turn.count - 1] = item;
}

void batcher_cut(struct batcher *batcher, unsigned node) {
    batcher->cut |= node_set_of(node);
}

bool batcher_pending(const struct batcher *batcher) {
    return batcher->turn.count > 0 || batcher->cut != 0 || batcher->bounced;
}

/* --- sending --- */

static const struct item *item_of(const struct batcher *batcher, const struct call_plan_item *planned) {
    return &batcher->items[planned - batcher->turn.items];
}

static bool has(const struct item *item, enum word field) {
    return item->fields[field].length > 0;
}

/* A word that a call contains once; NULL: not this call. */
static const char *common_word(const struct batcher *batcher, const struct words *words,
                               const struct call_plan_item *first, enum word word) {
    switch ((unsigned) word) {
    case WORD_EPOCH_KEY:
        return EPOCH_KEY;
    case WORD_FENCES:
        return first->has_token ? FENCES_KEY : NULL;
    case WORD_FORMER_FENCES:
        return first->has_token ? FORMER_FENCES_KEY : NULL;
    case WORD_SKEW:
        return batcher->skew_us;
    case WORD_EACH:
        return words->each ? "1" : "0";
    default:
        assert(word == WORD_RETENTION);
        return batcher->retention_ms;
    }
}

/* A word of the node's own. */
static const char *own_word(const struct redis *redis, const struct call_plan_item *first, enum word word) {
    switch ((unsigned) word) {
    case WORD_EPOCH:
        return redis_epoch(redis);
    case WORD_FLOOR:
        return first->has_token ? redis_floor(redis) : "";
    default:
        assert(word == WORD_CHANNEL);
        if (first->quiet || !redis_rights(redis)->listen)
            return "";
        return first->left ? RELEASE_CHANNEL_LEFT : RELEASE_CHANNEL;
    }
}

static void add_word(struct words *into, const char *bytes, size_t length) {
    assert(into->count < CALL_ITEMS_MAX);
    into->items[into->count++] = (struct evalsha_item){bytes, length};
}

static bool is_number(enum word word) {
    return word == WORD_TTL || word == WORD_TOKEN || word == WORD_LAST;
}

static bool same_piece(const struct batcher *batcher, const struct piece *a, const struct piece *b) {
    return a->length == b->length &&
           (a->offset == b->offset ||
            memcmp(batcher->arena + a->offset, batcher->arena + b->offset, a->length) == 0);
}

/* Whether all names have the same numbers. They usually do: one ttl, and one time for proposed tokens. */
static bool share_numbers(const struct batcher *batcher, const struct call_plan_call *plan) {
    const struct piece *first = item_of(batcher, plan->items[0])->fields;

    for (uint32_t i = 1; i < plan->count; i++)
        for (unsigned field = WORD_TTL; field <= WORD_LAST; field++)
            if (!same_piece(batcher, &item_of(batcher, plan->items[i])->fields[field], &first[field]))
                return false;
    return true;
}

/* Adds words up to the end of the keys or the arguments, and returns the words behind it. */
static const uint8_t *compose(struct words *into, const struct batcher *batcher,
                              const struct call_plan_call *plan, const uint8_t *words) {
    const struct call_plan_item *first = plan->items[0];
    const struct item *written = item_of(batcher, first);

    for (; *words != WORD_END; words++) {
        if (*words >= WORD_OWN) {
            if (into->n_own++ == 0) {
                into->own_at = into->count;
                into->own = words;
            }
            assert(into->own_at == into->count);
        } else if (*words >= FIELDS) {
            const char *text = common_word(batcher, into, first, *words);
            if (text)
                add_word(into, text, strlen(text));
        } else if (has(written, *words)) {
            uint32_t count = into->each || !is_number(*words) ? plan->count : 1;
            for (uint32_t i = 0; i < count; i++) {
                const struct piece *piece = &item_of(batcher, plan->items[i])->fields[*words];
                add_word(into, batcher->arena + piece->offset, piece->length);
            }
        }
    }
    return words + 1;
}

/* Writes the bytes that all nodes share. */
static struct redis_call write_call(struct batcher *batcher, struct batch *batch, enum script_id script,
                                    const struct words *words) {
    size_t wanted = EVALSHA_BEGIN_BYTES + evalsha_room(words->items, words->count);
    size_t n_arguments = words->count + words->n_own - words->n_keys;

    char *bytes = batch_room(&batcher->batches, batch, wanted);
    size_t split = evalsha_begin(bytes, script_sources[script].hash, words->n_keys, n_arguments);
    split += evalsha_put(bytes + split, words->items, words->own_at);
    size_t length =
        split + evalsha_put(bytes + split, words->items + words->own_at, words->count - words->own_at);
    assert(length <= batch->bytes_room);
    return (struct redis_call){bytes, length, split};
}

static void send_call(struct batcher *batcher, struct redis *redis, const struct redis_call *call,
                      const struct words *words, const struct call_plan_item *first, struct batch *batch) {
    struct evalsha_item own[OWN_MAX];

    assert(words->n_own <= OWN_MAX);
    for (size_t i = 0; i < words->n_own; i++) {
        const char *text = own_word(redis, first, words->own[i]);
        own[i] = (struct evalsha_item){text, strlen(text)};
    }
    if (batch->operation == OPERATION_RELEASE && !first->quiet && !redis_rights(redis)->listen)
        batch->silent |= node_set_of(redis_index(redis));
    if (redis_send(redis, call, own, words->n_own, batch) >= 0)
        return;
    if (batch->bounced == 0) {
        batch->next = batcher->bounced;
        batcher->bounced = batch;
    }
    batch->bounced |= node_set_of(redis_index(redis));
}

static void send_planned(void *userdata, node_set to, const struct call_plan_call *plan) {
    const struct flush *flush = userdata;
    struct batcher *batcher = flush->batcher;
    const struct call_plan_item *first = plan->items[0];
    const struct layout *layout = &layouts[first->operation];
    struct batch *batch = batch_take(&batcher->batches, plan->count);
    struct words words;

    words.count = words.own_at = words.n_own = 0;
    words.each = first->operation != OPERATION_ACQUIRE || !share_numbers(batcher, plan);
    const uint8_t *arguments = compose(&words, batcher, plan, layout->words);
    words.n_keys = words.count;
    (void) compose(&words, batcher, plan, arguments);
    batch->operation = first->operation;
    batch->awaited = to;
    batch->bounced = batch->silent = 0;
    batch->count = plan->count;
    for (uint32_t i = 0; i < plan->count; i++)
        batch->tickets[i] = plan->items[i]->ticket;
    batch->sent_ns = flush->now_ns;
    const struct redis_call call = write_call(batcher, batch, layout->script, &words);
    for (unsigned i = 0; i < batcher->config->n_nodes; i++)
        if (to & node_set_of(i))
            send_call(batcher, flush->nodes[i], &call, &words, first, batch);
}

/* The connection broke during this turn: the same as cut off. */
static void return_bounced(struct batcher *batcher, struct shard *shard, instant_ns now_ns) {
    while (batcher->bounced) {
        struct batch *batch = batcher->bounced;
        node_set bounced = batch->bounced;
        batcher->bounced = batch->next;
        for (unsigned i = 0; i < batcher->config->n_nodes; i++)
            if (bounced & node_set_of(i))
                batcher_answered(batcher, shard, i, batch, NULL, now_ns);
    }
}

void batcher_flush(struct batcher *batcher, struct redis *const nodes[NODES_MAX], struct shard *shard,
                   instant_ns now_ns) {
    unsigned n_nodes = batcher->config->n_nodes;
    node_set cut = batcher->cut;
    struct flush flush = {batcher, nodes, now_ns};

    node_set used = call_plan_all(&batcher->turn, &(struct call_plan_sink){send_planned, &flush});
    batcher->arena_used = 0;
    batcher->ttl.piece.length = batcher->token.piece.length = batcher->last.piece.length = 0;
    batcher->cut = 0;
    if (cut == 0)
        redis_burst(&batcher->burst, nodes, n_nodes);
    for (unsigned i = 0; i < n_nodes; i++) {
        if (cut & node_set_of(i))
            redis_cut(nodes[i], "stopped answering");
        else if (used & node_set_of(i))
            redis_flush(nodes[i]);
    }
    return_bounced(batcher, shard, now_ns);
}

/* --- answers --- */

/* ACLs may forbid some keys: one request for such a key must not fail the others of its call for long. */
static bool is_key_refused(const redisReply *reply) {
    return reply && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOPERM", strlen("NOPERM")) == 0;
}

/* A node's answer to a call. */
struct answer {
    enum operation operation;
    uint32_t count;
    const redisReply *reply;
    bool silent;
};

static struct vote vote_at(void *userdata, uint32_t index) {
    const struct answer *answer = userdata;
    struct vote vote = script_replies_vote(answer->operation, answer->count, answer->reply, index);

    vote.received |= answer->silent && vote.kind == VOTE_YES;
    return vote;
}

void batcher_answered(struct batcher *batcher, struct shard *shard, unsigned node, void *tag,
                      const redisReply *reply, instant_ns now_ns) {
    struct batch *batch = tag;
    struct answer answer = {batch->operation, batch->count, reply, batch->silent & node_set_of(node)};

    assert(batch->awaited & node_set_of(node));
    if (batch->count > 1 && is_key_refused(reply))
        batcher->turn.alone[batch->operation] |= node_set_of(node);
    call_plan_answered(&(struct call_plan_answer){.node = node,
                                                  .count = batch->count,
                                                  .tickets = batch->tickets,
                                                  .sent_ns = batch->sent_ns,
                                                  .time_us = script_replies_time_us(batch->operation, reply),
                                                  .vote = vote_at,
                                                  .userdata = &answer},
                       shard, now_ns);
    batch->awaited &= (node_set) ~node_set_of(node);
    if (batch->awaited == 0)
        batch_give(&batcher->batches, batch);
}
