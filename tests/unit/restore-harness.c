#include "restore-harness.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "local/recovery/restore.h"

struct keeper keeper;
struct finds finds;
struct ledger ledger;
struct recovery_result result;
uint32_t slots;

static const struct ledger_size size = {.sessions = LISTENERS, .entries = ENTRIES};
static void *memory, *past_memory;

/* The keeper's number of a request is another than its id: these tests speak of ids alone. */
static void on_command(void *userdata, uint64_t hash, const struct command *command) {
    const struct request *request = keeper_handle_find(&harness.front.registry.handles, command->request);

    (void) userdata;
    (void) hash;
    assert(keeper.n_commands < COMMANDS_MAX);
    keeper.commands[keeper.n_commands] = *command;
    if (request)
        keeper.commands[keeper.n_commands].request = registry_id(&harness.front.registry, request);
    keeper.n_commands++;
}

static enum registry_reading on_grant_reading(void *userdata, const struct request *request) {
    (void) userdata;
    (void) request;
    return keeper.nobody_reads ? GRANT_UNREAD : keeper.nothing_is_known ? GRANT_COUNTS_AS_READ : GRANT_READ;
}

static uint64_t session_id(unsigned session) {
    return UINT64_C(1) << SESSION_SLOT_BITS | session;
}

static void *fresh_memory(void) {
    void *bytes = mmap(NULL, ledger_bytes(&size), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert(bytes != MAP_FAILED);
    return bytes;
}

static void begin_process(uint32_t requests_max, instant_ns now_ns) {
    const struct ledger_identity identity = {
        .agent = "00c0ffee", .host = "web1", .key_format = finds.key_format, .sequence = 1};
    const struct local_harness_setup setup = {
        .identity = {.agent = "00c0ffee", .host = "web1", .key_format = finds.key_format, .n_keepers = 1},
        .sink = {.query = on_command},
        .registry_sink = {.command = on_command, .grant_reading = on_grant_reading},
        .requests_max = requests_max,
        .limit = requests_max,
        .sessions = LISTENERS};

    memset(&keeper, 0, sizeof(keeper));
    local_harness_begin(&setup);
    harness.now_ns = now_ns;
    memory = fresh_memory();
    ledger_init(&ledger, &size, 0, &identity, memory);
    harness.front.registry.ledger = &ledger;
    for (unsigned i = 0; i < LISTENERS; i++) {
        harness.sessions[i].id = session_id(i);
        harness.sessions[i].protocol = 3;
        ledger_open(&ledger, i, session_id(i));
    }
}

void restore_harness_begin(void) {
    if (past_memory)
        (void) munmap(past_memory, ledger_bytes(&size));
    if (memory)
        (void) munmap(memory, ledger_bytes(&size));
    past_memory = NULL;
    finds = (struct finds){.max_ttl_ms = 60000, .requests_max = REQUESTS};
    begin_process(REQUESTS, 1000 * NS_PER_S);
}

void flush(unsigned session) {
    const struct ledger_state state = {.protocol = 3, .pushes = true};
    ledger_sent(&ledger, session, &state);
}

static struct session *session_here(void *userdata, uint64_t id) {
    unsigned i = (unsigned) (id & LEDGER_SLOT_MASK);

    (void) userdata;
    return (finds.missing | finds.torn | finds.dead) & 1u << i ? NULL : &harness.sessions[i];
}

static bool session_whole(void *userdata, uint64_t id) {
    (void) userdata;
    return !(finds.torn & 1u << (id & LEDGER_SLOT_MASK));
}

static bool process_dead(void *userdata, pid_t pid) {
    (void) userdata;
    return (finds.dead | finds.left) & 1u << (pid - 100);
}

void replace(void) {
    static uint32_t order[REQUESTS];
    struct recovery_past past = {
        .session = session_here, .whole = session_whole, .dead = process_dead, .order = order};

    if (past_memory)
        (void) munmap(past_memory, ledger_bytes(&size));
    past_memory = memory;
    begin_process(finds.requests_max, harness.now_ns);
    harness.front.policy.max_ttl_ms = finds.max_ttl_ms;
    for (unsigned i = 0; i < LISTENERS; i++)
        if (finds.resp2 & 1u << i)
            harness.sessions[i].protocol = 2;
    memset(order, 0, sizeof(order));
    assert(ledger_reader_init(&past.reader, past_memory, ledger_bytes(&size)));
    slots = recovery_slots(&past.reader);
    result = recovery_run(&harness.front, &past, harness.now_ns);
    restore_start(&harness.front.registry, harness.now_ns);
    for (unsigned i = 0; i < LISTENERS; i++) {
        flush(i);
        if (session_here(NULL, session_id(i)))
            recovery_end_left_out(&harness.sessions[i]);
    }
}

void serve(void) {
    restore_end(&harness.front.registry, harness.now_ns);
}

const char *got(unsigned session) {
    return harness.output[session];
}

bool has(unsigned session, const char *text) {
    return strstr(got(session), text) != NULL;
}

void clear(void) {
    memset(harness.output_length, 0, sizeof(harness.output_length));
    for (unsigned i = 0; i < LISTENERS; i++)
        harness.output[i][0] = '\0';
}

const struct command *last_command(void) {
    return keeper.n_commands > 0 ? &keeper.commands[keeper.n_commands - 1] : NULL;
}

unsigned count_commands(enum command_kind kind, uint64_t request) {
    unsigned n = 0;

    for (unsigned i = 0; i < keeper.n_commands; i++)
        n += keeper.commands[i].kind == kind && keeper.commands[i].request == request;
    return n;
}

void report_with(uint64_t request, enum report_kind kind, enum failure failure) {
    static const char secret[SECRET_BYTES] = "abcdefghijklmnopqrst";
    bool granted = kind == REPORT_GRANTED;
    const struct request *found = registry_find(&harness.front.registry, request);
    int64_t cooldown_ns = granted && found ? (int64_t) found->terms.cooldown_ms * NS_PER_MS : 0;
    const struct report report = {
        .kind = kind,
        .cooldown_until_ns = cooldown_ns > 0 ? harness.now_ns + cooldown_ns : 0,
        .request = found ? keeper_handle_of(&harness.front.registry.handles, found->handle_slot) : request,
        .failure = failure,
        .deadline_ns = harness.now_ns + LEFT_MS * NS_PER_MS,
        .token = 7,
        .token_last = 71,
        .text = granted ? secret : "why",
        .text_length = granted ? SECRET_BYTES : 3};
    registry_report(&harness.front.registry, &report, harness.now_ns);
}

void report(uint64_t request, enum report_kind kind) {
    report_with(request, kind, FAILURE_NOT_HELD);
}

void pass_ms(int64_t ms) {
    harness.now_ns += ms * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
}

uint64_t hold(unsigned session, const char *line) {
    ask(session, line);
    uint64_t id = last_command()->request;
    assert(last_command()->kind == COMMAND_CONTEND);
    report(id, REPORT_GRANTED);
    flush(session);
    return id;
}

uint64_t wait_for(unsigned session, const char *line) {
    ask(session, line);
    const char *id = strstr(got(session), "waiting\r\n:");
    assert(id);
    flush(session);
    return strtoull(id + 10, NULL, 10);
}

void ask_id(unsigned session, const char *word, uint64_t id) {
    char line[64];

    (void) snprintf(line, sizeof(line), "%s %llu", word, (unsigned long long) id);
    ask(session, line);
}

void resume(unsigned session, const char *name, const char *options) {
    resume_cooling(session, name, options, 0);
}

void resume_cooling(unsigned session, const char *name, const char *options, instant_ns cooldown_until_ns) {
    struct resume_token token = resume_token_of_10_s();

    token.cooldown_until_ns = cooldown_until_ns;
    resume_token(session, name, &token, options);
}

struct resume_token resume_token_of_10_s(void) {
    struct resume_token token = {.terms.ttl_ms = 10000, .hold_until_ns = INSTANT_NEVER, .token = 5};

    memset(token.value, 'r', sizeof(token.value));
    return token;
}

void resume_token(unsigned session, const char *name, const struct resume_token *token,
                  const char *options) {
    char text[RESUME_TOKEN_BYTES_MAX + 1], line[RESUME_TOKEN_BYTES_MAX + 64];

    text[resume_token_write(token, text)] = '\0';
    (void) snprintf(line, sizeof(line), "RESUME %s %s%s", name, text, options);
    ask(session, line);
}
