/* Leases that were handed off, after a restart. */

#include <assert.h>
#include <string.h>

#include "restore-harness.h"
#include "tap.h"

static void on_secret(void *userdata, uint8_t secret[SECRET_BYTES]) {
    static uint8_t last;

    (void) userdata;
    memset(secret, ++last, SECRET_BYTES);
}

static void handoffs_begin(void) {
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
    restore_harness_begin();
    handoffs_begin();
    contend(second, third, ret);
}

/* The random part of the lock value in the last RESUME command. */
static bool searched_for(uint64_t request, const char secret[SECRET_BYTES]) {
    const struct command *command = last_command();
    return command && command->kind == COMMAND_SEARCH && command->request == request &&
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
    ok(last_command()->kind == COMMAND_SEARCH && last_command()->request == ids[1] &&
           !searched_for(ids[1], node_state),
       "the next process searches for the holder's random part");
    report(ids[1], REPORT_FAILED);
    ok(searched_for(ids[1], node_state),
       "not found, the process searches for the random part of the acquisition");
    report(ids[1], REPORT_GRANTED);
    ok(last_command()->kind == COMMAND_REFRESH && last_command()->request == ids[1],
       "found so, the keys get the holder's random part");
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
    ok(has(2, "lost"), "if neither part is found, the lease is lost");
    uint64_t next = wait_for(3, "ACQUIRE web WAIT -1 ASYNC");
    is_int(count_commands(COMMAND_CONTEND, next), 0,
           "but both together may have a majority: no request contends at once,");
    pass_ms(LEFT_MS - 1);
    is_int(count_commands(COMMAND_CONTEND, next), 0,
           "nor until the deadline: the client may not have read the loss");
    pass_ms(1);
    is_int(count_commands(COMMAND_CONTEND, next), 1, "then the next one does");
}

/* The flush of the next holder was sent, that of the former was not. */
static void test_two_holders(void) {
    uint64_t ids[2];
    contended("ACQUIRE web WAIT -1 ASYNC", "ACQUIRE web WAIT -1 ASYNC", ids);
    ask_id(1, "RELEASE", ids[0]);
    flush(2);
    replace();
    ok(count_commands(COMMAND_SEARCH, ids[0]) == count_commands(COMMAND_FORGET, ids[0]),
       "a session with an unanswered release no longer holds the lease");
    is_int(count_commands(COMMAND_SEARCH, ids[1]), 1, "the session with the sent grant has the lease");
    clear();
    ask_id(1, "RELEASE", ids[0]);
    ok(has(1, ":1\r\n"), "the former holder's RELEASE is read again, and answered");
    is_int(count_commands(COMMAND_RELEASE, ids[0]), 0, "and deletes nothing");
    serve();
    report(ids[1], REPORT_GRANTED);
    ok(!has(1, "lost") && !has(2, "lost"), "neither session gets `lost`");
}

/* The next process dies before it has answered either. */
static void test_two_holders_again(void) {
    uint64_t ids[2];

    contended("ACQUIRE web WAIT -1 ASYNC", "ACQUIRE web WAIT -1 ASYNC", ids);
    ask_id(1, "RELEASE", ids[0]);
    flush(2);
    replace();
    replace();
    is_int(count_commands(COMMAND_SEARCH, ids[0]), 0,
           "and the next process does not ask the nodes for it either");
    is_int(count_commands(COMMAND_SEARCH, ids[1]), 1,
           "the nodes are asked for the lease of its holder only");
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
    restore_harness_begin();
    handoffs_begin();
    harness.front.registry.ledger = NULL;
    contend("ACQUIRE web WAIT -1 ASYNC DATA one", "ACQUIRE web WAIT -1 ASYNC DATA two", ids);
    ask_id(1, "RELEASE", ids[0]);
    ok(has(2, "granted"), "without a ledger the lease is handed off");
}

int main(void) {
    test_handed_over();
    test_two_holders();
    test_two_holders_again();
    test_forsaken_holder();
    test_other_data();
    return done_testing();
}
