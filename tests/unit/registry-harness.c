#include "registry-harness.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

struct registry_harness harness;

static void on_command(void *userdata, uint64_t hash, const struct command *command) {
    (void) userdata;
    (void) hash;
    assert(harness.n_commands < NOTES_MAX);
    (void) snprintf(harness.texts[harness.n_commands], sizeof(harness.texts[0]), "%.*s",
                    command->head_length + command->tail_length, command->text ? command->text : "");
    harness.commands[harness.n_commands++] = *command;
}

static void on_outcome(void *userdata, struct request *request, const struct request_outcome *outcome,
                       instant_ns now_ns) {
    (void) userdata;
    (void) now_ns;
    assert(harness.n_outcomes < NOTES_MAX);
    harness.outcomes[harness.n_outcomes].kind = outcome->kind;
    harness.outcomes[harness.n_outcomes].secret =
        outcome->kind == OUTCOME_GRANTED ? (uint8_t) outcome->text[0] : 0;
    harness.outcomes[harness.n_outcomes++].id = registry_id(&harness.registry, request);
}

static void on_changed(void *userdata, uint64_t hash, const char *name, size_t length) {
    (void) userdata;
    (void) hash;
    (void) name;
    (void) length;
    harness.changes++;
}

static void on_secret(void *userdata, uint8_t secret[SECRET_BYTES]) {
    (void) userdata;
    memset(secret, ++harness.secrets, SECRET_BYTES);
}

void registry_harness_begin(void) {
    const struct registry_sink sink = {
        .command = on_command, .outcome = on_outcome, .changed = on_changed, .secret = on_secret};
    const uint64_t key[2] = {1, 2};
    size_t bytes = registry_memory_bytes(REQUESTS);

    if (harness.memory)
        (void) munmap(harness.memory, bytes);
    memset(&harness, 0, sizeof(harness));
    harness.now_ns = 1000 * NS_PER_S;
    harness.secrets = 100;
    harness.memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(harness.memory != MAP_FAILED);
    registry_init(&harness.registry, &sink, REQUESTS, REQUESTS, key, harness.memory);
    admission_requester_init(&harness.requests[0]);
    admission_requester_init(&harness.requests[1]);
}

struct registry_ask usual(void) {
    return (struct registry_ask){.name = "x",
                                 .name_length = 1,
                                 .tail = "7:1000:me",
                                 .tail_length = 9,
                                 .wait_ms = -1,
                                 .terms.ttl_ms = 10000,
                                 .terms.node_timeout_ms = 100,
                                 .terms.fencing = true,
                                 .resumable = true};
}

uint64_t ask_of(unsigned session, const struct registry_ask *ask) {
    struct request *request = registry_ask(
        &harness.registry, (struct session *) (void *) &harness.requests[session], ask, harness.now_ns);
    assert(request);
    uint64_t id = registry_id(&harness.registry, request);
    registry_start(&harness.registry, request, ask, harness.now_ns);
    return id;
}

uint64_t ask_with(const struct registry_ask *ask) {
    return ask_of(0, ask);
}

uint64_t ask(void) {
    const struct registry_ask terms = usual();
    return ask_with(&terms);
}

struct request *request_of(uint64_t id) {
    struct request *request = registry_find(&harness.registry, id);
    assert(request);
    return request;
}

uint64_t handle_of(uint64_t id) {
    return keeper_handle_of(&harness.registry.handles, request_of(id)->handle_slot);
}

void report(enum report_kind kind, uint64_t number) {
    const struct report report = {.kind = kind,
                                  .request = number,
                                  .deadline_ns = harness.now_ns + 9898 * NS_PER_MS,
                                  .token = 1000,
                                  .token_last = 1000 + HANDOFFS_MAX,
                                  .text = "vvvvvvvvvvvvvvvvvvvv",
                                  .text_length = SECRET_BYTES};
    registry_report(&harness.registry, &report, harness.now_ns);
}

void grant(void) {
    const struct command *contend = &harness.commands[harness.n_commands - 1];
    const struct report report = {.kind = REPORT_GRANTED,
                                  .request = contend->request,
                                  .deadline_ns = harness.now_ns + 9898 * NS_PER_MS,
                                  .token = contend->token + 1,
                                  .token_last = contend->token + 1 + contend->spare_tokens,
                                  .text = "vvvvvvvvvvvvvvvvvvvv",
                                  .text_length = SECRET_BYTES};

    assert(contend->kind == COMMAND_CONTEND);
    registry_report(&harness.registry, &report, harness.now_ns);
}

void awaited(const char *name) {
    const struct report report = {
        .kind = REPORT_AWAITED, .request = 1, .text = name, .text_length = (uint16_t) strlen(name)};

    registry_report(&harness.registry, &report, harness.now_ns);
}

void release(uint64_t id) {
    registry_release(&harness.registry, request_of(id), harness.now_ns);
}

unsigned count_commands(enum command_kind kind) {
    unsigned count = 0;

    for (unsigned i = 0; i < harness.n_commands; i++)
        count += harness.commands[i].kind == kind;
    return count;
}

const struct command *last_command(void) {
    return &harness.commands[harness.n_commands - 1];
}

uint64_t grant_from_line(const uint64_t *line) {
    const struct command *contend = &harness.commands[0];

    assert(contend->kind == COMMAND_CONTEND);
    report(REPORT_GRANTED, contend->request);
    release(line[0]);
    report(REPORT_RELEASED, contend->request);
    assert(last_command()->kind == COMMAND_CONTEND);
    report(REPORT_GRANTED, last_command()->request);
    harness.n_outcomes = 0;
    return line[1];
}
