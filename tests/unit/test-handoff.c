/* Hand-off: the registry gives a lease to the next waiter by itself, and the keeper's lease follows. */

#include <assert.h>
#include <sys/mman.h>

#include "local/recovery/restore.h"
#include "tap.h"
#include "shard-harness.h"

enum { REQUESTS = 1024, NOTES_MAX = 4096 };

/* --- the front's part --- */

static struct front {
    struct registry registry;
    struct admission_requester requests[2]; /* of two sessions, which are nothing else here */
    struct command commands[NOTES_MAX];
    char texts[NOTES_MAX][64];
    unsigned n_commands;
    struct {
        enum request_outcome_kind kind;
        uint64_t id;
        uint8_t secret;
    } outcomes[NOTES_MAX];
    unsigned n_outcomes, changes;
    uint8_t secrets;
    instant_ns now_ns;
    void *memory;
} front;

static void on_command(void *userdata, uint64_t hash, const struct command *command) {
    (void) userdata;
    (void) hash;
    assert(front.n_commands < NOTES_MAX);
    (void) snprintf(front.texts[front.n_commands], sizeof(front.texts[0]), "%.*s",
                    command->head_length + command->tail_length, command->text ? command->text : "");
    front.commands[front.n_commands++] = *command;
}

static void on_outcome(void *userdata, struct request *request, const struct request_outcome *outcome,
                       instant_ns now_ns) {
    (void) userdata;
    (void) now_ns;
    assert(front.n_outcomes < NOTES_MAX);
    front.outcomes[front.n_outcomes].kind = outcome->kind;
    front.outcomes[front.n_outcomes].secret =
        outcome->kind == OUTCOME_GRANTED ? (uint8_t) outcome->text[0] : 0;
    front.outcomes[front.n_outcomes++].id = registry_id(&front.registry, request);
}

static void on_changed(void *userdata, uint64_t hash, const char *name, size_t length) {
    (void) userdata;
    (void) hash;
    (void) name;
    (void) length;
    front.changes++;
}

static void on_front_secret(void *userdata, uint8_t secret[SECRET_BYTES]) {
    (void) userdata;
    memset(secret, ++front.secrets, SECRET_BYTES);
}

static void front_begin(void) {
    const struct registry_sink sink = {
        .command = on_command, .outcome = on_outcome, .changed = on_changed, .secret = on_front_secret};
    const uint64_t key[2] = {1, 2};
    size_t bytes = registry_memory_bytes(REQUESTS);

    if (front.memory)
        (void) munmap(front.memory, bytes);
    memset(&front, 0, sizeof(front));
    front.now_ns = 1000 * NS_PER_S;
    front.secrets = 100;
    front.memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(front.memory != MAP_FAILED);
    registry_init(&front.registry, &sink, REQUESTS, REQUESTS, key, front.memory);
    admission_requester_init(&front.requests[0]);
    admission_requester_init(&front.requests[1]);
}

static struct registry_ask usual(void) {
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

static uint64_t ask_of(unsigned session, const struct registry_ask *ask) {
    struct request *request = registry_ask(
        &front.registry, (struct session *) (void *) &front.requests[session], ask, front.now_ns);
    assert(request);
    uint64_t id = registry_id(&front.registry, request);
    bool started = registry_start(&front.registry, request, ask, front.now_ns);
    assert(started);
    return id;
}

static uint64_t ask_with(const struct registry_ask *ask) {
    return ask_of(0, ask);
}

static uint64_t ask(void) {
    const struct registry_ask terms = usual();
    return ask_with(&terms);
}

static struct request *request_of(uint64_t id) {
    struct request *request = registry_find(&front.registry, id);
    assert(request);
    return request;
}

static uint64_t handle_of(uint64_t id) {
    return keeper_handle_of(&front.registry.handles, request_of(id)->handle_slot);
}

static void report(enum report_kind kind, uint64_t number) {
    const struct report report = {.kind = kind,
                                  .request = number,
                                  .deadline_ns = front.now_ns + 9898 * NS_PER_MS,
                                  .token = 1000,
                                  .token_last = 1000 + HANDOFFS_MAX,
                                  .text = "vvvvvvvvvvvvvvvvvvvv",
                                  .text_length = SECRET_BYTES};
    registry_report(&front.registry, &report, front.now_ns);
}

/* By the last command, which contends: with all the tokens that it asked for. */
static void grant(void) {
    const struct command *contend = &front.commands[front.n_commands - 1];
    const struct report report = {.kind = REPORT_GRANTED,
                                  .request = contend->request,
                                  .deadline_ns = front.now_ns + 9898 * NS_PER_MS,
                                  .token = contend->token + 1,
                                  .token_last = contend->token + 1 + contend->spare_tokens,
                                  .text = "vvvvvvvvvvvvvvvvvvvv",
                                  .text_length = SECRET_BYTES};

    assert(contend->kind == COMMAND_CONTEND);
    registry_report(&front.registry, &report, front.now_ns);
}

/* A release of this name had subscribers. */
static void awaited(const char *name) {
    const struct report report = {
        .kind = REPORT_AWAITED, .request = 1, .text = name, .text_length = (uint16_t) strlen(name)};

    registry_report(&front.registry, &report, front.now_ns);
}

static void release(uint64_t id) {
    registry_release(&front.registry, request_of(id), front.now_ns);
}

static unsigned count_commands(enum command_kind kind) {
    unsigned count = 0;

    for (unsigned i = 0; i < front.n_commands; i++)
        count += front.commands[i].kind == kind;
    return count;
}

static const struct command *last_command(void) {
    return &front.commands[front.n_commands - 1];
}

/* A holder that contended alone releases; the first of the queue is granted the lease. Returns its id. */
static uint64_t grant_from_line(const uint64_t *line) {
    const struct command *contend = &front.commands[0];

    assert(contend->kind == COMMAND_CONTEND);
    report(REPORT_GRANTED, contend->request);
    release(line[0]);
    report(REPORT_RELEASED, contend->request);
    assert(last_command()->kind == COMMAND_CONTEND);
    report(REPORT_GRANTED, last_command()->request);
    front.n_outcomes = 0;
    return line[1];
}

static void test_handed_over(void) {
    uint64_t line[4];

    front_begin();
    for (unsigned i = 0; i < 4; i++)
        line[i] = ask();
    is_int(front.commands[0].spare_tokens, 0, "a request without a queue before it reserves no tokens");
    uint64_t holder = grant_from_line(line);
    unsigned commands = front.n_commands, changes = front.changes;
    uint64_t number = handle_of(holder);
    instant_ns deadline_ns = request_of(holder)->deadline_ns;
    is_int(last_command()->spare_tokens, HANDOFFS_MAX,
           "a request from the queue reserves tokens for hand-offs");
    is_int(last_command()->token, 1000 + HANDOFFS_MAX, "beyond those that are known of the name");

    front.now_ns += NS_PER_MS;
    release(holder);
    is_int(front.n_commands, commands, "a hand-off says nothing to the keeper");
    is_int(front.changes, changes, "nor to observers");
    is_int(front.n_outcomes, 2, "two outcomes are delivered");
    ok(front.outcomes[0].kind == OUTCOME_GRANTED && front.outcomes[0].id == line[2],
       "the next waiter is granted the lease");
    ok(front.outcomes[1].kind == OUTCOME_RELEASED && front.outcomes[1].id == holder,
       "the releaser has its answer");
    ok(front.outcomes[0].secret > 100 && front.outcomes[0].secret != 'v', "with a secret that no node has");
    ok(!registry_find(&front.registry, holder), "the request that released is gone");
    const struct request *next = request_of(line[2]);
    is_int(next->state, REQUEST_HELD, "the next request holds");
    is_int(next->deadline_ns, deadline_ns, "until the lease's deadline");
    is_int(next->token, 1001, "with the next token of the block");
    is_int(keeper_handle_of(&front.registry.handles, next->handle_slot), number,
           "and the keeper's handle is the same");
    is_int(front.registry.held, 1, "one is held");
    is_int(front.registry.waiting, 1, "and one waits");

    front.now_ns += NS_PER_MS;
    report(REPORT_EXTENDED, number);
    ok(request_of(line[2])->deadline_ns > deadline_ns, "an extension is the new holder's");
    report(REPORT_AT_RISK, number);
    is_int(front.outcomes[2].id, line[2], "the new holder gets at-risk");
    release(line[2]);
    is_int(last_command()->kind, COMMAND_CONTEND, "a lease at risk is not handed off");
    is_int(front.commands[front.n_commands - 2].request, number, "but released, by its number");
    report(REPORT_RELEASED, number);
    is_int(front.outcomes[3].id, line[2], "the request that released gets its outcome");
}

static void test_lost(void) {
    uint64_t line[3];

    front_begin();
    for (unsigned i = 0; i < 3; i++)
        line[i] = ask();
    uint64_t holder = grant_from_line(line), number = handle_of(holder);
    release(holder);
    report(REPORT_LOST, number);
    ok(front.outcomes[2].kind == OUTCOME_LOST && front.outcomes[2].id == line[2],
       "a lease that the keeper lost before the hand-off is the new holder's loss");
    is_int(registry_find(&front.registry, line[2]) != NULL, 0, "and is gone");
}

static void test_not_fine(void) {
    static const struct {
        const char *what;
        int64_t later_ms;
        uint32_t ttl_ms;
        uint32_t max_hold_ms;
        bool fencing;
    } cases[] = {
        {"to another ttl", 1, 5000, 0, true},
        {"to another max_hold", 1, 10000, 60000, true},
        {"to one without fencing", 1, 10000, 0, false},
        {"after its time", HANDOFF_MS, 10000, 0, true},
    };

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct registry_ask terms = usual();
        uint64_t line[3];
        front_begin();
        line[0] = ask();
        line[1] = ask();
        terms.terms.ttl_ms = cases[i].ttl_ms;
        terms.terms.max_hold_ms = cases[i].max_hold_ms;
        terms.terms.fencing = cases[i].fencing;
        line[2] = ask_with(&terms);
        uint64_t holder = grant_from_line(line);
        front.now_ns += cases[i].later_ms * NS_PER_MS;
        release(holder);
        ok(count_commands(COMMAND_RELEASE) == 2 && last_command()->kind == COMMAND_CONTEND,
           "no hand-off %s: it is released, and the next contends", cases[i].what);
        ok((last_command()->pause_ns > 0) == (cases[i].later_ms == HANDOFF_MS),
           "after a pause if it was this host's turn for long enough");
    }
}

static void test_late(void) {
    uint64_t line[3];

    front_begin();
    for (unsigned i = 0; i < 3; i++)
        line[i] = ask();
    uint64_t holder = grant_from_line(line);
    request_of(holder)->deadline_ns = front.now_ns + 4999 * NS_PER_MS;
    release(holder);
    is_int(last_command()->kind, COMMAND_CONTEND, "no hand-off with less than half of the ttl left");
}

static void test_known(void) {
    front_begin();
    uint64_t first = ask();
    (void) ask();
    report(REPORT_GRANTED, front.commands[0].request);
    is_int(front.outcomes[0].secret, 'v',
           "a request without a queue before it gets the random part in the keys");
    release(first);
    is_int(last_command()->kind, COMMAND_CONTEND, "so its lease is not handed off");
}

static int64_t pause_after_ns(int64_t held_ms, bool has_company) {
    uint64_t line[3];

    front_begin();
    for (unsigned i = 0; i < 3; i++)
        line[i] = ask();
    uint64_t holder = grant_from_line(line);
    front.now_ns += held_ms * NS_PER_MS;
    if (has_company)
        awaited("x");
    release(holder);
    return last_command()->pause_ns;
}

static void test_long(void) {
    is_int(pause_after_ns(60, false), NS_PER_MS,
           "after a long hold the next request pauses for a millisecond");
    is_int(pause_after_ns(200, false), NS_PER_MS, "up to a fifth of a second");
    is_int(pause_after_ns(600, false), 3 * NS_PER_MS, "after a two-hundredth from then on");
    is_int(pause_after_ns(3000, false), 5 * NS_PER_MS, "up to five milliseconds");
    is_int(pause_after_ns(60, true), 5 * NS_PER_MS, "for five, if another host subscribed");
    is_int(pause_after_ns(3000, true), 5 * NS_PER_MS, "and then after no more");
}

static void test_in_a_row(void) {
    uint64_t line[HANDOFFS_MAX + 3];

    front_begin();
    for (unsigned i = 0; i < HANDOFFS_MAX + 3; i++)
        line[i] = ask();
    (void) grant_from_line(line);
    unsigned before = count_commands(COMMAND_RELEASE);
    for (unsigned i = 1; i <= HANDOFFS_MAX; i++) {
        front.now_ns += 100 * NS_PER_US;
        release(line[i]);
    }
    is_int(request_of(line[HANDOFFS_MAX + 1])->state, REQUEST_HELD,
           "sixty-four hand-offs in a row, in order");
    is_int(request_of(line[HANDOFFS_MAX + 1])->token, 1000 + HANDOFFS_MAX, "take the whole block");
    is_int(count_commands(COMMAND_RELEASE), before, "without a command to the keeper");
    is_int(front.registry.handoffs, HANDOFFS_MAX, "and are counted");
    release(line[HANDOFFS_MAX + 1]);
    is_int(count_commands(COMMAND_RELEASE), before + 1, "then the lease is released");
    is_int(last_command()->pause_ns, 64 * 100 * NS_PER_US / 32,
           "and the next request pauses shortly, for hosts that poll");
    is_int(last_command()->spare_tokens, 4 * HANDOFFS_MAX,
           "without another host in sight, before a longer series");
}

enum { LINE = 640 };

/* So many wait, and the first of the queue holds. */
static void begin_turns(uint64_t line[LINE]) {
    front_begin();
    for (unsigned i = 0; i < LINE; i++)
        line[i] = ask();
    grant();
    release(line[0]);
    grant();
}

/* Each holder releases, from line[*at] on, until the keeper gets a command. Returns the number of hand-offs.
 */
static unsigned take_series(const uint64_t line[LINE], unsigned *at) {
    unsigned before = count_commands(COMMAND_RELEASE), handoffs = 0;

    for (;; handoffs++) {
        front.now_ns += 100 * NS_PER_US;
        release(line[(*at)++]);
        if (count_commands(COMMAND_RELEASE) > before)
            return handoffs;
    }
}

static void test_alone(void) {
    uint64_t line[LINE];
    unsigned at = 1;

    begin_turns(line);
    is_int(take_series(line, &at), HANDOFFS_MAX, "the first turn is a short one");
    grant();
    is_int(take_series(line, &at), 4 * HANDOFFS_MAX, "the next series is longer while no other host waits");
    is_int(last_command()->spare_tokens, 16 * HANDOFFS_MAX, "and so on");
    grant();
    front.now_ns += HANDOFF_MS * NS_PER_MS;
    is_int(take_series(line, &at), 0, "as long as their time is not over");
    is_int(last_command()->spare_tokens, HANDOFFS_MAX,
           "and no more tokens are requested while some are unused");
    grant();
    for (unsigned i = 0; i < HANDOFFS_MAX; i++) {
        front.now_ns += 2 * NS_PER_US;
        release(line[at++]);
    }
    release(line[at++]);
    is_int(last_command()->spare_tokens, 2 * HANDOFFS_MAX, "no more tokens than microseconds have passed");
    ok(last_command()->token >= request_of(line[at - 1])->token,
       "the next ones are beyond all of the block");
}

static void test_company(void) {
    uint64_t line[LINE];
    unsigned at = 1;

    begin_turns(line);
    awaited("y");
    awaited("x");
    is_int(take_series(line, &at), HANDOFFS_MAX,
           "while another host waits, sixty-four hand-offs are a turn");
    is_int(last_command()->spare_tokens, HANDOFFS_MAX, "and the next is no longer");
    is_int(last_command()->pause_ns, 65 * 100 * NS_PER_US / 8, "the pause before it is long");
    front.now_ns += 9980 * NS_PER_MS;
    grant();
    is_int(take_series(line, &at), HANDOFFS_MAX, "for some seconds");
    front.now_ns += NS_PER_S;
    grant();
    (void) take_series(line, &at);
    is_int(last_command()->spare_tokens, 4 * HANDOFFS_MAX, "then they get longer again");
    is_int(last_command()->pause_ns, 65 * 100 * NS_PER_US / 32, "and the pauses shorter");
}

static void meet_other_holder(void) {
    const struct report report = {.kind = REPORT_CONTENDED,
                                  .failure = FAILURE_BUSY,
                                  .request = last_command()->request,
                                  .text = "held",
                                  .text_length = 4};
    registry_report(&front.registry, &report, front.now_ns);
}

static void test_company_comes(void) {
    for (unsigned met = 0; met < 2; met++) {
        uint64_t line[LINE];
        unsigned at = 1;
        begin_turns(line);
        (void) take_series(line, &at);
        if (met) {
            meet_other_holder();
            grant();
        } else {
            grant();
            awaited("x");
        }
        is_int(take_series(line, &at), HANDOFFS_MAX,
               met ? "a longer series is cut short when another host was met" : "or is known to wait");
        is_int(last_command()->pause_ns, 65 * 100 * NS_PER_US / 8, "and a long pause follows");
    }
}

static void test_told(void) {
    uint64_t line[3];

    front_begin();
    for (unsigned i = 0; i < 3; i++)
        line[i] = ask();
    uint64_t holder = grant_from_line(line), number = handle_of(holder);
    instant_ns tell_ns = front.now_ns + HANDOFF_MS * NS_PER_MS;
    front.now_ns += 20 * NS_PER_MS;
    release(holder);
    is_int(registry_due_ns(&front.registry), tell_ns, "the keys are refreshed in time");
    unsigned changes = front.changes;
    front.now_ns = tell_ns;
    registry_tick(&front.registry, front.now_ns);
    const struct command *told = last_command();
    is_int(told->kind, COMMAND_REFRESH, "by this command");
    is_int(told->request, number, "with the lease's handle");
    is_int(told->token, 1001, "the holder's token");
    is_int(told->secret[0], front.outcomes[0].secret, "and the holder's random part");
    is_string(front.texts[front.n_commands - 1], "x7:1000:me", "and the holder's tail");
    is_int(front.changes, changes + 1, "observers query now");
    instant_ns until_ns = request_of(line[2])->deadline_ns, due_ns = registry_due_ns(&front.registry);
    ok(due_ns <= until_ns && due_ns > until_ns - (until_ns - tell_ns) / 10, "once");
    (void) ask();
    release(line[2]);
    is_int(last_command()->kind, COMMAND_CONTEND, "a lease that its holder can resume is not handed off");
}

static void test_death(void) {
    uint64_t line[4];

    front_begin();
    for (unsigned i = 0; i < 4; i++)
        line[i] = ask();
    uint64_t holder = grant_from_line(line);
    registry_drop(&front.registry, request_of(holder), front.now_ns);
    is_int(front.n_outcomes, 1, "a dead process gets no outcome");
    is_int(request_of(line[2])->state, REQUEST_HELD, "its lease goes to the next waiter");
    bool stays = registry_abandon(&front.registry, request_of(line[2]), front.now_ns);
    ok(stays, "a session closed by the agent keeps its lease until the deadline");
    registry_drop(&front.registry, request_of(line[2]), front.now_ns);
    is_int(last_command()->kind, COMMAND_CONTEND, "and when its process dies the lease is not handed off");
}

static void test_pages(void) {
    static _Alignas(64) char memory[2][DEADLINE_PAGE_BYTES];
    struct deadline_page pages[2];
    uint64_t line[3];

    front_begin();
    deadline_page_init(&pages[0], (struct deadline_page_memory *) (void *) memory[0]);
    deadline_page_init(&pages[1], (struct deadline_page_memory *) (void *) memory[1]);
    for (unsigned i = 0; i < 2; i++)
        front.requests[i].page = &pages[i];
    for (unsigned i = 0; i < 3; i++) {
        const struct registry_ask terms = usual();
        line[i] = ask_of(i % 2, &terms);
    }
    uint64_t holder = grant_from_line(line);
    int64_t shown[2];
    memcpy(&shown[1], memory[1] + DEADLINE_PAGE_HEADER_BYTES + 8, sizeof(shown[1]));
    is_int(shown[1], request_of(holder)->deadline_ns, "the holder's page shows its deadline");
    release(holder);
    for (unsigned i = 0; i < 2; i++)
        memcpy(&shown[i], memory[i] + DEADLINE_PAGE_HEADER_BYTES + 8, sizeof(shown[i]));
    is_int(shown[1], 0, "after the hand-off it shows none");
    is_int(shown[0], request_of(line[2])->deadline_ns, "and that of the new holder does");
}

/* Restored, and not searched for: the agent cannot reach its client. */
static void test_left(void) {
    static const uint8_t secret[SECRET_BYTES] = {0};
    const struct restore_entry past = {.id = (UINT64_C(3) << REQUEST_INDEX_BITS) + 5,
                                       .state = RESTORE_LEFT,
                                       .left = true,
                                       .deadline_ns = 1001 * NS_PER_S,
                                       .acquired = secret};
    struct registry_ask terms = usual();

    front_begin();
    terms.resume = secret;
    terms.hold_until_ns = INSTANT_NEVER;
    struct request *request = restore_request(&front.registry, NULL, &terms, &past);
    assert(request);
    restore_start(&front.registry, front.now_ns);
    ok(front.n_commands == 0, "no command for a lease whose client is out of reach");
    (void) ask();
    is_int(front.n_commands, 0, "and no other request contends");
    front.now_ns = past.deadline_ns;
    registry_tick(&front.registry, front.now_ns);
    is_int(front.n_commands, 2, "until its deadline");
    ok(front.commands[0].request != 0 && front.commands[0].request != front.commands[1].request,
       "the keeper gets a command then, with a handle of its own");
    report(REPORT_RELEASED, front.commands[0].request);
    is_int(front.registry.requests.taken, 1, "and answers");
}

/* --- the keeper's part --- */

static void hand_off(void) {
    struct command command = {.kind = COMMAND_REFRESH,
                              .request = 1,
                              .hold_until_ns = INSTANT_NEVER,
                              .token = 5,
                              .text = "x43:him",
                              .head_length = 1,
                              .tail_length = 6};
    memset(command.secret, 77, SECRET_BYTES);
    shard_command(&harness.shard, &command, harness.now_ns);
    pass_ms(0);
}

static void test_refresh(void) {
    shard_harness_begin(3);
    hold(1);
    const uint8_t value = last_sent(OPERATION_ACQUIRE)->secret[0];
    struct sent sent = *last_sent(OPERATION_ACQUIRE);
    pass_ms(40);
    instant_ns deadline_ns = last_report(REPORT_GRANTED)->deadline_ns;
    hand_off();
    ok(last_sent(OPERATION_REFRESH), "a lease with another holder is refreshed at once");
    sent = *last_sent(OPERATION_REFRESH);
    is_int(sent.secret[0], 77, "with the new value");
    ok(sent.has_former && sent.former[0] == value, "in the place of the former one");
    is_int(sent.token, 5, "and with the holder's token");
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    ok(last_report(REPORT_EXTENDED) &&
           last_report(REPORT_EXTENDED)->deadline_ns == deadline_ns + 40 * NS_PER_MS,
       "which extends it");
    vote(2, &sent, VOTE_CUT);
    for (unsigned ms = 0; ms < 3800 && count_sent(OPERATION_REFRESH) < 2; ms++)
        pass_ms(1);
    is_int(count_sent(OPERATION_REFRESH), 2,
           "as long as a node may have the former value, extensions name both");
    sent = *last_sent(OPERATION_REFRESH);
    for (unsigned i = 0; i < 3; i++)
        vote(i, &sent, VOTE_YES);
    pass_ms(3800);
    is_int(count_sent(OPERATION_REFRESH), 2, "then no more");
    ok(last_sent(OPERATION_EXTEND), "it is extended like others");
    command(COMMAND_RELEASE, 1);
    ok(!last_sent(OPERATION_RELEASE)->has_former, "and released like others");
}

static void test_released_between(void) {
    shard_harness_begin(3);
    hold(1);
    hand_off();
    struct sent sent = *last_sent(OPERATION_REFRESH);
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_FOREIGN);
    command(COMMAND_RELEASE, 1);
    sent = *last_sent(OPERATION_RELEASE);
    ok(sent.has_former && sent.secret[0] == 77 && sent.nodes == 7,
       "a release deletes either value, on all nodes, as long as one may have the former");
    for (unsigned i = 0; i < 3; i++)
        vote(i, &sent, VOTE_YES);
    ok(last_report(REPORT_RELEASED), "and ends like others");
    is_int(harness.shard.leases.taken, 0, "nothing is left of it");
}

static void test_failed_refresh(void) {
    shard_harness_begin(3);
    hold(1);
    instant_ns deadline_ns = last_report(REPORT_GRANTED)->deadline_ns;
    hand_off();
    struct sent sent = *last_sent(OPERATION_REFRESH);
    for (unsigned i = 0; i < 3; i++)
        vote(i, &sent, VOTE_CUT);
    ok(last_report(REPORT_AT_RISK), "a refresh that fails is an extension that failed");
    is_int(last_report(REPORT_AT_RISK)->request, 1, "of the same lease");
    sent = *last_sent(OPERATION_REFRESH);
    pass_ms(200);
    ok(count_sent(OPERATION_REFRESH) > 1, "and is tried again, with both values");
    harness.now_ns = deadline_ns;
    shard_tick(&harness.shard, harness.now_ns);
    ok(last_report(REPORT_LOST), "until the deadline");
}

static void test_stolen(void) {
    shard_harness_begin(3);
    hold(1);
    hand_off();
    struct sent sent = *last_sent(OPERATION_REFRESH);
    vote(0, &sent, VOTE_FOREIGN);
    vote(1, &sent, VOTE_FOREIGN);
    ok(last_report(REPORT_LOST) && last_report(REPORT_LOST)->reason == REASON_TAKEN,
       "another's value in a majority of the keys: lost");
    unsigned sends = harness.n_sends;
    hand_off();
    is_int(harness.n_sends, sends, "a lease that is lost is not refreshed");
    harness.now_ns = last_report(REPORT_GRANTED)->deadline_ns;
    shard_tick(&harness.shard, harness.now_ns);
    ok(last_sent(OPERATION_RELEASE) && last_sent(OPERATION_RELEASE)->has_former,
       "after its deadline either value is deleted");
}

static void test_pause(void) {
    const struct command contend = {.kind = COMMAND_CONTEND,
                                    .persist = true,
                                    .request = 1,
                                    .terms.ttl_ms = 10000,
                                    .terms.node_timeout_ms = 100,
                                    .pause_ns = 5 * NS_PER_MS,
                                    .text = "x42:",
                                    .head_length = 1,
                                    .tail_length = 3};

    shard_harness_begin(3);
    shard_command(&harness.shard, &contend, harness.now_ns);
    pass_ms(4);
    ok(!last_sent(OPERATION_ACQUIRE), "a pause delays the first attempt");
    pass_ms(1);
    ok(last_sent(OPERATION_ACQUIRE), "but then");
}

static void test_received(void) {
    struct vote vote = {.kind = VOTE_YES, .received = true};

    shard_harness_begin(3);
    hold(1);
    command(COMMAND_RELEASE, 1);
    struct sent sent = *last_sent(OPERATION_RELEASE);
    vote_with(0, sent.ticket, &vote);
    is_int(count_reports(REPORT_AWAITED), 1, "a release with subscribers is reported");
    is_int(last_report(REPORT_AWAITED)->text_length, 1, "of its name");
    vote_with(1, sent.ticket, &vote);
    vote_with(2, sent.ticket, &vote);
    is_int(count_reports(REPORT_AWAITED), 1, "once");
    is_int(count_reports(REPORT_RELEASED), 1, "and that it is released");
    hold(2);
    command(COMMAND_RELEASE, 2);
    sent = *last_sent(OPERATION_RELEASE);
    for (unsigned i = 0; i < 3; i++) {
        vote.received = i == 2;
        vote_with(i, sent.ticket, &vote);
    }
    is_int(count_reports(REPORT_AWAITED), 1, "no report without a majority of answers");
}

static void test_held_long_elsewhere(void) {
    uint64_t line[LINE];
    unsigned at = 1;
    begin_turns(line);
    (void) take_series(line, &at);
    meet_other_holder();
    front.now_ns += 11 * NS_PER_S; /* the other host holds it all that time */
    grant();
    (void) take_series(line, &at);
    is_int(last_command()->pause_ns, 65 * 100 * NS_PER_US / 8,
           "another host held it until just now: a long pause");
    is_int(last_command()->spare_tokens, HANDOFFS_MAX, "and a short turn");
}

int main(void) {
    test_held_long_elsewhere();
    test_handed_over();
    test_lost();
    test_not_fine();
    test_late();
    test_known();
    test_long();
    test_in_a_row();
    test_alone();
    test_company();
    test_company_comes();
    test_told();
    test_death();
    test_pages();
    test_left();
    test_refresh();
    test_released_between();
    test_failed_refresh();
    test_stolen();
    test_pause();
    test_received();
    return done_testing();
}
