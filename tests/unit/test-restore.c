/* One process of the agent after another: the ledger of the first has all replies that its clients have, and
 * the next process continues from it. This file plays the keeper; output is sent when the test flushes it.
 */

#include <assert.h>
#include <sys/mman.h>

#include "local-harness.h"
#include "local/recovery/recovery.h"
#include "local/recovery/restore.h"
#include "local/resume-token.h"
#include "tap.h"

enum { COMMANDS_MAX = 64, REQUESTS = 16, ENTRIES = 64, LEFT_MS = 9898 };

static struct keeper {
    struct command commands[COMMANDS_MAX];
    unsigned n_commands;
} keeper;

static const struct ledger_size size = {.sessions = LISTENERS, .entries = ENTRIES};
static struct ledger ledger;
static void *memory, *past_memory;
static struct recovery_result result;

/* What the next process finds. */
static struct finds {
    unsigned missing; /* connections that did not come along, a bit each, */
    unsigned torn;    /* because the knowledge of their clients is unknown, */
    unsigned dead;    /* sessions with a dead process */
    uint32_t max_ttl_ms, requests_max;
} finds;

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
    static const struct ledger_identity identity = {.agent = "00c0ffee", .host = "web1", .sequence = 1};
    const struct local_harness_setup setup = {
        .identity = {.agent = "00c0ffee", .host = "web1", .n_keepers = 1},
        .sink = {.query = on_command},
        .registry_sink = {.command = on_command},
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

static void begin(void) {
    if (past_memory)
        (void) munmap(past_memory, ledger_bytes(&size));
    if (memory)
        (void) munmap(memory, ledger_bytes(&size));
    past_memory = NULL;
    finds = (struct finds){.max_ttl_ms = 60000, .requests_max = REQUESTS};
    begin_process(REQUESTS, 1000 * NS_PER_S);
}

/* Sends the session's output. */
static void flush(unsigned session) {
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
    return finds.dead & 1u << (pid - 100);
}

/* The process is killed, and the next one has restored its state, but takes no requests yet. */
static void replace(void) {
    static uint32_t order[REQUESTS];
    struct recovery_past past = {
        .session = session_here, .whole = session_whole, .dead = process_dead, .order = order};

    if (past_memory)
        (void) munmap(past_memory, ledger_bytes(&size));
    past_memory = memory;
    begin_process(finds.requests_max, harness.now_ns);
    harness.front.policy.max_ttl_ms = finds.max_ttl_ms;
    memset(order, 0, sizeof(order));
    assert(ledger_reader_init(&past.reader, past_memory, ledger_bytes(&size)));
    result = recovery_run(&harness.front, &past, harness.now_ns);
    for (unsigned i = 0; i < LISTENERS; i++)
        flush(i);
}

static void serve(void) {
    restore_end(&harness.front.registry, harness.now_ns);
}

/* --- */

static const char *got(unsigned session) {
    return harness.output[session];
}

static bool has(unsigned session, const char *text) {
    return strstr(got(session), text) != NULL;
}

static void clear(void) {
    memset(harness.output_length, 0, sizeof(harness.output_length));
    for (unsigned i = 0; i < LISTENERS; i++)
        harness.output[i][0] = '\0';
}

static const struct command *last_command(void) {
    return keeper.n_commands > 0 ? &keeper.commands[keeper.n_commands - 1] : NULL;
}

static unsigned count_commands(enum command_kind kind, uint64_t request) {
    unsigned n = 0;

    for (unsigned i = 0; i < keeper.n_commands; i++)
        n += keeper.commands[i].kind == kind && keeper.commands[i].request == request;
    return n;
}

static void report_with(uint64_t request, enum report_kind kind, enum failure failure) {
    static const char secret[SECRET_BYTES] = "abcdefghijklmnopqrst";
    bool granted = kind == REPORT_GRANTED;
    const struct request *found = registry_find(&harness.front.registry, request);
    const struct report report = {
        .kind = kind,
        .request = found ? keeper_handle_of(&harness.front.registry.handles, found->handle_slot) : request,
        .failure = failure,
        .deadline_ns = harness.now_ns + LEFT_MS * NS_PER_MS,
        .token = 7,
        .token_last = 71,
        .text = granted ? secret : "why",
        .text_length = granted ? SECRET_BYTES : 3};
    registry_report(&harness.front.registry, &report, harness.now_ns);
}

static void report(uint64_t request, enum report_kind kind) {
    report_with(request, kind, FAILURE_NOT_HELD);
}

static void pass_ms(int64_t ms) {
    harness.now_ns += ms * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
}

/* Granted, and the grant is sent. */
static uint64_t hold(unsigned session, const char *line) {
    ask(session, line);
    uint64_t id = last_command()->request;
    assert(last_command()->kind == COMMAND_CONTEND);
    report(id, REPORT_GRANTED);
    flush(session);
    return id;
}

/* The client has the reply `waiting`. */
static uint64_t wait_for(unsigned session, const char *line) {
    ask(session, line);
    const char *id = strstr(got(session), "waiting\r\n:");
    assert(id);
    flush(session);
    return strtoull(id + 10, NULL, 10);
}

static void ask_id(unsigned session, const char *word, uint64_t id) {
    char line[64];

    (void) snprintf(line, sizeof(line), "%s %llu", word, (unsigned long long) id);
    ask(session, line);
}

static void resume(unsigned session, const char *name, const char *options) {
    struct resume_token secret = {.terms.ttl_ms = 10000, .hold_until_ns = INSTANT_NEVER, .token = 5};
    char text[RESUME_TOKEN_BYTES_MAX + 1], line[RESUME_TOKEN_BYTES_MAX + 64];

    memset(secret.value, 'r', sizeof(secret.value));
    text[resume_token_write(&secret, text)] = '\0';
    (void) snprintf(line, sizeof(line), "RESUME %s %s%s", name, text, options);
    ask(session, line);
}

/* --- a lease --- */

static void test_found(void) {
    begin();
    uint64_t id = hold(0, "ACQUIRE job HEARTBEAT 5000 MAXHOLD 100000 DATA mine");
    instant_ns end_ns = harness.now_ns + 100 * NS_PER_S, deadline_ns = harness.now_ns + LEFT_MS * NS_PER_MS;
    harness.now_ns += 3 * NS_PER_S;
    replace();
    is_int(result.held, 1, "a lease that its client knows is held");
    const struct command command = *last_command();
    ok(command.kind == COMMAND_RESUME && command.request == id, "the nodes are asked for it");
    ok(command.token == 7 && command.terms.heartbeat_ms == 5000 && command.hold_until_ns == end_ns &&
           command.persist && memcmp(command.secret, "abcdefghijklmnopqrst", SECRET_BYTES) == 0,
       "by its terms: rule 9, the bound on holding is where it was");
    ask_id(0, "CHECK", id);
    is_string(got(0), ":6898\r\n", "until then its deadline is as before");
    report(id, REPORT_GRANTED);
    serve();
    ask_id(0, "CHECK", id);
    is_string(got(0), ":9898\r\n", "found, it is extended");
    ok(harness.now_ns + LEFT_MS * NS_PER_MS > deadline_ns && !has(0, "granted"),
       "and its client gets no output");
    ask(1, "ACQUIRE job");
    ok(has(1, "-BUSY held by process 100 of this host"), "no other session gets it");
    ask_id(0, "RELEASE", id);
    is_int(count_commands(COMMAND_RELEASE, id), 1, "it is released with the same id");
    report(id, REPORT_RELEASED);
    is_string(got(0), ":1\r\n", "and that is answered");
    ask(1, "ACQUIRE job");
    ok(last_command()->request > id, "ids never come again");
}

static void test_at_risk(void) {
    begin();
    uint64_t id = hold(0, "ACQUIRE job");
    report(id, REPORT_AT_RISK);
    ok(has(0, "at-risk"), "a lease at risk");
    flush(0);
    clear();
    replace();
    replace();
    ok(!has(0, "extended"), "as its client knows");
    report(id, REPORT_GRANTED);
    ok(has(0, "extended"), "rule 13: found, its client gets extended");
    flush(0);
    clear();
    replace();
    report(id, REPORT_GRANTED);
    is_string(got(0), "", "once");
    begin();
    id = hold(0, "ACQUIRE job");
    report(id, REPORT_AT_RISK);
    flush(0);
    replace();
    serve();
    pass_ms(LEFT_MS);
    ok(has(0, "lost") && has(0, "no-quorum"), "or it is lost, with the reason of the risk");
}

static void test_not_found(void) {
    begin();
    uint64_t id = hold(0, "ACQUIRE job");
    replace();
    report(id, REPORT_FAILED);
    is_string(got(0), "", "a lease that the nodes have no more is not lost yet");
    ask_id(0, "RELEASE", id);
    is_string(got(0), ":1\r\n", "its client's RELEASE, read again, may be why: it is answered once");
    begin();
    id = hold(0, "ACQUIRE job");
    uint64_t waiter = wait_for(1, "ACQUIRE job WAIT -1 ASYNC");
    replace();
    report(id, REPORT_FAILED);
    serve();
    ok(has(0, "lost") && has(0, "no-quorum"), "rule 13: otherwise its client gets lost");
    is_int(count_commands(COMMAND_CONTEND, waiter), 1, "and the next request contends");
}

static void test_released_meanwhile(void) {
    begin();
    uint64_t id = hold(0, "ACQUIRE job");
    replace();
    serve();
    ask_id(0, "RELEASE", id);
    is_string(got(0), "", "RELEASE of a lease that is not found yet waits");
    report(id, REPORT_GRANTED);
    is_int(count_commands(COMMAND_RELEASE, id), 1, "found, it is released");
    report(id, REPORT_RELEASED);
    is_string(got(0), ":1\r\n", "and RELEASE is answered");

    begin();
    id = hold(0, "ACQUIRE job");
    replace();
    serve();
    ask_id(0, "RELEASE", id);
    pass_ms(LEFT_MS);
    is_string(got(0), ":1\r\n", "it is answered at the deadline at the latest");

    begin();
    id = hold(0, "ACQUIRE job");
    replace();
    serve();
    disconnect_end(&harness.sessions[0], harness.now_ns);
    is_int(count_commands(COMMAND_RELEASE, id), 0, "its session ends: it is to be found first");
    report(id, REPORT_GRANTED);
    is_int(count_commands(COMMAND_RELEASE, id), 1, "and is released then");
}

static void test_deadline_first(void) {
    begin();
    uint64_t id = hold(0, "ACQUIRE job");
    replace();
    serve();
    pass_ms(LEFT_MS - 1);
    is_string(got(0), "", "without an answer of the keeper it is held");
    pass_ms(1);
    ok(has(0, "lost"), "until the deadline that its client knows");
    is_int(count_commands(COMMAND_FORGET, id), 1, "rule 8: nothing is deleted");
    report(id, REPORT_GRANTED);
    ok(!has(0, "granted"), "and it does not come back");
}

static void test_ids(void) {
    begin();
    uint64_t id = hold(0, "ACQUIRE job");
    ask_id(0, "RELEASE", id);
    report(id, REPORT_RELEASED);
    flush(0);
    replace();
    replace();
    serve();
    ask(0, "ACQUIRE job");
    ok(last_command()->request > id, "ids never come again, not even after two processes and nothing held");
}

/* --- clients that are not here --- */

static void test_forsaken(void) {
    begin();
    (void) hold(0, "ACQUIRE job");
    finds.missing = 1;
    replace();
    serve();
    is_int(keeper.n_commands, 0, "a client without its connection: its keys are left alone");
    ask(1, "ACQUIRE job WAIT -1");
    pass_ms(LEFT_MS - 1);
    is_int(keeper.n_commands, 0,
           "rule 8: no request contends for a lease that its client may consider valid");
    resume(2, "job", "");
    ok(last_command()->kind == COMMAND_RESUME, "but it may resume it");
    pass_ms(1);
    begin();
    (void) hold(0, "ACQUIRE job");
    finds.torn = 1;
    replace();
    serve();
    ask(1, "ACQUIRE job WAIT -1");
    pass_ms(LEFT_MS);
    is_int(last_command()->kind, COMMAND_CONTEND, "after its deadline the next one does");
    begin();
    uint64_t id = hold(0, "ACQUIRE job");
    finds.dead = 1;
    replace();
    is_int(last_command()->kind, COMMAND_RESUME, "the nodes are asked for the lease of a dead process");
    report(id, REPORT_GRANTED);
    is_int(count_commands(COMMAND_RELEASE, id), 1, "and released");
}

static void test_unreported_grant(void) {
    begin();
    ask(0, "ACQUIRE job");
    uint64_t id = last_command()->request;
    report(id, REPORT_GRANTED);
    ok(has(0, "deadline"), "killed before the answer is sent");
    replace();
    ok(last_command()->kind == COMMAND_RESUME && last_command()->request == id,
       "the nodes are asked for the keys");
    serve();
    ask(0, "ACQUIRE job");
    is_string(got(0), "", "the request, read again, is not rejected because of its own lease");
    resume(1, "job", "");
    ok(has(1, "-NOTHELD"), "no session resumes a lease that is about to be released");
    report(id, REPORT_GRANTED);
    is_int(count_commands(COMMAND_RELEASE, id), 1, "found, they are deleted");
    ok(last_command()->kind == COMMAND_CONTEND, "and the request is granted anew");
    report(last_command()->request, REPORT_GRANTED);
    ok(has(0, "deadline"), "and the push gives the reason");
}

/* --- resuming --- */

static void test_resume_unreported(void) {
    begin();
    resume(0, "job", "");
    uint64_t id = last_command()->request;
    instant_ns asked_ns = harness.now_ns;
    report(id, REPORT_GRANTED);
    replace();
    serve();
    is_int(keeper.n_commands, 0,
           "rule 8: a lease that a client resumes is not released before its answer: the client may "
           "consider it valid");
    ok(result.lost_until_ns >= asked_ns + LEFT_MS * NS_PER_MS, "its keys may be deleted only after its end");
    resume(0, "job", "");
    is_int(last_command()->kind, COMMAND_RESUME, "the request, read again, resumes it");

    begin();
    resume(0, "job", "");
    ok(ledger.header->lost_until_ns >= harness.now_ns + 10 * NS_PER_S, "nor while it is under way");

    begin();
    resume(0, "job", " ASYNC");
    id = last_command()->request;
    flush(0);
    report(id, REPORT_GRANTED);
    clear();
    replace();
    ok(last_command()->kind == COMMAND_RESUME && last_command()->request == id,
       "a RESUME that waits continues");
    report(id, REPORT_FAILED);
    ok(has(0, "failed") && has(0, "NOTHELD"), "and fails when the lease has ended: it never acquires");
    is_int(count_commands(COMMAND_CONTEND, id), 0, "rule 12: another may have held it since");
}

/* --- waiting --- */

static void test_order(void) {
    begin();
    uint64_t holder = hold(0, "ACQUIRE job");
    ask(5, "PING");
    uint64_t first = wait_for(1, "ACQUIRE job WAIT -1 ASYNC");
    harness.now_ns += NS_PER_MS;
    uint64_t second = wait_for(2, "ACQUIRE job WAIT 5000 ASYNC");
    harness.now_ns += NS_PER_MS;
    uint64_t third = wait_for(3, "ACQUIRE job WAIT -1 ASYNC");
    ask_id(1, "RELEASE", first);
    flush(1);
    harness.now_ns += NS_PER_MS;
    first = wait_for(1, "ACQUIRE job WAIT -1 ASYNC");
    harness.now_ns += NS_PER_S;
    clear();
    replace();
    report(holder, REPORT_GRANTED);
    serve();
    harness.sessions[4].asked_ns = harness.now_ns - 2 * NS_PER_S;
    ask(4, "ACQUIRE job WAIT 10000");
    ask_id(0, "RELEASE", holder);
    const struct command before_all = *last_command();
    ok(before_all.kind == COMMAND_CONTEND && before_all.request != second,
       "the first request contends first: one without an answer, read again");
    report(before_all.request, REPORT_GRANTED);
    ask_id(4, "RELEASE", before_all.request);
    is_int(count_commands(COMMAND_CONTEND, second), 1, "then the others in order");
    report_with(second, REPORT_CONTENDED, FAILURE_BUSY);
    pass_ms(4000);
    ok(has(2, "TIMEOUT"), "a wait ends when it would have");
    is_int(count_commands(COMMAND_CONTEND, third), 1, "and the next contends");
    is_int(count_commands(COMMAND_CONTEND, first), 0, "before a later request in an earlier slot");
}

static void test_granted_unreported(void) {
    begin();
    uint64_t id = wait_for(0, "ACQUIRE job WAIT -1 ASYNC");
    report(id, REPORT_GRANTED);
    clear();
    replace();
    ok(last_command()->kind == COMMAND_RESUME && last_command()->request == id,
       "granted, and its client does not know: its keys are searched for");
    report(id, REPORT_GRANTED);
    ok(has(0, "granted"), "found, it is granted");
    begin();
    id = wait_for(0, "ACQUIRE job WAIT 5000 ASYNC");
    report(id, REPORT_GRANTED);
    clear();
    replace();
    report(id, REPORT_FAILED);
    is_int(count_commands(COMMAND_CONTEND, id), 1, "not found, it waits again");
    report_with(id, REPORT_CONTENDED, FAILURE_BUSY);
    pass_ms(5000);
    ok(has(0, "TIMEOUT"), "for as long as it would");
    is_int(count_commands(COMMAND_RELEASE, id), 1, "and leaves no key");
}

/* Its client does not read: the lease was granted, released and handed off meanwhile. */
static void test_unreported_behind_another(void) {
    begin();
    uint64_t id = wait_for(0, "ACQUIRE job WAIT -1 ASYNC");
    report(id, REPORT_GRANTED);
    ask(1, "ACQUIRE job WAIT -1");
    ask_id(0, "RELEASE", id);
    report(id, REPORT_RELEASED);
    uint64_t other = last_command()->request;
    report(other, REPORT_GRANTED);
    flush(1);
    clear();
    replace();
    report(other, REPORT_GRANTED);
    report(id, REPORT_FAILED);
    is_int(count_commands(COMMAND_CONTEND, id), 0, "it waits behind the present holder");
    ask_id(1, "RELEASE", other);
    is_int(count_commands(COMMAND_CONTEND, id), 1, "and contends after it");
}

static void test_one_try(void) {
    begin();
    uint64_t id = wait_for(0, "ACQUIRE job ASYNC");
    clear();
    replace();
    is_int(keeper.n_commands, 0, "one try is made when the nodes have had the time to connect");
    serve();
    ok(last_command()->kind == COMMAND_CONTEND && !last_command()->persist, "and is one");
    report_with(id, REPORT_FAILED, FAILURE_BUSY);
    ok(has(0, "failed") && has(0, "BUSY"), "that is answered");

    begin();
    uint64_t holder = hold(1, "ACQUIRE other");
    id = wait_for(0, "ACQUIRE job ASYNC");
    report(id, REPORT_GRANTED);
    clear();
    replace();
    serve();
    is_int(count_commands(COMMAND_CONTEND, id), 1, "also when it was granted and its client does not know");
    (void) holder;
}

/* --- the ledger's places --- */

/* A client that does not read does not know that its lease is over; another request has its slot. */
static void test_place_taken_again(void) {
    begin();
    uint64_t early = hold(2, "ACQUIRE early"), first = hold(0, "ACQUIRE first");
    ask_id(2, "RELEASE", early);
    report(early, REPORT_RELEASED);
    flush(2);
    ask_id(0, "RELEASE", first);
    report(first, REPORT_RELEASED);
    uint64_t second = hold(1, "ACQUIRE second");
    is_int(second & (REQUESTS_MAX - 1), first & (REQUESTS_MAX - 1), "a request in the place of another");
    replace();
    ok(last_command()->kind == COMMAND_RESUME && last_command()->request == second,
       "rule 8: the held lease continues, whatever is left of the former one");
    ask_id(1, "CHECK", second);
    is_string(got(1), ":9898\r\n", "its client considers it valid");
    serve();
    ask_id(0, "RELEASE", first);
    is_string(got(0), ":0\r\n", "the released lease stays released");
}

static void test_smaller_limits(void) {
    begin();
    finds.requests_max = 2;
    (void) hold(0, "ACQUIRE a");
    (void) hold(0, "ACQUIRE b");
    uint64_t third = hold(1, "ACQUIRE c");
    replace();
    is_int(result.held, 2, "fewer leases are allowed: what finds no place is left out");
    ok(result.lost_until_ns >= harness.now_ns + LEFT_MS * NS_PER_MS,
       "rule 8: its keys may be deleted only after its deadline");
    ask_id(1, "CHECK", third);
    is_string(got(1), ":0\r\n", "and CHECK shows it");

    begin();
    finds.max_ttl_ms = 5000;
    uint64_t id = hold(0, "ACQUIRE job");
    uint64_t waiter = wait_for(1, "ACQUIRE job WAIT -1 ASYNC");
    replace();
    serve();
    is_int(keeper.n_commands, 0, "a ttl that is not allowed any more: the lease is not extended");
    ask_id(0, "CHECK", id);
    is_string(got(0), ":9898\r\n", "but it is held");
    pass_ms(LEFT_MS);
    ok(has(0, "lost") && has(0, "closed"), "until its deadline, then its client gets lost");
    ok(count_commands(COMMAND_CONTEND, waiter) == 1 && last_command()->terms.ttl_ms == 5000,
       "a waiting request gets the longest ttl allowed");

    begin();
    finds.max_ttl_ms = 5000;
    id = hold(0, "ACQUIRE job HEARTBEAT 5000");
    replace();
    serve();
    ask_id(0, "BEAT", id);
    is_int(count_commands(COMMAND_BEAT, 0), 0, "a heartbeat means nothing to the keeper, which has it not");
    clear();
    ask_id(0, "RELEASE", id);
    is_string(got(0), ":1\r\n", "it may be released before");
}

/* --- hand-offs --- */

static void on_secret(void *userdata, uint8_t secret[SECRET_BYTES]) {
    static uint8_t last;

    (void) userdata;
    memset(secret, ++last, SECRET_BYTES);
}

static void hand_overs_begin(void) {
    harness.front.registry.sink.secret = on_secret;
}

/* Session 0 had the lease, 1 was granted it from the queue, 2 waits for it; their ids. */
static void contend(const char *second, const char *third, uint64_t ret[2]) {
    uint64_t first = hold(0, "ACQUIRE web");
    ret[0] = wait_for(1, second);
    ret[1] = wait_for(2, third);
    ask_id(0, "RELEASE", first);
    report(first, REPORT_RELEASED);
    flush(0);
    assert(last_command()->kind == COMMAND_CONTEND);
    report(ret[0], REPORT_GRANTED);
    flush(1);
}

static void contended(const char *second, const char *third, uint64_t ret[2]) {
    begin();
    hand_overs_begin();
    contend(second, third, ret);
}

/* The random part of the lock value in the last RESUME command. */
static bool searched_for(uint64_t request, const char secret[SECRET_BYTES]) {
    const struct command *command = last_command();
    return command && command->kind == COMMAND_RESUME && command->request == request &&
           memcmp(command->secret, secret, SECRET_BYTES) == 0;
}

static const char node_state[SECRET_BYTES + 1] = "abcdefghijklmnopqrst";

static void test_handed_over(void) {
    uint64_t ids[2];

    contended("ACQUIRE web WAIT -1 ASYNC", "ACQUIRE web WAIT -1 ASYNC", ids);
    ask_id(1, "RELEASE", ids[0]);
    ok(has(2, "granted"), "a lease is handed off");
    flush(1);
    flush(2);
    replace();
    ok(last_command()->kind == COMMAND_RESUME && last_command()->request == ids[1] &&
           !searched_for(ids[1], node_state),
       "the next process searches for the holder's random part");
    report(ids[1], REPORT_FAILED);
    ok(searched_for(ids[1], node_state), "then for the part in the keys since the acquisition");
    report(ids[1], REPORT_GRANTED);
    ok(last_command()->kind == COMMAND_REFRESH && last_command()->request == ids[1],
       "and the keys get the holder's part");
    clear();
    serve();
    ok(!has(2, "lost"), "the holder gets no output");

    contended("ACQUIRE web WAIT -1 ASYNC", "ACQUIRE web WAIT -1 ASYNC", ids);
    ask_id(1, "RELEASE", ids[0]);
    flush(1);
    flush(2);
    replace();
    report(ids[1], REPORT_FAILED);
    report(ids[1], REPORT_FAILED);
    serve();
    ok(has(2, "lost"), "if neither is found it is lost");
    uint64_t next = wait_for(3, "ACQUIRE web WAIT -1 ASYNC");
    is_int(count_commands(COMMAND_CONTEND, next), 0,
           "but both together may have a majority: no request contends before its deadline");
    pass_ms(LEFT_MS);
    is_int(count_commands(COMMAND_CONTEND, next), 1, "then the next one does");
}

/* The flush of the next holder was sent, that of the former was not. */
static void test_two_holders(void) {
    uint64_t ids[2];
    contended("ACQUIRE web WAIT -1 ASYNC", "ACQUIRE web WAIT -1 ASYNC", ids);
    ask_id(1, "RELEASE", ids[0]);
    flush(2);
    replace();
    ok(count_commands(COMMAND_RESUME, ids[0]) == count_commands(COMMAND_FORGET, ids[0]),
       "a session with an unanswered release no longer holds the lease");
    is_int(count_commands(COMMAND_RESUME, ids[1]), 1, "the other one has it");
    clear();
    ask_id(1, "RELEASE", ids[0]);
    ok(has(1, ":1\r\n"), "its RELEASE is read again, and answered");
    is_int(count_commands(COMMAND_RELEASE, ids[0]), 0, "and deletes nothing");
    serve();
    report(ids[1], REPORT_GRANTED);
    ok(!has(1, "lost") && !has(2, "lost"), "nothing is lost");
}

/* The next process dies before it has answered either. */
static void test_two_holders_again(void) {
    uint64_t ids[2];

    contended("ACQUIRE web WAIT -1 ASYNC", "ACQUIRE web WAIT -1 ASYNC", ids);
    ask_id(1, "RELEASE", ids[0]);
    flush(2);
    replace();
    replace();
    is_int(count_commands(COMMAND_RESUME, ids[0]), 0,
           "and the next process does not ask the nodes for it either");
    is_int(count_commands(COMMAND_RESUME, ids[1]), 1, "only that of its holder");
    clear();
    ask_id(1, "RELEASE", ids[0]);
    is_string(got(1), ":1\r\n", "the former holder's RELEASE is answered");
    is_int(count_commands(COMMAND_RELEASE, ids[0]), 0, "and deletes nothing");
}

/* The next holder's session is not restored: its knowledge is unknown. */
static void test_forsaken_holder(void) {
    uint64_t ids[2];

    contended("ACQUIRE web WAIT -1 ASYNC", "ACQUIRE web WAIT -1 ASYNC", ids);
    ask_id(1, "RELEASE", ids[0]);
    flush(2);
    finds.missing = 1u << 2;
    replace();
    clear();
    ask_id(1, "RELEASE", ids[0]);
    is_string(got(1), ":1\r\n", "the former holder's RELEASE is answered");
    serve();
    is_int(count_commands(COMMAND_RELEASE, ids[0]), 0,
           "and no key is deleted that the other may consider its own");
    uint64_t next = wait_for(3, "ACQUIRE web WAIT -1 ASYNC");
    is_int(count_commands(COMMAND_CONTEND, next), 0, "no request contends before its deadline");
    pass_ms(LEFT_MS);
    is_int(count_commands(COMMAND_CONTEND, next), 1, "then the next one does");
}

static void test_other_data(void) {
    uint64_t ids[2];

    contended("ACQUIRE web WAIT -1 ASYNC DATA one", "ACQUIRE web WAIT -1 ASYNC DATA two", ids);
    ask_id(1, "RELEASE", ids[0]);
    ok(!has(2, "granted") && count_commands(COMMAND_RELEASE, ids[0]) == 1,
       "with a ledger, no hand-off to a request with other data: its lease could not be found");
    begin();
    hand_overs_begin();
    harness.front.registry.ledger = NULL;
    contend("ACQUIRE web WAIT -1 ASYNC DATA one", "ACQUIRE web WAIT -1 ASYNC DATA two", ids);
    ask_id(1, "RELEASE", ids[0]);
    ok(has(2, "granted"), "without one it is");
}

int main(void) {
    test_found();
    test_at_risk();
    test_not_found();
    test_released_meanwhile();
    test_deadline_first();
    test_ids();
    test_forsaken();
    test_unreported_grant();
    test_resume_unreported();
    test_order();
    test_granted_unreported();
    test_unreported_behind_another();
    test_one_try();
    test_place_taken_again();
    test_smaller_limits();
    test_handed_over();
    test_two_holders();
    test_two_holders_again();
    test_forsaken_holder();
    test_other_data();
    return done_testing();
}
