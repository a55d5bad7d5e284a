/* Turns of a host: how many hand-offs follow each other, and how long the next request pauses then. */

#include "registry-harness.h"
#include "tap.h"

static int64_t pause_after_ns(int64_t held_ms, bool has_company) {
    uint64_t line[3];

    registry_harness_begin();
    for (unsigned i = 0; i < 3; i++)
        line[i] = ask();
    uint64_t holder = grant_from_line(line);
    harness.now_ns += held_ms * NS_PER_MS;
    if (has_company)
        awaited("x");
    release(holder);
    return last_command()->pause_ns;
}

static void test_long(void) {
    is_int(pause_after_ns(60, false), NS_PER_MS,
           "after a long hold the next request pauses for a millisecond");
    is_int(pause_after_ns(200, false), NS_PER_MS, "a hold of 200 ms has the same pause");
    is_int(pause_after_ns(600, false), 3 * NS_PER_MS,
           "longer holds pause for a two-hundredth of their time");
    is_int(pause_after_ns(3000, false), 5 * NS_PER_MS, "the pause is at most five milliseconds");
    is_int(pause_after_ns(60, true), 5 * NS_PER_MS, "five milliseconds if another host subscribed");
    is_int(pause_after_ns(3000, true), 5 * NS_PER_MS, "no longer with another host after a long hold");
}

static void test_in_a_row(void) {
    uint64_t line[HANDOFFS_MAX + 3];

    registry_harness_begin();
    for (unsigned i = 0; i < HANDOFFS_MAX + 3; i++)
        line[i] = ask();
    (void) grant_from_line(line);
    unsigned before = count_commands(COMMAND_RELEASE);
    for (unsigned i = 1; i <= HANDOFFS_MAX; i++) {
        harness.now_ns += 100 * NS_PER_US;
        release(line[i]);
    }
    is_int(request_of(line[HANDOFFS_MAX + 1])->state, REQUEST_HELD,
           "sixty-four hand-offs in a row, in order");
    is_int(request_of(line[HANDOFFS_MAX + 1])->token, 1000 + HANDOFFS_MAX,
           "sixty-four hand-offs take the whole block of tokens");
    is_int(count_commands(COMMAND_RELEASE), before, "hand-offs send no command to the keeper");
    is_int(harness.registry.handoffs, HANDOFFS_MAX, "hand-offs are counted");
    release(line[HANDOFFS_MAX + 1]);
    is_int(count_commands(COMMAND_RELEASE), before + 1, "after sixty-four hand-offs the lease is released");
    is_int(last_command()->pause_ns, 64 * 100 * NS_PER_US / 32,
           "after a series the next request pauses shortly, for hosts that poll");
    is_int(last_command()->spare_tokens, 4 * HANDOFFS_MAX,
           "without another waiting host the next series may be longer");
}

enum { LINE = 640 };

/* So many wait, and the first of the queue holds. */
static void begin_turns(uint64_t line[LINE]) {
    registry_harness_begin();
    for (unsigned i = 0; i < LINE; i++)
        line[i] = ask();
    grant();
    release(line[0]);
    grant();
}

/* Each holder releases, from line[*at] on, until the keeper gets a command. Returns how many hand-offs. */
static unsigned take_series(const uint64_t line[LINE], unsigned *at) {
    unsigned before = count_commands(COMMAND_RELEASE), handoffs = 0;

    for (;; handoffs++) {
        harness.now_ns += 100 * NS_PER_US;
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
    is_int(take_series(line, &at), 4 * HANDOFFS_MAX,
           "the second series without another waiting host is longer");
    is_int(last_command()->spare_tokens, 16 * HANDOFFS_MAX, "the third series may be longer still");
    grant();
    harness.now_ns += HANDOFF_MS * NS_PER_MS;
    is_int(take_series(line, &at), 0, "no hand-off after HANDOFF_MS");
    is_int(last_command()->spare_tokens, HANDOFFS_MAX, "no more tokens are requested while some are unused");
    grant();
    for (unsigned i = 0; i < HANDOFFS_MAX; i++) {
        harness.now_ns += 2 * NS_PER_US;
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
    is_int(last_command()->spare_tokens, HANDOFFS_MAX,
           "while another host waits, the next series is no longer");
    is_int(last_command()->pause_ns, 65 * 100 * NS_PER_US / 8,
           "while another host waits, the pause between series is long");
    harness.now_ns += 9980 * NS_PER_MS;
    grant();
    is_int(take_series(line, &at), HANDOFFS_MAX, "another host counts as waiting for ten seconds");
    harness.now_ns += NS_PER_S;
    grant();
    (void) take_series(line, &at);
    is_int(last_command()->spare_tokens, 4 * HANDOFFS_MAX, "after ten seconds series get longer again");
    is_int(last_command()->pause_ns, 65 * 100 * NS_PER_US / 32,
           "after ten seconds pauses get shorter again");
}

static void meet_other_holder(void) {
    const struct report report = {.kind = REPORT_CONTENDED,
                                  .failure = FAILURE_BUSY,
                                  .request = last_command()->request,
                                  .text = "held",
                                  .text_length = 4};
    registry_report(&harness.registry, &report, harness.now_ns);
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
        is_int(last_command()->pause_ns, 65 * 100 * NS_PER_US / 8,
               "a long pause follows when another host waits");
    }
}

static void test_held_long_elsewhere(void) {
    uint64_t line[LINE];
    unsigned at = 1;
    begin_turns(line);
    (void) take_series(line, &at);
    meet_other_holder();
    harness.now_ns += 11 * NS_PER_S; /* the other host holds it all that time */
    grant();
    (void) take_series(line, &at);
    is_int(last_command()->pause_ns, 65 * 100 * NS_PER_US / 8,
           "another host held it until just now: a long pause");
    is_int(last_command()->spare_tokens, HANDOFFS_MAX,
           "the next turn is short when another host held the lease");
}

int main(void) {
    test_long();
    test_in_a_row();
    test_alone();
    test_company();
    test_company_comes();
    test_held_long_elsewhere();
    return done_testing();
}
