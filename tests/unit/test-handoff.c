/* Hand-off: the registry gives a lease to the next waiter. The keeper's half: test-key-refresh.c. */

#include <assert.h>
#include <string.h>

#include "local/recovery/restore.h"
#include "registry-harness.h"
#include "tap.h"

static void test_handed_over(void) {
    uint64_t line[4];

    registry_harness_begin();
    for (unsigned i = 0; i < 4; i++)
        line[i] = ask();
    is_int(harness.commands[0].spare_tokens, 0, "a request without a queue before it reserves no tokens");
    uint64_t holder = grant_from_line(line);
    unsigned commands = harness.n_commands, changes = harness.changes;
    uint64_t number = handle_of(holder);
    instant_ns deadline_ns = request_of(holder)->deadline_ns;
    is_int(last_command()->spare_tokens, HANDOFFS_MAX,
           "a request from the queue reserves tokens for hand-offs");
    is_int(last_command()->token, 1000 + HANDOFFS_MAX,
           "the reserved tokens exceed the known ones of the name");

    harness.now_ns += NS_PER_MS;
    release(holder);
    is_int(harness.n_commands, commands, "a hand-off sends no command to the keeper");
    is_int(harness.changes, changes, "a hand-off reports no change to observers");
    is_int(harness.n_outcomes, 2, "two outcomes are delivered");
    ok(harness.outcomes[0].kind == OUTCOME_GRANTED && harness.outcomes[0].id == line[2],
       "the next waiter is granted the lease");
    ok(harness.outcomes[1].kind == OUTCOME_RELEASED && harness.outcomes[1].id == holder,
       "the former holder gets RELEASED");
    ok(harness.outcomes[0].secret > 100 && harness.outcomes[0].secret != 'v',
       "the grant has a random part that no node has");
    ok(!registry_find(&harness.registry, holder), "the request that released is gone");
    const struct request *next = request_of(line[2]);
    is_int(next->state, REQUEST_HELD, "the next request holds");
    is_int(next->deadline_ns, deadline_ns, "the next holder has the deadline of the lease");
    is_int(next->token, 1001, "the next holder has the next token of the block");
    is_int(keeper_handle_of(&harness.registry.handles, next->handle_slot), number,
           "the keeper's handle stays the same");
    is_int(harness.registry.held, 1, "one lease is held after the hand-off");
    is_int(harness.registry.waiting, 1, "one request waits after the hand-off");

    harness.now_ns += NS_PER_MS;
    report(REPORT_EXTENDED, number);
    ok(request_of(line[2])->deadline_ns > deadline_ns, "an extension is the new holder's");
    report(REPORT_AT_RISK, number);
    is_int(harness.outcomes[2].id, line[2], "the new holder gets at-risk");
    release(line[2]);
    is_int(last_command()->kind, COMMAND_CONTEND, "a lease at risk is not handed off");
    is_int(harness.commands[harness.n_commands - 2].request, number,
           "a lease at risk is released by the keeper's number");
    report(REPORT_RELEASED, number);
    is_int(harness.outcomes[3].id, line[2], "the request that released gets its outcome");
}

static void test_lost(void) {
    uint64_t line[3];

    registry_harness_begin();
    for (unsigned i = 0; i < 3; i++)
        line[i] = ask();
    uint64_t holder = grant_from_line(line), number = handle_of(holder);
    release(holder);
    report(REPORT_LOST, number);
    ok(harness.outcomes[2].kind == OUTCOME_LOST && harness.outcomes[2].id == line[2],
       "a lease that the keeper lost before the hand-off is the new holder's loss");
    is_int(registry_find(&harness.registry, line[2]) != NULL, 0, "a request whose lease is lost is freed");
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
        registry_harness_begin();
        line[0] = ask();
        line[1] = ask();
        terms.terms.ttl_ms = cases[i].ttl_ms;
        terms.terms.max_hold_ms = cases[i].max_hold_ms;
        terms.terms.fencing = cases[i].fencing;
        line[2] = ask_with(&terms);
        uint64_t holder = grant_from_line(line);
        harness.now_ns += cases[i].later_ms * NS_PER_MS;
        release(holder);
        ok(count_commands(COMMAND_RELEASE) == 2 && last_command()->kind == COMMAND_CONTEND,
           "no hand-off %s: it is released, and the next contends", cases[i].what);
        ok((last_command()->pause_ns > 0) == (cases[i].later_ms == HANDOFF_MS),
           "after a pause if it was this host's turn for long enough");
    }
}

static void test_late(void) {
    uint64_t line[3];

    registry_harness_begin();
    for (unsigned i = 0; i < 3; i++)
        line[i] = ask();
    uint64_t holder = grant_from_line(line);
    request_of(holder)->deadline_ns = harness.now_ns + 4999 * NS_PER_MS;
    release(holder);
    is_int(last_command()->kind, COMMAND_CONTEND, "no hand-off with less than half of the ttl left");
    registry_harness_begin();
    for (unsigned i = 0; i < 3; i++)
        line[i] = ask();
    holder = grant_from_line(line);
    request_of(holder)->deadline_ns = harness.now_ns + 5000 * NS_PER_MS;
    release(holder);
    is_int(request_of(line[2])->state, REQUEST_HELD, "half of it is enough");
}

/* The keeper reserved fewer tokens than it was asked for. */
static void test_few_tokens(void) {
    for (uint8_t fencing = 0; fencing < 2; fencing++) {
        struct registry_ask terms = usual();
        uint64_t line[4];
        registry_harness_begin();
        terms.terms.fencing = fencing;
        for (unsigned i = 0; i < 4; i++)
            line[i] = ask_with(&terms);
        uint64_t holder = grant_from_line(line);
        request_of(holder)->secrets->token_last = request_of(holder)->token + 1;
        release(holder);
        is_int(request_of(line[2])->state, REQUEST_HELD, "a hand-off with the last token");
        release(line[2]);
        ok((request_of(line[3])->state == REQUEST_HELD) == !fencing,
           "and without one, if the terms want none");
    }
}

static void test_known(void) {
    registry_harness_begin();
    uint64_t first = ask();
    (void) ask();
    report(REPORT_GRANTED, harness.commands[0].request);
    is_int(harness.outcomes[0].secret, 'v',
           "a request without a queue before it gets the random part in the keys");
    release(first);
    is_int(last_command()->kind, COMMAND_CONTEND, "a lease with a known random part is not handed off");
}

static void test_refresh_command(void) {
    uint64_t line[3];

    registry_harness_begin();
    for (unsigned i = 0; i < 3; i++)
        line[i] = ask();
    uint64_t holder = grant_from_line(line), number = handle_of(holder);
    instant_ns tell_ns = harness.now_ns + HANDOFF_MS * NS_PER_MS;
    harness.now_ns += 20 * NS_PER_MS;
    release(holder);
    is_int(registry_due_ns(&harness.registry), tell_ns, "the keys are refreshed in time");
    unsigned changes = harness.changes;
    harness.now_ns = tell_ns;
    registry_tick(&harness.registry, harness.now_ns);
    const struct command *refresh = last_command();
    is_int(refresh->kind, COMMAND_REFRESH, "the keys are refreshed by COMMAND_REFRESH");
    is_int(refresh->request, number, "the refresh has the lease's handle");
    is_int(refresh->token, 1001, "the refresh has the holder's token");
    is_int(refresh->secret[0], harness.outcomes[0].secret, "the refresh has the holder's random part");
    is_string(harness.texts[harness.n_commands - 1], "x7:1000:me",
              "the refresh has the holder's pid, uid and data");
    is_int(harness.changes, changes + 1, "a refresh is reported to observers");
    instant_ns until_ns = request_of(line[2])->deadline_ns, due_ns = registry_due_ns(&harness.registry);
    ok(due_ns <= until_ns && due_ns > until_ns - (until_ns - tell_ns) / 10, "the keys are refreshed once");
    (void) ask();
    release(line[2]);
    is_int(last_command()->kind, COMMAND_CONTEND, "a lease that its holder can resume is not handed off");
}

static void test_death(void) {
    uint64_t line[4];

    registry_harness_begin();
    for (unsigned i = 0; i < 4; i++)
        line[i] = ask();
    uint64_t holder = grant_from_line(line);
    registry_drop(&harness.registry, request_of(holder), harness.now_ns);
    is_int(harness.n_outcomes, 1, "a dead process gets no outcome");
    is_int(request_of(line[2])->state, REQUEST_HELD, "a dead process's lease goes to the next waiter");
    registry_abandon(&harness.registry, request_of(line[2]));
    is_int(request_of(line[2])->state, REQUEST_HELD,
           "a session closed by the agent keeps its lease until the deadline");
    registry_drop(&harness.registry, request_of(line[2]), harness.now_ns);
    is_int(last_command()->kind, COMMAND_CONTEND, "and when its process dies the lease is not handed off");
}

static void test_pages(void) {
    static _Alignas(64) char memory[2][DEADLINE_PAGE_BYTES];
    struct deadline_page pages[2];
    uint64_t line[3];

    registry_harness_begin();
    deadline_page_init(&pages[0], (struct deadline_page_memory *) (void *) memory[0]);
    deadline_page_init(&pages[1], (struct deadline_page_memory *) (void *) memory[1]);
    for (unsigned i = 0; i < 2; i++)
        harness.requests[i].page = &pages[i];
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
    is_int(shown[1], 0, "after the hand-off the former holder's page shows no deadline");
    is_int(shown[0], request_of(line[2])->deadline_ns, "the new holder's page shows the deadline");
}

/* Restored, and not searched for: the agent cannot reach its client. */
static void test_left(void) {
    static const uint8_t secret[SECRET_BYTES] = {0};
    const struct restore_entry past = {.id = (UINT64_C(3) << REQUEST_INDEX_BITS) + 5,
                                       .state = RESTORE_LEFT,
                                       .abandoned = true,
                                       .deadline_ns = 1001 * NS_PER_S,
                                       .acquired = secret};
    struct registry_ask terms = usual();

    registry_harness_begin();
    terms.resume = secret;
    terms.hold_until_ns = INSTANT_NEVER;
    struct request *request = restore_request(&harness.registry, NULL, &terms, &past);
    assert(request);
    restore_start(&harness.registry, harness.now_ns);
    restore_end(&harness.registry, harness.now_ns);
    ok(harness.n_commands == 0, "no command for a lease whose client is out of reach");
    (void) ask();
    is_int(harness.n_commands, 0, "no other request contends for such a lease");
    harness.now_ns = past.deadline_ns;
    registry_tick(&harness.registry, harness.now_ns);
    is_int(harness.n_commands, 2, "at its deadline the next request contends");
    ok(harness.commands[0].request != 0 && harness.commands[0].request != harness.commands[1].request,
       "the keeper gets a command then, with a handle of its own");
    report(REPORT_RELEASED, harness.commands[0].request);
    is_int(harness.registry.requests.taken, 1, "the keeper confirms, and the lease is over");
}

/* Until the refresh the keeper knows the end of the former holder's max_hold. */
static void test_former_max_hold(void) {
    struct registry_ask limited = usual();
    uint64_t line[3];

    registry_harness_begin();
    limited.terms.max_hold_ms = 60000;
    for (unsigned i = 0; i < 3; i++)
        line[i] = ask_with(&limited);
    uint64_t holder = grant_from_line(line), number = handle_of(holder);
    struct report end = {.kind = REPORT_AT_RISK, .request = number, .reason = REASON_MAX_HOLD, .text = ""};
    end.deadline_ns = request_of(holder)->hold_until_ns;
    harness.now_ns += 20 * NS_PER_MS;
    release(holder);
    unsigned n_outcomes = harness.n_outcomes;
    registry_report(&harness.registry, &end, harness.now_ns);
    ok(harness.n_outcomes == n_outcomes && request_of(line[2])->risk == 0,
       "the end of the former holder's max_hold is not reported to the next holder");
    end.deadline_ns = request_of(line[2])->hold_until_ns;
    registry_report(&harness.registry, &end, harness.now_ns);
    is_int(request_of(line[2])->risk, 1 + REASON_MAX_HOLD, "its own end is");
}

/* Many waits of one session end at once: meanwhile others' extensions wait to be read. */
static void test_many_ends(void) {
    struct registry_ask brief = usual();

    registry_harness_begin();
    brief.wait_ms = 100;
    for (unsigned i = 0; i < 3 * REGISTRY_TICK_MAX; i++)
        (void) ask_with(&brief);
    harness.now_ns += 200 * NS_PER_MS;
    registry_tick(&harness.registry, harness.now_ns);
    ok(harness.n_outcomes > 0 && harness.n_outcomes <= REGISTRY_TICK_MAX,
       "a tick ends at most REGISTRY_TICK_MAX waits (%u)", harness.n_outcomes);
    ok(registry_due_ns(&harness.registry) <= harness.now_ns, "the others are due at once");
    for (unsigned i = 0; i < 4; i++)
        registry_tick(&harness.registry, harness.now_ns);
    is_int(harness.n_outcomes, 3 * REGISTRY_TICK_MAX, "and end in the next ticks");
}

int main(void) {
    test_handed_over();
    test_lost();
    test_not_fine();
    test_late();
    test_few_tokens();
    test_known();
    test_refresh_command();
    test_death();
    test_pages();
    test_left();
    test_former_max_hold();
    test_many_ends();
    return done_testing();
}
