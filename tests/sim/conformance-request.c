/* Requests for leases, by the scripts that ship: of one name, and of several names in one call. */

#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "node.h"
#include "io/node/key-names.h"
#include "io/node/redis.h"
#include "io/node/reply-number.h"

enum {
    TOKEN_SKEW_MS = 1000 * 1000, /* so large that tokens near the floor are within it */
    TOKEN_FAR_US = 2000 * 1000 * 1000,
};

#define TOKEN_SKEW_US "1000000000"

enum { AGENTS_BYTES = 64 };

static void put_value(unsigned secret, unsigned owner, char ret[VALUE_BYTES]) {
    uint8_t bytes[SECRET_BYTES];

    secret_of(secret, bytes);
    value_of(bytes, owner, ret);
}

/* `index`: the name's place in the call. */
static enum vote_kind vote_of(enum operation operation, const redisReply *reply, unsigned index) {
    if (reply->type == REDIS_REPLY_ERROR)
        return strncmp(reply->str, "EPOCH", 5) == 0 ? VOTE_EPOCH : VOTE_REFUSED;
    if (operation == OPERATION_RAISE)
        return reply->element[0]->integer == 1    ? VOTE_YES
               : reply->element[0]->integer == -2 ? VOTE_FOREIGN
                                                  : VOTE_BEHIND;
    if (operation == OPERATION_RELEASE || (operation == OPERATION_EXTEND && reply->elements == 1))
        return VOTE_YES;
    if (operation == OPERATION_QUERY)
        return strcmp(reply->element[0]->str, "none") == 0 ? VOTE_FREE : VOTE_FOREIGN;
    switch (reply->element[operation == OPERATION_REFRESH ? 0 : 1 + index]->integer) {
    case 1:
        return VOTE_YES;
    case 2:
        return operation == OPERATION_ADOPT || operation == OPERATION_SEARCH ? VOTE_FREE : VOTE_REPAIRED;
    default:
        return VOTE_FOREIGN;
    }
}

/* The answer to an extension or a refresh has the foreign value, unless the key is missing. */
static void compare_foreign(const redisReply *answer, unsigned name, const struct sim_reply *simulated) {
    char value[VALUE_BYTES] = FOREIGN_VALUE;

    if (!node.data.keys[name].set) {
        if (answer->type != REDIS_REPLY_INTEGER)
            fail("a missing key has a value");
        return;
    }
    if (simulated->owner != 0)
        value_of(simulated->secret, simulated->owner, value);
    if (answer->type != REDIS_REPLY_ARRAY || answer->elements != 1 ||
        strcmp(answer->element[0]->str, value) != 0)
        fail("the answer does not have the foreign value");
}

/* Compares verdict and largest token of a real answer. */
static void compare_token(int64_t verdict, int64_t token, const struct sim_reply *simulated) {
    static const enum token_verdict verdicts[] = {TOKEN_FAR, TOKEN_SMALL, TOKEN_ACCEPTED};

    if (verdict < -1 || verdict > 1 || verdicts[verdict + 1] != simulated->token_verdict)
        fail("the verdicts on a token differ");
    if (token - known_floor_us() != simulated->token - known_sim_floor_us)
        fail("the largest tokens differ");
}

/* `former`: the former lock value, or NULL. `agents`: whose values a search replaces. */
static redisReply *run_request(enum operation operation, const char *key, const char *value,
                               const char *former, const char *agents, int64_t token_distance,
                               int64_t last_distance, bool quiet) {
    char token[32], last[32], floor_us[32];
    int more = last_distance != token_distance;

    (void) snprintf(floor_us, sizeof(floor_us), "%lld", (long long) known_floor_us());
    (void) snprintf(token, sizeof(token), "%lld", (long long) (known_floor_us() + token_distance));
    (void) snprintf(last, sizeof(last), "%lld", (long long) (known_floor_us() + last_distance));
    const char *const raise[] = {key,   EPOCH_KEY,   FENCES_KEY, FORMER_FENCES_KEY, value,
                                 token, known_epoch, floor_us,   TOKEN_SKEW_US,     last};
    const char *const refresh[] = {key,         EPOCH_KEY, FENCES_KEY, FORMER_FENCES_KEY, value, "100000",
                                   known_epoch, former,    token};
    const char *const channel = quiet ? "" : RELEASE_CHANNEL;
    const char *const both[] = {key, value, former, channel};
    const char *const extend[] = {key, EPOCH_KEY, value, "100000", known_epoch};
    const char *const plain[] = {key, value, channel};
    const char *const search[] = {key, EPOCH_KEY, value, "100000", known_epoch, agents};
    switch (operation) {
    case OPERATION_RAISE:
        return run(SCRIPT_RAISE, 9 + more, raise, 4);
    case OPERATION_EXTEND:
        return run(SCRIPT_EXTEND, 5, extend, 2);
    case OPERATION_REFRESH:
        return run(SCRIPT_REFRESH, 9, refresh, 4);
    case OPERATION_ADOPT:
        return run(SCRIPT_ADOPT, 5, extend, 2);
    case OPERATION_SEARCH:
        return run(SCRIPT_ADOPT, 6, search, 2);
    case OPERATION_RELEASE:
        return run(SCRIPT_RELEASE, former ? 4 : 3, former ? both : plain, 1);
    case OPERATION_ACQUIRE:
    case OPERATION_QUERY:
        break;
    }
    return run(SCRIPT_QUERY, 1, plain, 1);
}

/* One of the names of a call. */
struct wish {
    unsigned name, secret;
    int64_t distance, last; /* of the tokens */
};

static bool same_tokens(const struct wish *wishes, unsigned count) {
    for (unsigned i = 1; i < count; i++)
        if (wishes[i].distance != wishes[0].distance || wishes[i].last != wishes[0].last)
            return false;
    return true;
}

static redisReply *run_acquire(const struct wish *wishes, unsigned count, unsigned owner, bool fencing,
                               bool blocks) {
    static const char *const first[] = {EPOCH_KEY, FENCES_KEY, FORMER_FENCES_KEY};
    char keys[SIM_NAMES][2], values[SIM_NAMES][VALUE_BYTES], tokens[SIM_NAMES][32], lasts[SIM_NAMES][32],
        floor_us[32];
    const char *items[ITEMS_MAX];
    bool each = chance(50) || (fencing && !same_tokens(wishes, count));
    unsigned n_first = fencing ? 3 : 1, n_numbers = each ? count : 1;
    unsigned n_keys = n_first + count, n = n_keys + 5;

    (void) snprintf(floor_us, sizeof(floor_us), "%lld", (long long) known_floor_us());
    memcpy(items, first, sizeof(first));
    items[n_keys] = known_epoch;
    items[n_keys + 1] = fencing ? floor_us : "";
    items[n_keys + 2] = TOKEN_SKEW_US;
    items[n_keys + 3] = "100000";
    items[n_keys + 4] = each ? "1" : "0";
    for (unsigned i = 0; i < count; i++) {
        key_of(wishes[i].name, keys[i]);
        put_value(wishes[i].secret, owner, values[i]);
        items[n_first + i] = keys[i];
        items[n++] = values[i];
    }
    for (unsigned i = 0; i < n_numbers; i++) {
        (void) snprintf(tokens[i], sizeof(tokens[i]), "%lld",
                        (long long) (known_floor_us() + wishes[i].distance));
        (void) snprintf(lasts[i], sizeof(lasts[i]), "%lld", (long long) (known_floor_us() + wishes[i].last));
        items[n + i] = "100000";
        items[n + n_numbers + i] = tokens[i];
        items[n + 2 * n_numbers + i] = lasts[i];
    }
    unsigned fields = !fencing ? 1 : blocks ? 3 : 2;
    return run(SCRIPT_ACQUIRE, (int) (n + fields * n_numbers), items, (int) n_keys);
}

/* Compares the real answer for one name with the simulated one. NULL: the short answer, all names
 * acquired. */
static void compare_acquired(const redisReply *answer, unsigned name, const struct sim_reply *simulated,
                             bool fencing) {
    bool accepted = !answer || answer->type == REDIS_REPLY_INTEGER;
    int64_t real[2];

    if (simulated->kind != (accepted || answer->elements == 2 ? VOTE_YES : VOTE_FOREIGN))
        fail("the answers differ");
    if (accepted && answer && answer->integer != 1)
        fail("the answer for a name is neither 1 nor an array");
    if (simulated->kind != VOTE_YES || !fencing)
        return;
    read_fence(name, real);
    if (accepted)
        compare_token(1, real[0], simulated);
    else
        compare_token(answer->element[0]->integer, answer->element[1]->integer, simulated);
}

/* A request of an agent that knows the epoch of the last probe. */
static struct sim_request request_of(enum operation operation, unsigned owner, unsigned secret) {
    struct sim_request request = {.operation = operation,
                                  .ttl_ms = LONG_TTL_MS,
                                  .owner = owner,
                                  .epoch = known_sim_epoch,
                                  .floor_us = known_sim_floor_us,
                                  .generation = known_sim_generation,
                                  .fence_skew_ms = TOKEN_SKEW_MS};

    secret_of(secret, request.secret);
    return request;
}

/* Acquires some names in one call. The effect must equal that of one call a name, in order. */
void step_acquire(void) {
    unsigned count = (unsigned) pick(1, SIM_NAMES), owner = (unsigned) pick(1, 2);
    unsigned first = (unsigned) pick(0, SIM_NAMES - 1);
    bool fencing = chance(80), blocks = chance(50), alike = chance(50);
    struct wish wishes[SIM_NAMES];

    for (unsigned i = 0; i < count; i++) {
        int64_t distance = chance(90) ? pick(-1, 4) : TOKEN_FAR_US;
        if (i > 0 && alike) {
            wishes[i] = wishes[0];
            wishes[i].name = (first + i) % SIM_NAMES;
            continue;
        }
        wishes[i] = (struct wish){(first + i) % SIM_NAMES, (unsigned) pick(0, SECRETS - 1), distance,
                                  distance + (blocks ? pick(0, 3) : 0)};
    }
    redisReply *reply = run_acquire(wishes, count, owner, fencing, blocks);
    bool refused = reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "EPOCH", 5) == 0;
    bool brief = !refused && reply->type == REDIS_REPLY_ARRAY && reply->elements == 1;
    if (!refused && !brief && (reply->type != REDIS_REPLY_ARRAY || reply->elements != 1 + count))
        fail("the number of answers is not that of the names");
    for (unsigned i = 0; i < count; i++) {
        struct sim_request request = request_of(OPERATION_ACQUIRE, owner, wishes[i].secret);
        request.token = fencing ? known_sim_floor_us + wishes[i].distance : 0;
        request.token_last = fencing ? known_sim_floor_us + wishes[i].last : 0;
        (void) snprintf(history + strlen(history), sizeof(history) - strlen(history),
                        " %s %u %u/%u %lld to %lld%s;", i > 0 ? "and" : "acquire", wishes[i].name,
                        wishes[i].secret, owner, (long long) wishes[i].distance, (long long) wishes[i].last,
                        fencing ? "" : " without fencing");
        const struct sim_reply simulated = node_execute(&node, wishes[i].name, &request);
        if (refused != (simulated.kind == VOTE_EPOCH))
            fail("the epochs differ");
        if (!refused)
            compare_acquired(brief ? NULL : reply->element[1 + i], wishes[i].name, &simulated, fencing);
    }
    freeReplyObject(reply);
}

/* Whether a release was published. Without answers, all keys were deleted and nothing was published. */
static bool is_published(const redisReply *reply, unsigned index) {
    return reply->elements > index && reply->element[index]->integer == 2;
}

/* This process, and perhaps the one before it. Returns its predecessors. */
static uint32_t put_agents(unsigned owner, char ret[AGENTS_BYTES]) {
    bool before = owner > 1 && chance(50);

    (void) snprintf(ret, AGENTS_BYTES, ":host:%08x:", owner);
    if (before)
        (void) snprintf(ret + strlen(ret), AGENTS_BYTES - strlen(ret), ":host:%08x:", owner - 1);
    return before;
}

void step_request(void) {
    static const char *const words[] = {"acquire", "raise", "extend", "refresh",
                                        "release", "query", "adopt",  "search"};
    enum operation operation = (enum operation) pick(OPERATION_RAISE, OPERATION_SEARCH);
    unsigned name = (unsigned) pick(0, SIM_NAMES - 1), secret = (unsigned) pick(0, SECRETS - 1);
    unsigned owner = (unsigned) pick(1, 2);
    bool quiet = chance(30);
    int64_t distance = chance(90) ? pick(-1, 4) : TOKEN_FAR_US,
            last = distance + (chance(50) ? pick(0, 3) : 0);
    unsigned former_secret = (unsigned) pick(0, SECRETS - 1);
    bool has_former = operation == OPERATION_REFRESH || (operation == OPERATION_RELEASE && chance(50));
    char key[2], value[VALUE_BYTES], former[VALUE_BYTES], agents[AGENTS_BYTES];
    struct sim_request request = request_of(operation, owner, secret);

    key_of(name, key);
    put_value(secret, owner, value);
    put_value(former_secret, owner, former);
    request.predecessors = put_agents(owner, agents);
    redisReply *reply =
        run_request(operation, key, value, has_former ? former : NULL, agents, distance, last, quiet);
    published = false;
    request.quiet = quiet;
    request.token = known_sim_floor_us + distance;
    request.token_last = known_sim_floor_us + last;
    request.has_former = has_former;
    secret_of(former_secret, request.former);
    (void) snprintf(history + strlen(history), sizeof(history) - strlen(history),
                    " %s %s %u/%u (%u) %lld to %lld;", words[operation], key, secret, owner,
                    has_former ? former_secret : SECRETS, (long long) distance, (long long) last);
    enum vote_kind real = vote_of(operation, reply, 0);
    const struct sim_reply simulated = node_execute(&node, name, &request);
    /* The simulated node ignores values in a query. */
    if (real != simulated.kind && operation != OPERATION_QUERY)
        fail("the answers differ");
    if (operation == OPERATION_RELEASE && is_published(reply, 0) != published)
        fail("one of the two nodes published the release");
    if (real == VOTE_FOREIGN && (operation == OPERATION_EXTEND || operation == OPERATION_REFRESH))
        compare_foreign(reply->element[operation == OPERATION_EXTEND], name, &simulated);
    if (operation == OPERATION_RAISE && (real == VOTE_YES || real == VOTE_BEHIND))
        compare_token(reply->element[0]->integer, reply->element[2]->integer, &simulated);
    freeReplyObject(reply);
}

static redisReply *run_together(enum operation operation, const unsigned secrets[SIM_NAMES],
                                unsigned owner) {
    char keys[SIM_NAMES][2], values[SIM_NAMES][VALUE_BYTES];
    bool release = operation == OPERATION_RELEASE;
    const char *items[ITEMS_MAX];
    unsigned n_keys = SIM_NAMES, n;

    for (unsigned i = 0; i < SIM_NAMES; i++) {
        key_of(i, keys[i]);
        items[i] = keys[i];
    }
    if (!release)
        items[n_keys++] = EPOCH_KEY;
    n = n_keys;
    for (unsigned i = 0; i < SIM_NAMES; i++) {
        put_value(secrets[i], owner, values[i]);
        items[n++] = values[i];
    }
    for (unsigned i = 0; i < SIM_NAMES && !release; i++)
        items[n++] = "100000";
    items[n++] = release ? RELEASE_CHANNEL : known_epoch;
    return run(release                         ? SCRIPT_RELEASE
               : operation == OPERATION_EXTEND ? SCRIPT_EXTEND
                                               : SCRIPT_ADOPT,
               (int) n, items, (int) n_keys);
}

/* All names in one call of a kind that takes several names, except acquisitions. */
void step_together(void) {
    static const enum operation operations[] = {OPERATION_EXTEND, OPERATION_RELEASE, OPERATION_ADOPT};
    enum operation operation = operations[pick(0, 2)];
    unsigned owner = (unsigned) pick(1, 2), secrets[SIM_NAMES];

    for (unsigned i = 0; i < SIM_NAMES; i++)
        secrets[i] = (unsigned) pick(0, SECRETS - 1);
    redisReply *reply = run_together(operation, secrets, owner);
    for (unsigned i = 0; i < SIM_NAMES; i++) {
        const struct sim_request request = request_of(operation, owner, secrets[i]);
        (void) snprintf(history + strlen(history), sizeof(history) - strlen(history), " %u %u %u/%u%s",
                        operation, i, secrets[i], owner, i + 1 < SIM_NAMES ? " and" : ";");
        published = false;
        const struct sim_reply simulated = node_execute(&node, i, &request);
        if (vote_of(operation, reply, i) != simulated.kind)
            fail("the answers differ in a call of several names");
        if (operation == OPERATION_RELEASE && is_published(reply, i) != published)
            fail("one of the two nodes published the release, in a call of several names");
    }
    freeReplyObject(reply);
}
