#include "batcher-harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "io/node/key-names.h"

struct redis nodes[NODES] = {
    {.index = 0, .epoch = "run 1000 77", .rights.listen = true},
    {.index = 1, .epoch = "other-run 1000 78", .rights.listen = true},
};

static struct redis *const node_list[NODES_MAX] = {&nodes[0], &nodes[1]};
struct batcher *batcher;
instant_ns harness_now_ns;
static unsigned char text_memory[64 * SHARED_STRING_BLOCK_BYTES] __attribute__((aligned(16)));
static struct shared_string_pool texts;
static struct shared_string *names[NAMES_MAX];

struct seen_vote votes[VOTES_MAX];
unsigned n_votes;
int64_t reported_time_us;
unsigned overwritten;
unsigned misfits;

/* --- the functions that batcher.c calls --- */

/* A number behind its type byte, and the line's end. */
static size_t take_number(const char **at, char sign) {
    char *end;

    if (**at != sign)
        abort();
    size_t number = strtoul(*at + 1, &end, 10);
    if (strncmp(end, "\r\n", 2) != 0)
        abort();
    *at = end + 2;
    return number;
}

static void take_word(const char **at, char *into, size_t size) {
    size_t length = take_number(at, '$');

    (void) snprintf(into, size, "%.*s", (int) length, *at);
    *at += length;
    if (strncmp(*at, "\r\n", 2) != 0)
        abort();
    *at += 2;
}

/* Parses the call as the server does. */
static void read_call(struct sent_call *call, const char *bytes, size_t length) {
    const char *at = bytes;
    char word[64];

    size_t n = take_number(&at, '*');
    take_word(&at, word, sizeof(word));
    if (n < 3 || n - 3 > ITEMS_MAX || strcmp(word, "EVALSHA") != 0)
        abort();
    take_word(&at, word, sizeof(word));
    for (call->script = 0; strcmp(script_sources[call->script].hash, word) != 0;)
        if (++call->script == SCRIPTS_LOADED)
            abort();
    take_word(&at, word, sizeof(word));
    call->n_keys = strtoul(word, NULL, 10);
    call->n_items = n - 3;
    for (size_t i = 0; i < call->n_items; i++)
        take_word(&at, call->items[i], sizeof(call->items[i]));
    if (at != bytes + length)
        abort();
}

static uint64_t hash_of(const struct redis_call *call) {
    static const uint64_t key[2] = {0, 0};
    return hash_bytes(key, call->bytes, call->length);
}

int redis_send(struct redis *redis, const struct redis_call *call, const struct evalsha_item *own,
               size_t n_own, void *tag) {
    static char bytes[1 << 16];

    if (redis->down)
        return -ENOTCONN;
    if (redis->n_calls == CALLS_MAX || call->length + evalsha_room(own, n_own) >= sizeof(bytes))
        abort();
    memcpy(bytes, call->bytes, call->split);
    size_t length = call->split + evalsha_put(bytes + call->split, own, n_own);
    memcpy(bytes + length, call->bytes + call->split, call->length - call->split);
    length += call->length - call->split;
    bytes[length] = '\0';
    struct sent_call *sent = &redis->calls[redis->n_calls++];
    read_call(sent, bytes, length);
    sent->tag = tag;
    sent->shared = *call;
    sent->shared_hash = hash_of(call);
    return 0;
}

unsigned redis_index(const struct redis *redis) {
    return redis->index;
}

const char *redis_epoch(const struct redis *redis) {
    return redis->epoch;
}

const char *redis_floor(const struct redis *redis) {
    return strrchr(redis->epoch, ' ') + 1;
}

const struct user_rights *redis_rights(const struct redis *redis) {
    return &redis->rights;
}

void redis_burst(const struct multi_write *burst, struct redis *const redises[], size_t n) {
    (void) burst;
    (void) redises;
    (void) n;
}

void redis_flush(struct redis *redis) {
    (void) redis;
}

void redis_cut(struct redis *redis, const char *reason) {
    (void) redis;
    (void) reason;
}

void shard_expect(const struct shard *shard, uint64_t ticket) {
    (void) shard;
    (void) ticket;
}

void shard_vote(struct shard *shard, unsigned node, uint64_t ticket, const struct vote *vote,
                instant_ns now_ns) {
    (void) shard;
    (void) node;
    (void) now_ns;
    if (n_votes == VOTES_MAX)
        abort();
    votes[n_votes++] = (struct seen_vote){ticket, *vote};
}

void node_trust_time(struct shard *shard, unsigned node, int64_t time_us, instant_ns sent_ns,
                     instant_ns now_ns) {
    (void) shard;
    (void) node;
    (void) sent_ns;
    (void) now_ns;
    reported_time_us = time_us;
}

/* --- requests and answers --- */

/* `former`: the lease had another lock value before. */
static void add(node_set to, enum operation operation, unsigned name, uint64_t ticket, int64_t token,
                uint32_t ttl_ms, bool former) {
    static const uint8_t secret[SECRET_BYTES];
    static const struct shard_predecessors predecessors = {
        .count = 2, .all = {{.identity = {":host:p2:", 9}}, {.identity = {":host:p1:", 9}}}};

    batcher_add(batcher,
                &(struct send){.operation = operation,
                               .nodes = to,
                               .ttl_ms = ttl_ms,
                               .ticket = ticket,
                               .token = token,
                               .token_last = token >= BLOCK ? token + 64 : token,
                               .secret = secret,
                               .text = names[name],
                               .former = former ? secret : NULL,
                               .former_text = former ? names[name] : NULL,
                               .predecessors = operation == OPERATION_SEARCH ? &predecessors : NULL});
}

void ask_for(node_set to, enum operation operation, unsigned name, uint64_t ticket, int64_t token,
             uint32_t ttl_ms) {
    add(to, operation, name, ticket, token, ttl_ms, operation == OPERATION_REFRESH);
}

void ask_with_former(enum operation operation, unsigned name) {
    add(1, operation, name, name, FENCED, 1000, true);
}

void ask_nodes(node_set to, enum operation operation, unsigned name, uint64_t ticket, int64_t token) {
    ask_for(to, operation, name, ticket, token, 1000);
}

void ask(enum operation operation, unsigned name) {
    ask_nodes(1, operation, name, name, FENCED);
}

void flush(void) {
    for (unsigned i = 0; i < NODES; i++)
        nodes[i].n_calls = 0;
    n_votes = 0;
    reported_time_us = -1;
    batcher_flush(batcher, node_list, NULL, harness_now_ns);
}

size_t first_lock(const struct sent_call *call) {
    if (call->script != SCRIPT_ACQUIRE)
        return 0;
    return strcmp(call->items[1], FENCES_KEY) == 0 ? 3 : 1;
}

size_t count_locks(const struct sent_call *call) {
    size_t count = 0;

    for (size_t i = first_lock(call); i < call->n_keys && strncmp(call->items[i], "redlockd:", 9) != 0; i++)
        count++;
    return count;
}

const char *calls_text(void) {
    static const char *const words[] = {
        [SCRIPT_ACQUIRE] = "acquire", [SCRIPT_RAISE] = "raise",     [SCRIPT_EXTEND] = "extend",
        [SCRIPT_REFRESH] = "refresh", [SCRIPT_RELEASE] = "release", [SCRIPT_QUERY] = "query",
        [SCRIPT_ADOPT] = "adopt"};
    static char text[4096];

    text[0] = '\0';
    for (unsigned i = 0; i < nodes[0].n_calls; i++) {
        const struct sent_call *call = &nodes[0].calls[i];
        (void) strcat(strcat(text, i > 0 ? " " : ""), words[call->script]);
        for (size_t k = 0; k < count_locks(call); k++)
            (void) strcat(strcat(text, " "), call->items[first_lock(call) + k]);
        (void) strcat(text, ";");
    }
    return text;
}

void answer(unsigned node, const struct sent_call *call, const redisReply *reply) {
    overwritten += hash_of(&call->shared) != call->shared_hash;
    misfits += !batcher_answered(batcher, NULL, node, call->tag, reply, harness_now_ns);
}

void answer_all(const redisReply *reply) {
    for (unsigned i = 0; i < NODES; i++)
        for (unsigned j = 0; j < nodes[i].n_calls; j++)
            answer(i, &nodes[i].calls[j], reply);
}

redisReply integer(long long number) {
    return (redisReply){.type = REDIS_REPLY_INTEGER, .integer = number};
}

redisReply string(char *text) {
    return (redisReply){.type = REDIS_REPLY_STRING, .str = text, .len = strlen(text)};
}

redisReply array(redisReply **elements, size_t count) {
    return (redisReply){.type = REDIS_REPLY_ARRAY, .element = elements, .elements = count};
}

/* --- the harness --- */

static void new_batcher(int64_t fence_skew_ms) {
    static char nothing[] = "", host[] = "host";
    static struct config config = {.n_nodes = NODES,
                                   .fence_retention_ms = 3600000,
                                   .key_prefix = nothing,
                                   .key_suffix = nothing,
                                   .host = host};

    config.fence_skew_ms = fence_skew_ms;
    if (batcher_new(&config, "0123", &batcher) < 0)
        abort();
}

void batcher_harness_configure(int64_t fence_skew_ms) {
    batcher = batcher_free(batcher);
    new_batcher(fence_skew_ms);
}

void batcher_harness_begin(void) {
    static char number[16];

    shared_string_pool_init(&texts, text_memory, sizeof(text_memory));
    for (unsigned i = 0; i < NAMES_MAX; i++) {
        int length = snprintf(number, sizeof(number), "%u", i);
        names[i] = shared_string_new(&texts, number, (size_t) length, NULL, 0);
        if (!names[i])
            abort();
    }
    new_batcher(60000);
}

void batcher_harness_end(void) {
    batcher = batcher_free(batcher);
}
