/* conformance REDIS-SOCKET SEED SEQUENCES: compares the simulated node with a real server. Both execute the
 * same random requests, the server by the scripts that ship. After each request, answers and keys must be
 * equal. */

#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/node/epoch.h"
#include "io/node/key-names.h"
#include "io/node/redis.h"
#include "io/node/reply-number.h"
#include "io/node/script.h"
#include "sim.h"

#define FORMER_RUN_ID "f0123456789"

enum {
    STEPS = 40,
    SECRETS = 3,
    MARKS = 3,
    CONFORMANCE_NODES = 2, /* nodes of the agents, with their addresses */
    FORMER_PROCESS = 999,  /* the process of the node before a restart with its data */
    LONG_TTL_MS = 100000,
    BLESSING_SKEW_MS = 5000,
    TOKEN_SKEW_MS = 1000 * 1000, /* so large that tokens near the floor are within it */
    TOKEN_FAR_US = 2000 * 1000 * 1000,
    ITEMS_MAX = 32, /* of a script call */
};

#define TOKEN_SKEW_US "1000000000"

/* The parts of the simulated world that node.c needs. There are no events here but requests. */
int64_t sim_now_ns = 1;
struct random sim_random;
struct sim_counts sim_counts;
uint32_t sim_fence_skew_ms;
unsigned sim_last_blessed;

int64_t pick(int64_t low, int64_t high) {
    return random_between(&sim_random, low, high);
}

int64_t clock_read(const struct clock *clock) {
    return clock->offset_ns + sim_now_ns;
}

void trace(const char *format, ...) {
    (void) format;
}

void clients_check_deletion(unsigned name, const uint8_t secret[SECRET_BYTES]) {
    (void) name;
    (void) secret;
}

static bool published; /* by the simulated node */

void pubsub_publish(const struct sim_node *of, unsigned name) {
    (void) of;
    (void) name;
    published = true;
}

static redisContext *server, *subscriber;
static struct sim_node node;
static char known_epoch[EPOCH_BYTES_MAX]; /* from the last probe */
static uint32_t known_sim_epoch;
static int64_t known_sim_floor_us;
static uint32_t known_sim_generation;
static char history[STEPS * SIM_NAMES * 128];

static _Noreturn void fail(const char *what) {
    (void) printf("not ok 1 - the simulated node answers like a real server\n# %s, after:%s\n1..1\n", what,
                  history);
    exit(1);
}

static redisReply *run(enum script_id script, int argc, const char *const *argv, int n_keys) {
    const char *all[3 + ITEMS_MAX] = {"EVAL", script_sources[script].text};
    char keys[12];

    (void) snprintf(keys, sizeof(keys), "%d", n_keys);
    all[2] = keys;
    for (int i = 0; i < argc; i++)
        all[3 + i] = argv[i];
    redisReply *reply = redisCommandArgv(server, argc + 3, all, NULL);
    if (!reply)
        fail("the server is gone");
    return reply;
}

static void key_of(unsigned name, char ret[2]) {
    ret[0] = (char) ('0' + name);
    ret[1] = '\0';
}

enum { VALUE_BYTES = 80 };

/* Secrets differ in their first byte. */
static void value_of(unsigned secret, unsigned owner, char ret[VALUE_BYTES]) {
    (void) snprintf(ret, VALUE_BYTES, "%040u:host:%08x:%u:1000:data:", secret, owner, 7 + owner);
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
        return operation == OPERATION_ADOPT ? VOTE_FREE : VOTE_REPAIRED;
    default:
        return VOTE_FOREIGN;
    }
}

/* Tokens are compared by their distance from the floor, since the two nodes have different floors. */
static int64_t known_floor_us(void) {
    struct epoch epoch;
    return epoch_read(known_epoch, &epoch) ? epoch.floor_us : 0;
}

/* Compares verdict and largest token of a real answer. */
static void compare_token(int64_t verdict, int64_t token, const struct sim_reply *simulated) {
    static const enum token_verdict verdicts[] = {TOKEN_FAR, TOKEN_SMALL, TOKEN_ACCEPTED};

    if (verdict < -1 || verdict > 1 || verdicts[verdict + 1] != simulated->token_verdict)
        fail("the verdicts on a token differ");
    if (token - known_floor_us() != simulated->token - known_sim_floor_us)
        fail("the largest tokens differ");
}

/* `former`: the former lock value, or NULL. */
static redisReply *run_request(enum operation operation, const char *key, const char *value,
                               const char *former, int64_t token_distance, int64_t last_distance,
                               bool quiet) {
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
    switch (operation) {
    case OPERATION_RAISE:
        return run(SCRIPT_RAISE, 9 + more, raise, 4);
    case OPERATION_EXTEND:
        return run(SCRIPT_EXTEND, 5, extend, 2);
    case OPERATION_REFRESH:
        return run(SCRIPT_REFRESH, 9, refresh, 4);
    case OPERATION_ADOPT:
        return run(SCRIPT_ADOPT, 5, extend, 2);
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
        value_of(wishes[i].secret, owner, values[i]);
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

/* The largest token that the node has accepted, and the holder's token. */
static void read_fence(unsigned name, int64_t ret[2]) {
    redisReply *reply = redisCommand(server, "HGET " FENCES_KEY " %u", name);

    if (reply && reply->type == REDIS_REPLY_NIL) {
        freeReplyObject(reply);
        reply = redisCommand(server, "HGET " FORMER_FENCES_KEY " %u", name);
    }
    if (!reply)
        fail("the server is gone");
    ret[0] = ret[1] = 0;
    if (reply->type == REDIS_REPLY_STRING) {
        const char *blank = strchr(reply->str, ' ');
        ret[0] = strtoll(reply->str, NULL, 10);
        ret[1] = blank ? strtoll(blank, NULL, 10) : ret[0];
    }
    freeReplyObject(reply);
}

/* Compares the real answer for one name with the simulated one. NULL: the short answer, all names acquired.
 */
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

/* Acquires some names in one call. The effect must be that of one call a name, in order. */
static void step_acquire(void) {
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
    sim_fence_skew_ms = TOKEN_SKEW_MS;
    for (unsigned i = 0; i < count; i++) {
        struct sim_request request = {0};
        request.operation = OPERATION_ACQUIRE;
        request.ttl_ms = LONG_TTL_MS;
        request.owner = owner;
        request.epoch = known_sim_epoch;
        request.floor_us = known_sim_floor_us;
        request.generation = known_sim_generation;
        request.token = fencing ? known_sim_floor_us + wishes[i].distance : 0;
        request.token_last = fencing ? known_sim_floor_us + wishes[i].last : 0;
        memset(request.secret, (int) wishes[i].secret, SECRET_BYTES);
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

static void step_request(void) {
    static const char *const words[] = {"acquire", "raise", "extend", "refresh",
                                        "release", "query", "adopt"};
    enum operation operation = (enum operation) pick(OPERATION_RAISE, OPERATION_ADOPT);
    unsigned name = (unsigned) pick(0, SIM_NAMES - 1), secret = (unsigned) pick(0, SECRETS - 1);
    unsigned owner = (unsigned) pick(1, 2);
    bool quiet = chance(30);
    int64_t distance = chance(90) ? pick(-1, 4) : TOKEN_FAR_US,
            last = distance + (chance(50) ? pick(0, 3) : 0);
    unsigned former_secret = (unsigned) pick(0, SECRETS - 1);
    bool has_former = operation == OPERATION_REFRESH || (operation == OPERATION_RELEASE && chance(50));
    char key[2], value[VALUE_BYTES], former[VALUE_BYTES];
    struct sim_request request = {0};

    key_of(name, key);
    value_of(secret, owner, value);
    value_of(former_secret, owner, former);
    redisReply *reply =
        run_request(operation, key, value, has_former ? former : NULL, distance, last, quiet);
    published = false;
    request.quiet = quiet;
    request.operation = operation;
    request.ttl_ms = LONG_TTL_MS;
    request.owner = owner;
    request.epoch = known_sim_epoch;
    request.floor_us = known_sim_floor_us;
    request.generation = known_sim_generation;
    request.token = known_sim_floor_us + distance;
    request.token_last = known_sim_floor_us + last;
    request.has_former = has_former;
    memset(request.former, (int) former_secret, SECRET_BYTES);
    memset(request.secret, (int) secret, SECRET_BYTES);
    (void) snprintf(history + strlen(history), sizeof(history) - strlen(history),
                    " %s %s %u/%u (%u) %lld to %lld;", words[operation], key, secret, owner,
                    has_former ? former_secret : SECRETS, (long long) distance, (long long) last);
    enum vote_kind real = vote_of(operation, reply, 0);
    sim_fence_skew_ms = TOKEN_SKEW_MS;
    const struct sim_reply simulated = node_execute(&node, name, &request);
    /* The simulated node ignores values in a query. */
    if (real != simulated.kind && operation != OPERATION_QUERY)
        fail("the answers differ");
    if (operation == OPERATION_RELEASE && is_published(reply, 0) != published)
        fail("one of the two nodes published the release");
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
        value_of(secrets[i], owner, values[i]);
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
static void step_together(void) {
    static const enum operation operations[] = {OPERATION_EXTEND, OPERATION_RELEASE, OPERATION_ADOPT};
    enum operation operation = operations[pick(0, 2)];
    unsigned owner = (unsigned) pick(1, 2), secrets[SIM_NAMES];

    for (unsigned i = 0; i < SIM_NAMES; i++)
        secrets[i] = (unsigned) pick(0, SECRETS - 1);
    redisReply *reply = run_together(operation, secrets, owner);
    for (unsigned i = 0; i < SIM_NAMES; i++) {
        struct sim_request request = {0};
        request.operation = operation;
        request.ttl_ms = LONG_TTL_MS;
        request.owner = owner;
        request.epoch = known_sim_epoch;
        request.floor_us = known_sim_floor_us;
        request.generation = known_sim_generation;
        memset(request.secret, (int) secrets[i], SECRET_BYTES);
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

/* An agent of one of two fleets, with two nodes at one of two addresses each. */
static void choose_agent(struct event *probe) {
    static const uint32_t max_ttls_ms[] = {1000, 2000, 60000};
    struct sim_probe *asks = &probe->as.probe;

    probe->keeper = chance(50);
    asks->fleet = 1 + (chance(30) ? 1 : 0);
    asks->quarantine = chance(70);
    asks->max_ttl_ms = max_ttls_ms[pick(0, 2)];
    asks->covered_ms = chance(50) ? asks->max_ttl_ms : 60000;
    asks->n_nodes = CONFORMANCE_NODES;
    for (unsigned i = 0; i < CONFORMANCE_NODES; i++) {
        asks->names[i] = (uint8_t) i;
        asks->at[i] = (uint8_t) (2 * i + (chance(20) ? 1 : 0));
    }
    asks->known = (node_set) pick(0, (1 << CONFORMANCE_NODES) - 1);
    asks->mark = (uint64_t) pick(1, MARKS);
    asks->former = chance(30) ? FORMER_PROCESS : 0;
}

static redisReply *run_probe(const struct event *probe) {
    const struct sim_probe *asks = &probe->as.probe;
    char number[8], fleet[8], max_ttl[16], floor_us[24], addresses[CONFORMANCE_NODES][8];
    static const char *const names[CONFORMANCE_NODES] = {"x", "y"};

    (void) snprintf(number, sizeof(number), "%u", (unsigned) asks->mark);
    (void) snprintf(fleet, sizeof(fleet), "f%u", asks->fleet);
    (void) snprintf(max_ttl, sizeof(max_ttl), "%u", asks->max_ttl_ms);
    (void) snprintf(floor_us, sizeof(floor_us), "%lld",
                    (long long) (asks->withdraw_us != 0 ? known_floor_us() : 0));
    const char *items[15 + 3 * CONFORMANCE_NODES] = {EPOCH_KEY,
                                                     "redlockd:quarantine",
                                                     "redlockd:nodes",
                                                     probe->keeper ? "1" : "0",
                                                     number,
                                                     "100000",
                                                     asks->leave ? "1" : "0",
                                                     floor_us,
                                                     asks->former != 0 ? FORMER_RUN_ID : "",
                                                     asks->disown ? "1" : "0",
                                                     fleet,
                                                     "for people",
                                                     max_ttl,
                                                     asks->quarantine ? "1" : "0",
                                                     "settings"};
    for (unsigned i = 0; i < CONFORMANCE_NODES; i++) {
        (void) snprintf(addresses[i], sizeof(addresses[i]), "at%u", asks->at[i]);
        items[15 + 3 * i] = names[i];
        items[15 + 3 * i + 1] = addresses[i];
        items[15 + 3 * i + 2] = asks->known & node_set_of(i) ? "1" : "0";
    }
    return run(SCRIPT_PROBE, 15 + 3 * CONFORMANCE_NODES, items, 3);
}

static redisReply *run_bless(const struct event *probe) {
    const struct sim_probe *asks = &probe->as.probe;
    char number[8], fleet[8], max_ttl[16], covered[16];

    (void) snprintf(number, sizeof(number), "%u", (unsigned) asks->mark);
    (void) snprintf(fleet, sizeof(fleet), "f%u", asks->fleet);
    (void) snprintf(max_ttl, sizeof(max_ttl), "%u", asks->max_ttl_ms);
    (void) snprintf(covered, sizeof(covered), "%u", asks->covered_ms);
    const char *const items[] = {EPOCH_KEY,
                                 "redlockd:quarantine",
                                 "redlockd:marks",
                                 probe->keeper ? "1" : "0",
                                 number,
                                 max_ttl,
                                 "5000000",
                                 asks->former != 0 ? FORMER_RUN_ID : "",
                                 covered,
                                 fleet,
                                 asks->quarantine ? "rested" : "unrested"};
    return run(SCRIPT_BLESS, 11, items, 3);
}

static redisReply *run_amend(const struct event *probe, const struct epoch *epoch) {
    char fleet[8], amended[EPOCH_BYTES_MAX];

    (void) snprintf(fleet, sizeof(fleet), "f%u", probe->as.probe.fleet);
    epoch_amend(epoch, &probe->as.probe.amendment, fleet, amended);
    const char *const items[] = {EPOCH_KEY, known_epoch, amended};
    return run(SCRIPT_AMEND, 3, items, 1);
}

static void compare_epoch(const char *text, const struct probe *answer, uint32_t fleet) {
    struct epoch epoch;

    if (!epoch_read(text, &epoch))
        fail("the epoch is malformed");
    if (epoch.max_ttl_ms != answer->max_ttl_ms || epoch.proposed_ms != answer->proposed_ms ||
        epoch.generation != answer->generation || epoch.rested != answer->rested)
        fail("the epochs differ");
    if (((uint32_t) (epoch.fleet[1] - '0') != fleet) != answer->foreign)
        fail("the fleets differ");
}

/* Compares what a probe returns besides epoch and mark. */
static void compare_knowledge(const redisReply *reply, const struct event *probe) {
    const struct probe *answer = &probe->as.probe.answer;

    if (reply->elements != 7 + CONFORMANCE_NODES)
        fail("a probe's answer is something else");
    if ((reply->element[4]->type == REDIS_REPLY_ARRAY) != (answer->foreign || answer->rival))
        fail("other fleets on one node only");
    if (reply->element[4]->type == REDIS_REPLY_ARRAY &&
        (reply->element[4]->element[2]->integer == 1) != answer->foreign)
        fail("another fleet's epoch on one node only");
    if ((reply->element[5]->integer == 1) != answer->unrested)
        fail("an epoch without a quarantine on one node only");
    for (unsigned i = 0; i < CONFORMANCE_NODES; i++)
        if ((reply->element[7 + i]->integer == 1) != ((answer->elsewhere & node_set_of(i)) != 0))
            fail("a name at another address on one node only");
}

static void compare_probed(const redisReply *reply, const struct event *probe) {
    const struct probe *answer = &probe->as.probe.answer;
    long long third = reply->element[2]->type == REDIS_REPLY_INTEGER ? reply->element[2]->integer : 0;

    if (answer->blessed != (reply->element[0]->integer == 1))
        fail("one of the two nodes is blessed");
    if (answer->blessed)
        compare_epoch(reply->element[2]->str, answer, probe->as.probe.fleet);
    else if (answer->marked != (third == 1) || answer->heir != (third == 2))
        fail("the states of an unblessed node differ");
    else if (reply->element[3]->integer != answer->max_ttl_ms && (!answer->brief || answer->marked))
        fail("the longest max_ttl differ");
    if (!answer->brief)
        compare_knowledge(reply, probe);
}

static void step_probe(void) {
    struct event probe = {0};
    struct sim_probe *asks = &probe.as.probe;
    struct epoch known;
    redisReply *reply;

    choose_agent(&probe);
    asks->bless = chance(30);
    asks->amend = !asks->bless && chance(20) && epoch_read(known_epoch, &known);
    asks->leave = !asks->bless && !asks->amend && chance(30);
    asks->disown = !asks->bless && !asks->amend && chance(5);
    if (asks->amend) {
        asks->amendment = (struct amendment){.max_ttl_ms = asks->max_ttl_ms,
                                             .proposed_ms = chance(50) ? asks->max_ttl_ms / 2 : 0};
        asks->amended_floor_us = known_sim_floor_us;
        asks->amended_generation = known_sim_generation;
    } else if (!asks->bless && chance(20)) {
        asks->withdraw_us = known_sim_floor_us;
    }
    reply = asks->bless ? run_bless(&probe) : asks->amend ? run_amend(&probe, &known) : run_probe(&probe);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 3)
        fail(reply->type == REDIS_REPLY_ERROR ? reply->str : "a probe's answer is something else");
    sim_fence_skew_ms = BLESSING_SKEW_MS;
    node_probe(&node, &probe);
    (void) snprintf(history + strlen(history), sizeof(history) - strlen(history), " %s %u of f%u%s;",
                    asks->bless              ? "bless"
                    : asks->amend            ? "amend"
                    : asks->withdraw_us != 0 ? "withdraw"
                    : asks->leave            ? "mark"
                                             : "probe",
                    (unsigned) asks->mark, asks->fleet, asks->quarantine ? "" : " (careless)");
    compare_probed(reply, &probe);
    const struct probe *answer = &asks->answer;
    known_sim_epoch = answer->blessed ? asks->epoch : UINT32_MAX;
    known_sim_floor_us = answer->floor_us;
    known_sim_generation = answer->generation;
    (void) snprintf(known_epoch, sizeof(known_epoch), "%s", answer->blessed ? reply->element[2]->str : "-");
    freeReplyObject(reply);
}

/* Makes the table of tokens old: the next acquisition begins another table. The former one stays until the
 * new one is old. */
static bool grown_old;

static void grow_old(void) {
    freeReplyObject(redisCommand(server, "HSET " FENCES_KEY " %s 1", ""));
    grown_old = true;
    (void) strcat(history, " grow old;");
}

/* A flush, a key overwritten by another program, or a restart of the node with its data. */
static void step_disturb(void) {
    if (!grown_old && chance(30)) {
        grow_old();
        return;
    }
    unsigned name = (unsigned) pick(0, SIM_NAMES - 1);
    char key[2];

    key_of(name, key);
    if (chance(50)) {
        freeReplyObject(redisCommand(server, "FLUSHALL"));
        node_forget(&node);
        (void) strcat(history, " flush;");
    } else if (chance(50) && node.data.epoch == node.process) {
        redisReply *epoch = redisCommand(server, "GET " EPOCH_KEY);
        freeReplyObject(
            redisCommand(server, "SET " EPOCH_KEY " %s%s", FORMER_RUN_ID, strchr(epoch->str, ' ')));
        freeReplyObject(epoch);
        node.data.epoch = FORMER_PROCESS;
        (void) strcat(history, " restart;");
    } else {
        freeReplyObject(redisCommand(server, "SET %s foreign PX 100000", key));
        node_overwrite(&node, name, LONG_TTL_MS);
        (void) strcat(history, " overwrite;");
    }
}

static void compare_fence(unsigned name) {
    int64_t real[2], simulated[2] = {node.data.keys[name].token, node.data.keys[name].own_token};

    read_fence(name, real);
    if (real[0] - real[1] != simulated[0] - simulated[1])
        fail("the holder's tokens differ");
}

static void compare_keys(void) {
    for (unsigned name = 0; name < SIM_NAMES; name++) {
        char key[2], value[VALUE_BYTES];
        key_of(name, key);
        value_of(node.data.keys[name].secret[0], node.data.keys[name].owner, value);
        redisReply *reply = redisCommand(server, "GET %s", key);
        if (!reply)
            fail("the server is gone");
        if ((reply->type == REDIS_REPLY_STRING) != node.data.keys[name].set)
            fail("a key exists on one node only");
        if (node.data.keys[name].set && strcmp(reply->str, "foreign") != 0 && strcmp(reply->str, value) != 0)
            fail("the values of a key differ");
        freeReplyObject(reply);
        compare_fence(name);
    }
}

bool chance(unsigned percent) {
    return pick(1, 100) <= (int64_t) percent;
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 64;
    random_init(&sim_random, strtoull(argv[2], NULL, 10));
    unsigned long sequences = strtoul(argv[3], NULL, 10);
    server = redisConnectUnix(argv[1]);
    if (!server || server->err) {
        (void) printf("Bail out! can't connect to %s\n", argv[1]);
        return 1;
    }
    subscriber = redisConnectUnix(argv[1]);
    redisReply *subscribed = redisCommand(subscriber, "PSUBSCRIBE " RELEASE_CHANNEL "*");
    if (!subscribed || subscribed->type != REDIS_REPLY_ARRAY)
        fail("the server accepts no subscriber");
    freeReplyObject(subscribed);
    for (unsigned long i = 0; i < sequences; i++) {
        freeReplyObject(redisCommand(server, "FLUSHALL"));
        node_reset(&node, 0);
        node.clock.rate = 1;
        history[0] = '\0';
        grown_old = false;
        (void) strcpy(known_epoch, "-");
        known_sim_epoch = UINT32_MAX;
        known_sim_floor_us = 0;
        for (unsigned step = 0; step < STEPS; step++) {
            int64_t kind = pick(1, 100);
            if (kind <= 15)
                step_acquire();
            else if (kind <= 55)
                step_request();
            else if (kind <= 65)
                step_together();
            else if (kind <= 95)
                step_probe();
            else
                step_disturb();
            compare_keys();
            sim_now_ns += NS_PER_MS; /* time passes on both nodes, so a later blessing has a larger floor */
        }
    }
    (void) printf(
        "ok 1 - the simulated node answers like a real server, in %lu sequences of %d requests\n1..1\n",
        sequences, STEPS);
    redisFree(subscriber);
    redisFree(server);
    return 0;
}
