#include "local-harness.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "local/command.h"
#include "local/outcome.h"
#include "resp.h"

enum { TOKENS_MAX = 16384 };

struct local_harness harness;

static char reply_buffer[REPLY_BYTES_MAX];
static void *registry_memory, *observe_memory, *cooling_memory, *history_memory;
static size_t registry_bytes;

/* What a session gets at a time is one whole reply or push. */
static bool is_whole(const char *bytes, size_t length) {
    static struct resp_token tokens[TOKENS_MAX];
    const struct resp_limits limits = {
        .bulk_bytes_max = REPLY_BYTES_MAX, .tokens_max = TOKENS_MAX, .depth_max = RESP_DEPTH_MAX};
    size_t n;

    return resp_parse(bytes, length, &limits, tokens, &n) == (long) length;
}

static void on_write(void *userdata, struct session *session, const char *bytes, size_t length) {
    size_t i = (size_t) (session - harness.sessions);

    (void) userdata;
    assert(is_whole(bytes, length));
    if (i >= LISTENERS) {
        harness.crowd_pushes += bytes[0] == '>' || bytes[0] == '*';
        return;
    }
    assert(harness.output_length[i] + length < OUTPUT_MAX);
    memcpy(harness.output[i] + harness.output_length[i], bytes, length);
    harness.output_length[i] += length;
    harness.output[i][harness.output_length[i]] = '\0';
}

static void on_outcome(void *userdata, struct request *request, const struct request_outcome *outcome,
                       instant_ns now_ns) {
    (void) userdata;
    outcome_deliver(request, outcome, now_ns);
}

static void *reserve(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(memory != MAP_FAILED);
    return memory;
}

void local_harness_begin(const struct local_harness_setup *setup) {
    const struct policy policy = {
        .terms = {.default_ttl_ms = 10000, .may = POLICY_MAY_DEFAULT, .fencing = true}, .max_ttl_ms = 60000};
    struct front_state_sink sink = setup->sink;
    struct registry_sink registry_sink = setup->registry_sink;
    const uint64_t key[2] = {1, 2};

    if (registry_memory) {
        (void) munmap(registry_memory, registry_bytes);
        (void) munmap(observe_memory, observe_memory_bytes());
        (void) munmap(cooling_memory, cooling_memory_bytes());
        (void) munmap(history_memory, history_memory_bytes());
    }
    memset(&harness.front, 0, sizeof(harness.front));
    memset(harness.sessions, 0, sizeof(harness.sessions));
    harness.crowd_pushes = 0;
    for (unsigned i = 0; i < LISTENERS; i++) {
        harness.output[i][0] = '\0';
        harness.output_length[i] = 0;
    }
    harness.now_ns = 1000 * NS_PER_S;
    sink.write = on_write;
    registry_sink.outcome = on_outcome;
    registry_sink.userdata = &harness.front;
    registry_bytes = registry_memory_bytes(setup->requests_max);
    registry_memory = reserve(registry_bytes);
    observe_memory = reserve(observe_memory_bytes());
    cooling_memory = reserve(cooling_memory_bytes());
    history_memory = reserve(history_memory_bytes());
    registry_init(&harness.front.registry, &registry_sink, setup->requests_max, setup->limit, key,
                  registry_memory);
    observe_init(&harness.front.observers, 7, observe_memory);
    cooling_init(&harness.front.cooling, cooling_memory);
    history_init(&harness.front.history, history_memory);
    harness.front.registry.history = &harness.front.history;
    harness.front.registry.cooling = &harness.front.cooling;
    front_state_init(&harness.front, &policy, &setup->identity, &sink, reply_buffer, harness.now_ns);
    assert(setup->sessions <= SESSIONS_MAX);
    for (unsigned i = 0; i < setup->sessions; i++)
        session_init(&harness.sessions[i], &harness.front, i + 1, (pid_t) (100 + i), 1000);
}

void local_harness_set_user(unsigned session, uid_t uid) {
    struct session *of = &harness.sessions[session];
    struct quota *quota = &harness.front.registry.quota;

    quota_refund(quota, of->account, QUOTA_DESCRIPTORS, SESSION_DESCRIPTORS);
    quota_refund(quota, of->account, QUOTA_SESSIONS, 1);
    of->account = quota_charge(quota, uid, QUOTA_SESSIONS, 1);
    quota_charge_account(quota, of->account, QUOTA_DESCRIPTORS, SESSION_DESCRIPTORS);
    of->uid = uid;
}

void ask_bytes(unsigned session, const char *bytes, size_t length) {
    const struct resp_limits limits = {.bulk_bytes_max = 4096, .tokens_max = 32, .depth_max = 1};
    struct resp_token tokens[32];
    size_t n;

    if (session < LISTENERS) {
        harness.output_length[session] = 0;
        harness.output[session][0] = '\0';
    }
    long used = resp_parse_request(bytes, length, &limits, tokens, &n);
    assert(used == (long) length && n > 0);
    harness.units = command_run(&harness.sessions[session], tokens, n, harness.now_ns);
    observe_tick(&harness.front, harness.now_ns);
}

void ask(unsigned session, const char *line) {
    char bytes[4200];
    int length = snprintf(bytes, sizeof(bytes), "%s\r\n", line);

    assert(length > 0 && (size_t) length < sizeof(bytes));
    ask_bytes(session, bytes, (size_t) length);
}

instant_ns local_harness_cooldown_until_ns(const struct command *command) {
    if (command->kind != COMMAND_CONTEND)
        return command->cooldown_until_ns;
    return command->terms.cooldown_ms > 0 ? harness.now_ns + command->terms.cooldown_ms * NS_PER_MS : 0;
}

void local_harness_counted(void) {
    instant_ns due_ns;

    listing_counted(&harness.front);
    while ((due_ns = listing_due_ns(&harness.front, harness.now_ns)) != INSTANT_NEVER) {
        harness.now_ns = instant_max(harness.now_ns, due_ns);
        listing_turn(&harness.front, harness.now_ns);
    }
}
