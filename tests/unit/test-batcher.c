/* Which requests share a script call, their order, and the votes in the answers. This file is the node. */

#include "io/node/batcher.h"
#include "io/node/key-names.h"
#include "io/node/script.h"

#include <errno.h>

#include "base/hash.h"
#include "base/random.h"

#include "tap.h"

enum { CALLS_MAX = 512, ITEMS_MAX = 512, NODES = 2, NAMES_MAX = 600, VOTES_MAX = 512 };

struct redis {
    unsigned index;
    bool down;
    const char *epoch;
    struct user_rights rights;
    unsigned n_calls;
    struct sent_call {
        enum script_id script;
        size_t n_keys, n_items;
        void *tag;
        struct redis_call shared;
        uint64_t shared_hash; /* of its bytes when they were sent */
        char items[ITEMS_MAX][64];
    } calls[CALLS_MAX];
};

static struct redis nodes[NODES] = {
    {.index = 0, .epoch = "run 1000 77", .rights.listen = true},
    {.index = 1, .epoch = "other-run 1000 78", .rights.listen = true},
};
static struct redis *const node_list[NODES_MAX] = {&nodes[0], &nodes[1]};
static struct batcher *batcher;
static unsigned char text_memory[64 * SHARED_STRING_BLOCK_BYTES] __attribute__((aligned(16)));
static struct shared_string_pool texts;
static struct shared_string *names[NAMES_MAX];

static struct seen_vote {
    uint64_t ticket;
    struct vote vote;
} votes[VOTES_MAX];
static unsigned n_votes;
static int64_t told_time_us;
static unsigned overwritten; /* calls whose bytes changed before their answer */

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
    told_time_us = time_us;
}

/* --- requests --- */

enum { PLAIN = 0, FENCED = 1000, BLOCK = 2000 };

static void ask_for(node_set to, enum operation operation, unsigned name, uint64_t ticket, int64_t token,
                    uint32_t ttl_ms) {
    static const uint8_t secret[SECRET_BYTES];
    bool former = operation == OPERATION_REFRESH;

    batcher_add(batcher, &(struct send){.operation = operation,
                                        .nodes = to,
                                        .ttl_ms = ttl_ms,
                                        .ticket = ticket,
                                        .token = token,
                                        .token_last = token >= BLOCK ? token + 64 : token,
                                        .secret = secret,
                                        .text = names[name],
                                        .former = former ? secret : NULL,
                                        .former_text = former ? names[name] : NULL});
}

static void ask_nodes(node_set to, enum operation operation, unsigned name, uint64_t ticket, int64_t token) {
    ask_for(to, operation, name, ticket, token, 1000);
}

static void ask(enum operation operation, unsigned name) {
    ask_nodes(1, operation, name, name, FENCED);
}

static void flush(void) {
    for (unsigned i = 0; i < NODES; i++)
        nodes[i].n_calls = 0;
    n_votes = 0;
    told_time_us = -1;
    batcher_flush(batcher, node_list, NULL, 0);
}

/* The index of the first lock among the keys. */
static size_t first_lock(const struct sent_call *call) {
    if (call->script != SCRIPT_ACQUIRE)
        return 0;
    return strcmp(call->items[1], FENCES_KEY) == 0 ? 3 : 1;
}

static size_t count_locks(const struct sent_call *call) {
    size_t count = 0;

    for (size_t i = first_lock(call); i < call->n_keys && strncmp(call->items[i], "redlockd:", 9) != 0; i++)
        count++;
    return count;
}

/* The calls to node 0 as text: "acquire 1 2; release 1;". */
static const char *calls_text(void) {
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

static void answer(unsigned node, const struct sent_call *call, const redisReply *reply) {
    overwritten += hash_of(&call->shared) != call->shared_hash;
    batcher_answered(batcher, NULL, node, call->tag, reply, 0);
}

/* Answers all calls in their order. */
static void answer_all(const redisReply *reply) {
    for (unsigned i = 0; i < NODES; i++)
        for (unsigned j = 0; j < nodes[i].n_calls; j++)
            answer(i, &nodes[i].calls[j], reply);
}

static void calls_are(const char *want, const char *what) {
    flush();
    is_string(calls_text(), want, what);
    answer_all(NULL);
}

/* --- tests --- */

static redisReply integer(long long number) {
    return (redisReply){.type = REDIS_REPLY_INTEGER, .integer = number};
}

static redisReply string(char *text) {
    return (redisReply){.type = REDIS_REPLY_STRING, .str = text, .len = strlen(text)};
}

static redisReply array(redisReply **elements, size_t count) {
    return (redisReply){.type = REDIS_REPLY_ARRAY, .element = elements, .elements = count};
}

static void test_together(void) {
    for (unsigned name = 1; name <= 3; name++) {
        ask(OPERATION_ACQUIRE, name);
        ask(OPERATION_RELEASE, name + 10);
        ask(OPERATION_EXTEND, name + 20);
    }
    ask(OPERATION_RAISE, 30);
    ask(OPERATION_QUERY, 31);
    ask(OPERATION_ACQUIRE, 4);
    ask(OPERATION_RAISE, 32);
    ask(OPERATION_ADOPT, 33);
    calls_are("acquire 1 2 3 4; release 11 12 13; extend 21 22 23; raise 30; query 31; raise 32; adopt 33;",
              "equal requests share a call, whatever comes between; others go alone");
}

static void test_kinds(void) {
    ask_nodes(1, OPERATION_ACQUIRE, 1, 1, PLAIN);
    ask_nodes(1, OPERATION_ACQUIRE, 2, 2, FENCED);
    ask_nodes(1, OPERATION_ACQUIRE, 3, 3, BLOCK);
    ask_nodes(1, OPERATION_ACQUIRE, 4, 4, PLAIN);
    ask_nodes(1, OPERATION_ACQUIRE, 5, 5, FENCED);
    ask_nodes(1, OPERATION_ACQUIRE, 6, 6, BLOCK);
    calls_are("acquire 1 4; acquire 2 5; acquire 3 6;",
              "no fencing, one token, and a block of them: a call each");
    is_int(nodes[0].calls[0].n_items, 1 + 2 + 5 + 2 + 1, "keys and arguments without fencing");
    is_string(nodes[0].calls[0].items[4], "", "no floor");
    is_int(nodes[0].calls[1].n_items, 3 + 2 + 5 + 2 + 2, "with it");
    is_string(nodes[0].calls[1].items[6], "77", "the floor");
    is_int(nodes[0].calls[2].n_items, 3 + 2 + 5 + 2 + 3, "with a block");
    is_string(nodes[0].calls[2].items[14], "2064", "its last token");
}

static void words_are(const struct sent_call *call, size_t from, const char *want, const char *what) {
    char text[256] = "";

    for (size_t i = from; i < call->n_items; i++)
        (void) strcat(strcat(text, i > from ? " " : ""), call->items[i]);
    is_string(text, want, what);
}

/* A value that all names share is sent once. */
static void test_each(void) {
    enum { EACH = 3 + 2 + 4, NUMBERS = EACH + 1 + 2 };

    for (unsigned name = 1; name <= 2; name++)
        ask_nodes(1, OPERATION_ACQUIRE, name, name, BLOCK);
    flush();
    is_string(nodes[0].calls[0].items[EACH], "0", "numbers that are the same for all names");
    words_are(&nodes[0].calls[0], NUMBERS, "1000 2000 2064", "are sent once: ttl, token, last token");
    answer_all(NULL);
    for (unsigned name = 1; name <= 2; name++)
        ask_nodes(1, OPERATION_ACQUIRE, name, name, BLOCK + name);
    flush();
    is_string(nodes[0].calls[0].items[EACH], "1", "names with tokens of their own");
    words_are(&nodes[0].calls[0], NUMBERS, "1000 1000 2001 2002 2065 2066",
              "have a ttl and a last token each");
    answer_all(NULL);
    for (unsigned name = 1; name <= 2; name++)
        ask_for(1, OPERATION_ACQUIRE, name, name, BLOCK, 1000 * name);
    flush();
    is_string(nodes[0].calls[0].items[EACH], "1", "names");
    words_are(&nodes[0].calls[0], NUMBERS, "1000 2000 2000 2000 2064 2064",
              "with different ttls have one each");
    answer_all(NULL);
}

/* Both nodes share the bytes of a call, except for their own words. */
static void test_own_words(void) {
    redisReply good = integer(1);
    redisReply *const all[] = {&good, &good, &good};
    redisReply reply = array((redisReply **) all, 3);

    for (unsigned name = 1; name <= 2; name++) {
        ask_nodes(3, OPERATION_ACQUIRE, name, 100 + name, FENCED);
        ask_nodes(3, OPERATION_EXTEND, 10 + name, 110 + name, FENCED);
        ask_nodes(2, OPERATION_RELEASE, 20 + name, 120 + name, FENCED);
    }
    flush();
    for (unsigned i = 0; i < NODES; i++) {
        is_int(nodes[i].n_calls, 2 + i, "each node gets its calls");
        is_string(nodes[i].calls[0].items[5], nodes[i].epoch, "with its own epoch");
        is_string(nodes[i].calls[0].items[6], i == 0 ? "77" : "78", "and its own floor");
        is_string(nodes[i].calls[1].items[7], nodes[i].epoch, "the same to extend");
    }
    is_string(nodes[1].calls[2].items[0], "21", "a request to one node");
    is_string(nodes[1].calls[2].items[4], RELEASE_CHANNEL, "goes with its channel");
    static struct sent_call late;
    late = nodes[1].calls[0];
    for (unsigned i = 0; i < 2; i++)
        answer(0, &nodes[0].calls[i], &reply);
    for (unsigned i = 1; i < 3; i++)
        answer(1, &nodes[1].calls[i], &reply);
    for (unsigned name = 1; name <= 2; name++)
        ask(OPERATION_ACQUIRE, 30 + name);
    flush();
    answer(1, &late, &reply);
    is_int(n_votes, 2, "the answer of a slow node counts for its call,");
    is_int(votes[0].ticket, 101, "whatever was sent since");
    answer_all(&reply);
    is_int(overwritten, 0, "and a call's bytes are kept until the last node has answered");
}

static void test_down(void) {
    redisReply good = integer(1);
    redisReply *const all[] = {&good, &good};
    redisReply reply = array((redisReply **) all, 2);

    nodes[0].down = true;
    ask_nodes(3, OPERATION_ACQUIRE, 1, 1, FENCED);
    flush();
    is_int(n_votes, 1, "a call that can't be sent to a node is cut off there,");
    is_int(nodes[1].n_calls, 1, "and sent to the other node");
    answer_all(&reply);
    is_int(n_votes, 2, "and its answer arrives");
    nodes[1].down = true;
    for (unsigned name = 1; name <= 3; name++)
        ask_nodes(3, name % 2 ? OPERATION_ACQUIRE : OPERATION_EXTEND, name, name, FENCED);
    flush();
    is_int(n_votes, 2 * 3, "several calls are cut off once each");
    nodes[0].down = nodes[1].down = false;
    calls_are("", "and not sent later");
}

static unsigned heard(unsigned ticket) {
    unsigned count = 0;

    for (unsigned i = 0; i < n_votes; i++)
        count += votes[i].ticket == ticket && votes[i].vote.received;
    return count;
}

/* A node whose user may not publish: its releases count as if a message had a subscriber. */
static void test_mute(void) {
    redisReply gone = integer(1);
    redisReply *const all[] = {&gone, &gone};
    redisReply reply = array((redisReply **) all, 2);

    nodes[1].rights.listen = false;
    ask_nodes(3, OPERATION_RELEASE, 1, 1, FENCED);
    ask_nodes(3, OPERATION_RELEASE, 2, 2, FENCED);
    flush();
    is_string(nodes[0].calls[0].items[4], RELEASE_CHANNEL, "one node publishes");
    is_string(nodes[1].calls[0].items[4], "", "one has no right to publish");
    answer_all(&reply);
    is_int(heard(1), 1, "so only there a subscriber is assumed");
    nodes[1].rights.listen = true;
    ask_nodes(3, OPERATION_RELEASE, 3, 3, FENCED);
    ask_nodes(3, OPERATION_RELEASE, 4, 4, FENCED);
    flush();
    answer_all(&reply);
    is_int(heard(3), 0, "with the right the answer has the number of subscribers");
    redisReply nothing = array(NULL, 0);
    nodes[1].rights.listen = false;
    ask_nodes(3, OPERATION_RELEASE, 5, 5, FENCED);
    flush();
    answer_all(&nothing);
    is_int(heard(5), 1, "and without it the short answer assumes one, too");
    nodes[1].rights.listen = true;
}

static void test_same_key(void) {
    ask(OPERATION_ACQUIRE, 1);
    ask(OPERATION_RELEASE, 1);
    ask(OPERATION_ACQUIRE, 1);
    calls_are("acquire 1; release 1; acquire 1;", "requests for one key keep their order");
    for (unsigned name = 1; name <= 3; name++) {
        ask(OPERATION_RELEASE, name);
        ask(OPERATION_ACQUIRE, name);
    }
    calls_are("release 1 2 3; acquire 1 2 3;", "and share calls where they can");
    ask(OPERATION_ACQUIRE, 1);
    ask(OPERATION_RELEASE, 2);
    ask(OPERATION_ACQUIRE, 2);
    calls_are("acquire 1; release 2; acquire 2;",
              "an acquisition does not join a call from before the release");
    ask(OPERATION_ACQUIRE, 1);
    ask(OPERATION_RAISE, 1);
    ask(OPERATION_ACQUIRE, 2);
    ask(OPERATION_RELEASE, 1);
    calls_are("acquire 1 2; raise 1; release 1;", "nor is a request overtaken that goes alone");
    ask(OPERATION_ACQUIRE, 1);
    ask(OPERATION_ACQUIRE, 1);
    ask(OPERATION_RELEASE, 1);
    ask(OPERATION_RELEASE, 1);
    calls_are("acquire 1; acquire 1; release 1; release 1;", "no call has a key twice");
    ask_nodes(2, OPERATION_RELEASE, 1, 1, FENCED);
    ask(OPERATION_ACQUIRE, 2);
    ask(OPERATION_ACQUIRE, 1);
    calls_are("acquire 2 1;", "another node's requests do not matter");
}

static void test_limits(void) {
    for (unsigned name = 0; name < 2 * BATCH_ACQUIRES_MAX + 3; name++)
        ask_nodes(1, OPERATION_ACQUIRE, name, name, BLOCK + name);
    flush();
    is_int(nodes[0].n_calls, 3, "a call has room for so many names to acquire");
    is_int(count_locks(&nodes[0].calls[1]), BATCH_ACQUIRES_MAX, "all of them");
    is_int(nodes[0].calls[1].n_items, 3 + BATCH_ACQUIRES_MAX + 5 + 4 * BATCH_ACQUIRES_MAX,
           "with their values and numbers");
    is_int(count_locks(&nodes[0].calls[2]), 3, "the others follow in the next call");
    answer_all(NULL);
    for (unsigned name = 0; name < 3 * BATCH_NAMES_MAX; name++)
        ask(OPERATION_EXTEND, name);
    flush();
    is_int(nodes[0].n_calls, 3, "or to extend");
    answer_all(NULL);
}

/* Each node got all of its requests, once, in the order of each key. */
static bool in_order(const struct redis *node, const unsigned (*asked)[2], unsigned count) {
    static bool found[ITEMS_MAX];
    unsigned n_found = 0;

    memset(found, 0, sizeof(found));
    for (unsigned i = 0; i < node->n_calls; i++) {
        const struct sent_call *call = &node->calls[i];
        size_t n = count_locks(call), from = first_lock(call);
        for (size_t k = 0; k < n; k++) {
            unsigned name = (unsigned) strtoul(call->items[from + k], NULL, 10), at = 0;
            while (at < count && (found[at] || asked[at][1] != name))
                at++; /* it must be the first open request of this name */
            if (at == count || asked[at][0] != (unsigned) call->script)
                return false;
            found[at] = true;
            n_found++;
            for (size_t other = 0; other < k; other++)
                if (strcmp(call->items[from + other], call->items[from + k]) == 0)
                    return false;
        }
    }
    return n_found == count;
}

static void test_any_order(void) {
    static const enum script_id scripts[] = {
        [OPERATION_ACQUIRE] = SCRIPT_ACQUIRE, [OPERATION_RAISE] = SCRIPT_RAISE,
        [OPERATION_EXTEND] = SCRIPT_EXTEND,   [OPERATION_REFRESH] = SCRIPT_REFRESH,
        [OPERATION_RELEASE] = SCRIPT_RELEASE, [OPERATION_QUERY] = SCRIPT_QUERY,
        [OPERATION_ADOPT] = SCRIPT_ADOPT,
    };
    static unsigned asked[NODES][ITEMS_MAX][2];
    unsigned wrong = 0, calls = 0, items = 0;
    struct random random;

    random_init(&random, 1);
    for (unsigned turn = 0; turn < 2000; turn++) {
        unsigned counts[NODES] = {0}, n = (unsigned) random_between(&random, 1, 200);
        int64_t most = random_between(&random, 1, 100), kinds = random_between(&random, 0, 6);
        for (unsigned i = 0; i < n; i++) {
            enum operation operation = (enum operation) random_between(&random, 0, kinds);
            unsigned name = (unsigned) random_between(&random, 1, most);
            node_set to = (node_set) random_between(&random, 1, 3);
            ask_nodes(to, operation, name, name, random_between(&random, 0, 2) * FENCED);
            for (unsigned node = 0; node < NODES; node++)
                if (to & (1 << node)) {
                    asked[node][counts[node]][0] = (unsigned) scripts[operation];
                    asked[node][counts[node]++][1] = name;
                }
        }
        flush();
        for (unsigned node = 0; node < NODES; node++) {
            wrong += !in_order(&nodes[node], asked[node], counts[node]);
            calls += nodes[node].n_calls;
            items += counts[node];
        }
        answer_all(NULL);
    }
    is_int(wrong, 0, "each node gets all of its requests, in the order of each key");
    ok(calls < items, "in fewer calls: %u for %u requests", calls, items);
}

static void test_answers(void) {
    char type[] = "string", set[] = "set", value[] = "theirs", nothing[] = "", no[] = "NOPERM no";
    redisReply now = integer(4711), accepted = integer(1), zero = integer(0), far = integer(-1),
               larger = integer(2000), left = integer(500), none = integer(-1), is_text = string(type),
               is_set = string(set), text = string(value), empty = string(nothing), refused = string(no);
    redisReply *const behind[] = {&zero, &larger}, *const beyond[] = {&far, &larger},
                      *const held[] = {&is_text, &text, &left}, *const strange[] = {&is_set, &empty, &none},
                      *const torn[] = {&is_text, &text};
    redisReply small = array((redisReply **) behind, 2), distant = array((redisReply **) beyond, 2),
               foreign = array((redisReply **) held, 3), hash = array((redisReply **) strange, 3),
               short_one = array((redisReply **) torn, 2);
    redisReply *const all[] = {&now, &accepted, &small, &distant, &foreign, &hash, &refused, &short_one};
    redisReply reply = array((redisReply **) all, 8);

    for (unsigned name = 1; name <= 7; name++)
        ask_nodes(1, OPERATION_ACQUIRE, name, 100 + name, FENCED);
    flush();
    answer_all(&reply);
    is_int(n_votes, 7, "a vote for each name");
    is_int(told_time_us, 4711, "and the node's time");
    unsigned in_place = 0;
    for (unsigned i = 0; i < n_votes; i++)
        in_place += votes[i].ticket == 101 + i;
    is_int(in_place, 7, "each has its own");
    ok(votes[0].vote.kind == VOTE_YES && votes[0].vote.token_verdict == TOKEN_ACCEPTED, "taken");
    ok(votes[1].vote.kind == VOTE_YES && votes[1].vote.token_verdict == TOKEN_SMALL,
       "a token that is too small");
    is_int(votes[1].vote.token, 2000, "the largest one");
    ok(votes[2].vote.kind == VOTE_YES && votes[2].vote.token_verdict == TOKEN_FAR,
       "a token too far from the clock");
    ok(votes[3].vote.kind == VOTE_FOREIGN && !votes[3].vote.foreign_type && votes[3].vote.ttl_left_ms == 500,
       "another's");
    is_string(votes[3].vote.text, "theirs", "and that holder's value");
    ok(votes[4].vote.kind == VOTE_FOREIGN && votes[4].vote.foreign_type, "a key that is no lock");
    is_string(votes[4].vote.text, "set", "what");
    is_int(votes[5].vote.kind, VOTE_REFUSED, "a write that the node rejects");
    is_string(votes[5].vote.text, "NOPERM no", "why");
    is_int(votes[6].vote.kind, VOTE_REFUSED, "an answer that the script does not have is no vote");
}

/* The usual answers are short. */
static void test_all_well(void) {
    redisReply now = integer(4711);
    redisReply *const only[] = {&now};
    redisReply brief = array((redisReply **) only, 1), none = array(NULL, 0);

    for (unsigned name = 1; name <= 3; name++) {
        ask(OPERATION_ACQUIRE, name);
        ask(OPERATION_EXTEND, 10 + name);
    }
    flush();
    answer_all(&brief);
    unsigned yes = 0;
    for (unsigned i = 0; i < n_votes; i++)
        yes += votes[i].vote.kind == VOTE_YES && votes[i].vote.token_verdict == TOKEN_ACCEPTED;
    is_int(yes, 6, "TIME alone: all were acquired with their tokens, or extended");
    is_int(told_time_us, 4711, "then");
    for (unsigned name = 1; name <= 3; name++)
        ask(OPERATION_RELEASE, name);
    flush();
    answer_all(&none);
    yes = 0;
    for (unsigned i = 0; i < n_votes; i++)
        yes += votes[i].vote.kind == VOTE_YES && !votes[i].vote.received;
    is_int(yes, 3, "nothing: all were deleted, and no message had a subscriber");
    ask(OPERATION_RELEASE, 1);
    ask(OPERATION_ADOPT, 2);
    flush();
    answer_all(&brief);
    ok(votes[1].vote.kind == VOTE_REFUSED, "an adoption is answered for each name");
}

/* An answer for a whole call counts for each name. */
static void all_vote(const redisReply *reply, enum vote_kind kind, const char *what) {
    unsigned good = 0;

    for (unsigned name = 1; name <= 3; name++)
        ask(OPERATION_ACQUIRE, name);
    flush();
    answer_all(reply);
    for (unsigned i = 0; i < n_votes; i++)
        good += votes[i].vote.kind == kind && votes[i].ticket == 1 + i;
    is_int(good, 3, what);
    is_int(told_time_us, -1, "an error has no TIME");
}

static void test_all_alike(void) {
    char epoch[] = "EPOCH changed", no[] = "ERR no";
    redisReply changed = {.type = REDIS_REPLY_ERROR, .str = epoch, .len = strlen(epoch)},
               error = {.type = REDIS_REPLY_ERROR, .str = no, .len = strlen(no)}, nobody = integer(1),
               none = array(NULL, 0), word = string(no);
    redisReply *const only[] = {&word};
    redisReply wordy = array((redisReply **) only, 1);

    all_vote(NULL, VOTE_CUT, "a broken connection cuts off each name");
    all_vote(&changed, VOTE_EPOCH, "a node that lost its memory votes so on each");
    all_vote(&error, VOTE_REFUSED, "a rejected call is rejected for each");
    all_vote(&nobody, VOTE_REFUSED, "so is another answer");
    all_vote(&none, VOTE_REFUSED, "or an answer for fewer names");
    all_vote(&wordy, VOTE_REFUSED, "or no time");
    nodes[0].down = true;
    all_vote(NULL, VOTE_CUT, "what can't be sent is cut off");
    nodes[0].down = false;
}

/* The agent's user has no right to one of the keys. */
static void test_key_refused(void) {
    char no[] = "NOPERM this user has no permissions to access one of the keys";
    redisReply refused = {.type = REDIS_REPLY_ERROR, .str = no, .len = strlen(no)};

    ask(OPERATION_ACQUIRE, 1);
    flush();
    answer_all(&refused);
    all_vote(&refused, VOTE_REFUSED, "a call is rejected for one of its keys");
    for (unsigned name = 1; name <= 3; name++) {
        ask_nodes(3, OPERATION_ACQUIRE, name, name, FENCED);
        ask_nodes(3, OPERATION_RELEASE, name, name, FENCED);
    }
    flush();
    is_string(calls_text(), "acquire 1; release 1; acquire 2; release 2; acquire 3; release 3;",
              "from then on names go alone to that node");
    is_int(nodes[1].n_calls, 2, "but not to others");
    answer_all(NULL);
    for (unsigned name = 1; name <= 3; name++)
        ask(OPERATION_EXTEND, name);
    calls_are("extend 1 2 3;", "extensions still share calls");
}

int main(void) {
    static char nothing[] = "", host[] = "host", number[16];
    static const struct config config = {.n_nodes = NODES,
                                         .fence_skew_ms = 60000,
                                         .fence_retention_ms = 3600000,
                                         .key_prefix = nothing,
                                         .key_suffix = nothing,
                                         .host = host};

    shared_string_pool_init(&texts, text_memory, sizeof(text_memory));
    for (unsigned i = 0; i < NAMES_MAX; i++) {
        int length = snprintf(number, sizeof(number), "%u", i);
        names[i] = shared_string_new(&texts, number, (size_t) length, NULL, 0);
        if (!names[i])
            abort();
    }
    if (batcher_new(&config, "0123", &batcher) < 0)
        abort();
    test_together();
    test_kinds();
    test_each();
    test_own_words();
    test_down();
    test_mute();
    test_same_key();
    test_limits();
    test_any_order();
    test_answers();
    test_all_well();
    test_all_alike();
    test_key_refused();
    is_int(overwritten, 0, "no call's bytes changed before the last answer");
    batcher = batcher_free(batcher);
    return done_testing();
}
