#include "io/node/call-words.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/hash.h"
#include "base/secret.h"
#include "core/lock-value.h"
#include "io/loop/secret-memory.h"
#include "io/node/batch.h"
#include "io/node/key-names.h"

enum { TOKEN_DIGITS = 20 };
static_assert(5 * BATCH_ACQUIRES_MAX <= 3 * BATCH_NAMES_MAX, "a call's keys and arguments have room");

/* The words of a call: one for each name whose item has it, or one for all. */
enum word {
    WORD_KEY,
    WORD_VALUE,
    WORD_TTL,
    WORD_TOKEN,  /* none: no fencing */
    WORD_LAST,   /* of the token's block; none: a block of one */
    WORD_FORMER, /* another value that the key may have; none: only ours */
    WORD_AGENTS, /* the identities whose values are replaced; one word for all names */
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
    [OPERATION_SEARCH] = {SCRIPT_ADOPT,
                          {WORD_KEY, WORD_EPOCH_KEY, WORD_END, WORD_VALUE, WORD_TTL, WORD_EPOCH, WORD_AGENTS,
                           WORD_END}},
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

struct call_words {
    const struct config *config;
    struct lock_value_identity identity;
    char skew_us[TOKEN_DIGITS], retention_ms[TOKEN_DIGITS];
    char *arena;
    size_t arena_used, arena_room;
    struct number ttl, token, last; /* the last ones put */
    struct piece agents;            /* this process and the former ones */
    struct call_plan_turn *turn;
    struct item *items; /* the words of the turn's items */
    size_t items_room;
};

/* A node accepts a token up to fence_skew ahead of its clock, and, once it has forgotten that, any token
 * from fence_skew behind its clock on: it must not forget sooner. */
static int64_t retention_ms(const struct config *config) {
    int64_t least_ms = 2 * config->fence_skew_ms;

    return config->fence_retention_ms > least_ms ? config->fence_retention_ms : least_ms;
}

int call_words_new(const struct config *config, const char *agent_id, struct call_plan_turn *turn,
                   struct call_words **ret) {
    struct call_words *words = calloc(1, sizeof(*words));

    if (!words)
        return -ENOMEM;
    words->config = config;
    words->turn = turn;
    lock_value_identify(&words->identity, config->host, agent_id);
    (void) snprintf(words->skew_us, sizeof(words->skew_us), "%lld",
                    (long long) config->fence_skew_ms * 1000);
    (void) snprintf(words->retention_ms, sizeof(words->retention_ms), "%lld",
                    (long long) retention_ms(config));
    *ret = words;
    return 0;
}

struct call_words *call_words_free(struct call_words *words) {
    if (!words)
        return NULL;
    free(words->turn->items);
    free(words->items);
    secret_memory_free(words->arena, words->arena_used);
    free(words);
    return NULL;
}

/* --- collecting --- */

/* Without realloc(3), which may leave a copy behind. */
static void grow_arena(struct call_words *words, size_t wanted) {
    size_t room = 0;
    char *larger = batch_grow(NULL, &room, wanted, 1);

    if (words->arena)
        memcpy(larger, words->arena, words->arena_used);
    secret_memory_free(words->arena, words->arena_used);
    words->arena = larger;
    words->arena_room = room;
}

/* The offset of `length` uninitialised bytes. */
static size_t reserve(struct call_words *words, size_t length) {
    size_t offset = words->arena_used;

    if (offset + length > words->arena_room)
        grow_arena(words, offset + length);
    words->arena_used += length;
    return offset;
}

static size_t put(struct call_words *words, const void *bytes, size_t length) {
    size_t offset = reserve(words, length);

    if (length > 0)
        memcpy(words->arena + offset, bytes, length);
    return offset;
}

static struct piece put_value(struct call_words *words, const struct send *send, const uint8_t *secret,
                              const struct shared_string *text) {
    static const struct lock_value_identity in_tail = {.length = 0};
    const struct lock_value_identity *identity = send->orphan ? &in_tail : &words->identity;
    size_t time_length = send->legacy_setnx ? LOCK_VALUE_FAR_FUTURE_BYTES : 0;
    size_t length = lock_value_bytes(identity, text->tail_length);
    size_t offset = reserve(words, time_length + length);
    char *value = words->arena + offset;

    memcpy(value, LOCK_VALUE_FAR_FUTURE, time_length);
    lock_value_put(value + time_length, secret, identity, shared_string_tail(text), text->tail_length);
    return (struct piece){offset, time_length + length};
}

static struct piece put_number(struct call_words *words, struct number *number, int64_t value) {
    char bytes[DECIMAL_BYTES_MAX];

    if (number->piece.length > 0 && number->value == value)
        return number->piece;
    size_t length = decimal_write(value, bytes);
    *number = (struct number){value, {put(words, bytes, length), length}};
    return number->piece;
}

/* Once a turn. */
static struct piece put_agents(struct call_words *words, const struct shard_predecessors *predecessors) {
    if (words->agents.length > 0)
        return words->agents;
    words->agents.offset = put(words, words->identity.bytes, words->identity.length);
    for (unsigned i = 0; i < predecessors->count; i++) {
        const struct lock_value_identity *one = &predecessors->all[i].identity;
        (void) put(words, one->bytes, one->length);
    }
    words->agents.length = words->arena_used - words->agents.offset;
    return words->agents;
}

static struct piece put_key(struct call_words *words, const struct send *send) {
    size_t offset = put(words, words->config->key_prefix, strlen(words->config->key_prefix));

    (void) put(words, send->text->bytes, send->text->head_length);
    (void) put(words, words->config->key_suffix, strlen(words->config->key_suffix));
    return (struct piece){offset, words->arena_used - offset};
}

static bool has_ttl(enum operation operation) {
    return operation != OPERATION_RELEASE && operation != OPERATION_QUERY && operation != OPERATION_RAISE;
}

/* Adds the request to the turn; both arrays of items have the same room. */
static const struct call_plan_item *add_item(struct call_words *words, const struct send *send,
                                             const struct piece *key) {
    static const uint64_t hash_key[2] = {0, 0};
    size_t room = words->items_room, wanted = (size_t) words->turn->count + 1;

    words->turn->items = batch_grow(words->turn->items, &room, wanted, sizeof(words->turn->items[0]));
    words->items = batch_grow(words->items, &words->items_room, wanted, sizeof(words->items[0]));
    return call_plan_add(words->turn, send, hash_bytes(hash_key, words->arena + key->offset, key->length));
}

void call_words_add(struct call_words *words, const struct send *send) {
    struct item item = {.fields[WORD_KEY] = put_key(words, send)};
    const struct call_plan_item *planned = add_item(words, send, &item.fields[WORD_KEY]);

    if (send->operation != OPERATION_QUERY)
        item.fields[WORD_VALUE] = put_value(words, send, send->secret, send->text);
    if (planned->has_former)
        item.fields[WORD_FORMER] = put_value(words, send, send->former, send->former_text);
    if (send->predecessors)
        item.fields[WORD_AGENTS] = put_agents(words, send->predecessors);
    if (has_ttl(send->operation))
        item.fields[WORD_TTL] = put_number(words, &words->ttl, send->ttl_ms);
    if (planned->has_token)
        item.fields[WORD_TOKEN] = put_number(words, &words->token, send->token);
    if (planned->has_block)
        item.fields[WORD_LAST] = put_number(words, &words->last, send->token_last);
    words->items[words->turn->count - 1] = item;
}

void call_words_clear(struct call_words *words) {
    secret_clear(words->arena, words->arena_used);
    words->arena_used = 0;
    words->ttl.piece.length = words->token.piece.length = words->last.piece.length = 0;
    words->agents.length = 0;
}

/* --- composing --- */

static const struct item *item_of(const struct call_words *words, const struct call_plan_item *planned) {
    return &words->items[planned - words->turn->items];
}

static bool has(const struct item *item, enum word field) {
    return item->fields[field].length > 0;
}

/* A word that a call contains once; NULL: not this call. */
static const char *common_word(const struct call_words *words, const struct call_words_call *call,
                               const struct call_plan_item *first, enum word word) {
    switch ((unsigned) word) {
    case WORD_EPOCH_KEY:
        return EPOCH_KEY;
    case WORD_FENCES:
        return first->has_token ? FENCES_KEY : NULL;
    case WORD_FORMER_FENCES:
        return first->has_token ? FORMER_FENCES_KEY : NULL;
    case WORD_SKEW:
        return words->skew_us;
    case WORD_EACH:
        return call->each ? "1" : "0";
    default:
        assert(word == WORD_RETENTION);
        return words->retention_ms;
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

static void add_word(struct call_words_call *into, const char *bytes, size_t length) {
    assert(into->count < CALL_WORDS_MAX);
    into->items[into->count++] = (struct evalsha_item){bytes, length};
}

/* Whether a call has this word of an item once for all names. */
static bool is_shared(const struct call_words_call *call, enum word word) {
    bool number = word == WORD_TTL || word == WORD_TOKEN || word == WORD_LAST;

    return (number && !call->each) || word == WORD_AGENTS;
}

static bool same_piece(const struct call_words *words, const struct piece *a, const struct piece *b) {
    return a->length == b->length &&
           (a->offset == b->offset ||
            memcmp(words->arena + a->offset, words->arena + b->offset, a->length) == 0);
}

/* Whether all names have the same numbers. They usually do: one ttl, and one time for proposed tokens. */
static bool share_numbers(const struct call_words *words, const struct call_plan_call *plan) {
    const struct piece *first = item_of(words, plan->items[0])->fields;

    for (uint32_t i = 1; i < plan->count; i++)
        for (unsigned field = WORD_TTL; field <= WORD_LAST; field++)
            if (!same_piece(words, &item_of(words, plan->items[i])->fields[field], &first[field]))
                return false;
    return true;
}

/* Adds words up to the end of the keys or the arguments, and returns the words behind it. */
static const uint8_t *compose(struct call_words_call *into, const struct call_words *words,
                              const struct call_plan_call *plan, const uint8_t *at) {
    const struct call_plan_item *first = plan->items[0];
    const struct item *written = item_of(words, first);

    for (; *at != WORD_END; at++) {
        if (*at >= WORD_OWN) {
            if (into->n_own++ == 0) {
                into->own_at = into->count;
                into->own = at;
            }
            assert(into->own_at == into->count);
        } else if (*at >= FIELDS) {
            const char *text = common_word(words, into, first, *at);
            if (text)
                add_word(into, text, strlen(text));
        } else if (has(written, *at)) {
            uint32_t count = is_shared(into, *at) ? 1 : plan->count;
            for (uint32_t i = 0; i < count; i++) {
                const struct piece *piece = &item_of(words, plan->items[i])->fields[*at];
                add_word(into, words->arena + piece->offset, piece->length);
            }
        }
    }
    return at + 1;
}

void call_words_compose(const struct call_words *words, const struct call_plan_call *plan,
                        struct call_words_call *ret) {
    enum operation operation = plan->items[0]->operation;
    const struct layout *layout = &layouts[operation];

    ret->script = layout->script;
    ret->count = ret->own_at = ret->n_own = 0;
    ret->each = operation != OPERATION_ACQUIRE || !share_numbers(words, plan);
    const uint8_t *arguments = compose(ret, words, plan, layout->words);
    ret->n_keys = ret->count;
    (void) compose(ret, words, plan, arguments);
    assert(ret->n_own <= CALL_WORDS_OWN_MAX);
}

void call_words_own(const struct call_words_call *call, const struct call_plan_item *first,
                    const struct redis *redis, struct evalsha_item ret[CALL_WORDS_OWN_MAX]) {
    for (size_t i = 0; i < call->n_own; i++) {
        const char *text = own_word(redis, first, call->own[i]);
        ret[i] = (struct evalsha_item){text, strlen(text)};
    }
}
