/* A lease whose client is here after a restart: searched for, found or not, released, lost. */

#include "restore-harness.h"
#include "tap.h"

static void test_found(void) {
    restore_harness_begin();
    uint64_t id = hold(0, "ACQUIRE job HEARTBEAT 5000 MAXHOLD 100000 DATA mine");
    instant_ns end_ns = harness.now_ns + 100 * NS_PER_S, deadline_ns = harness.now_ns + LEFT_MS * NS_PER_MS;
    harness.now_ns += 3 * NS_PER_S;
    replace();
    ok(result.held == 1 && result.too_long == 0 && result.moved == 0,
       "a lease that its client knows is held, and is extended as before");
    const struct command command = *last_command();
    ok(command.kind == COMMAND_SEARCH && command.request == id, "the nodes are asked for it");
    ok(command.token == 7 && command.terms.heartbeat_ms == 5000 && command.hold_until_ns == end_ns &&
           command.persist && memcmp(command.secret, "abcdefghijklmnopqrst", SECRET_BYTES) == 0,
       "by its terms: rule 9, the bound on holding is where it was");
    ask_id(0, "CHECK", id);
    is_string(got(0), ":6898\r\n", "until the lease is found its deadline is as before");
    report(id, REPORT_GRANTED);
    serve();
    ask_id(0, "CHECK", id);
    is_string(got(0), ":9898\r\n", "a found lease has a new deadline");
    ok(harness.now_ns + LEFT_MS * NS_PER_MS > deadline_ns && !has(0, "granted"),
       "and its client gets no output");
    ask(1, "ACQUIRE job");
    ok(has(1, "-BUSY held by process 100 of this host"), "no other session gets a restored lease");
    ask_id(0, "RELEASE", id);
    is_int(count_commands(COMMAND_RELEASE, id), 1, "a restored lease is released with its former id");
    report(id, REPORT_RELEASED);
    is_string(got(0), ":1\r\n", "the release of a restored lease is answered");
    ask(1, "ACQUIRE job");
    ok(last_command()->request > id, "no id is used twice");
}

/* Another session has the resume token, and the lease is not found yet. */
static void test_resumed_by_another(void) {
    restore_harness_begin();
    uint64_t id = hold(0, "ACQUIRE job");
    replace();
    serve();
    unsigned n_commands = keeper.n_commands;
    resume(1, "job", "");
    ok(has(1, "-NOTHELD another session"), "a lease whose client is here after a restart has its holder");
    is_int(keeper.n_commands, n_commands, "rule 8: no RESUME of another session changes its lock value");
    report(id, REPORT_GRANTED);
    ask_id(0, "CHECK", id);
    is_string(got(0), ":9898\r\n", "the holder keeps the lease");
}

/* Of a client with a page, which need not read pushes: they say nothing about a grant that it has read. */
static void test_read_before(void) {
    for (unsigned restarts = 1; restarts <= 2; restarts++) {
        restore_harness_begin();
        uint64_t id = hold(0, "ACQUIRE job");
        harness.now_ns += (GRANT_READ_MS + 20) * NS_PER_MS;
        registry_tick(&harness.front.registry, harness.now_ns);
        for (unsigned i = 0; i < restarts; i++)
            replace();
        keeper.nobody_reads = true;
        report(id, REPORT_GRANTED);
        serve();
        clear();
        harness.now_ns += (GRANT_READ_MS + 20) * NS_PER_MS;
        registry_tick(&harness.front.registry, harness.now_ns);
        ok(count_commands(COMMAND_ABANDON, id) == 0,
           "a lease whose grant was read before the last %u restarts goes on", restarts);
        is_string(got(0), "", "without at-risk");
    }
    for (unsigned looked = 0; looked < 2; looked++) {
        restore_harness_begin();
        uint64_t id = hold(0, "ACQUIRE job");
        keeper.nothing_is_known = true;
        harness.now_ns += looked * (GRANT_READ_MS + 20) * NS_PER_MS;
        registry_tick(&harness.front.registry, harness.now_ns);
        replace();
        keeper.nobody_reads = true;
        report(id, REPORT_GRANTED);
        serve();
        harness.now_ns += (GRANT_READ_MS + 20) * NS_PER_MS;
        registry_tick(&harness.front.registry, harness.now_ns);
        is_int(count_commands(COMMAND_ABANDON, id), 1,
               looked == 0 ? "rule 9: one whose grant was not read is not extended"
                           : "nor is one of which that was not known");
    }
}

static void test_at_risk(void) {
    restore_harness_begin();
    uint64_t id = hold(0, "ACQUIRE job");
    report(id, REPORT_AT_RISK);
    ok(has(0, "at-risk"), "a lease is at risk before the restart");
    flush(0);
    clear();
    replace();
    replace();
    ok(!has(0, "extended"), "no `extended` before a restored lease at risk is found");
    report(id, REPORT_GRANTED);
    ok(has(0, "extended"), "rule 13: found, its client gets extended");
    flush(0);
    clear();
    replace();
    report(id, REPORT_GRANTED);
    is_string(got(0), "", "`extended` is sent once");
    restore_harness_begin();
    id = hold(0, "ACQUIRE job");
    report(id, REPORT_AT_RISK);
    flush(0);
    replace();
    serve();
    pass_ms(LEFT_MS);
    ok(has(0, "lost") && has(0, "no-quorum"), "or it is lost, with the reason of the risk");
}

static void test_at_risk_by_search(void) {
    restore_harness_begin();
    uint64_t id = hold(0, "ACQUIRE job");
    replace();
    report(id, REPORT_CONTENDED);
    ok(has(0, "at-risk") && has(0, "no-quorum"),
       "rule 13: a search without a quorum puts the lease at risk");
    flush(0);
    clear();
    report(id, REPORT_CONTENDED);
    is_string(got(0), "", "once");
    replace();
    report(id, REPORT_CONTENDED);
    is_string(got(0), "", "also after another restart");
    report(id, REPORT_GRANTED);
    ok(has(0, "extended"), "found by a later try, the client gets extended");
    restore_harness_begin();
    id = hold(0, "ACQUIRE job");
    replace();
    serve();
    report(id, REPORT_CONTENDED);
    clear();
    pass_ms(LEFT_MS);
    ok(has(0, "lost") && has(0, "no-quorum"), "not found until the deadline: lost for the same reason");
    restore_harness_begin();
    id = hold(0, "ACQUIRE job");
    replace();
    serve();
    ask_id(0, "RELEASE", id);
    report(id, REPORT_CONTENDED);
    is_string(got(0), "", "a lease that is released is not at risk");
}

static void test_risk_unsent(void) {
    restore_harness_begin();
    uint64_t id = hold(0, "ACQUIRE job");
    report(id, REPORT_AT_RISK);
    replace();
    report(id, REPORT_GRANTED);
    ok(!has(0, "extended"), "the client has not got at-risk: it gets no extended");
    restore_harness_begin();
    id = hold(0, "ACQUIRE job");
    report(id, REPORT_AT_RISK);
    flush(0);
    report(id, REPORT_EXTENDED);
    report(id, REPORT_AT_RISK);
    report(id, REPORT_EXTENDED);
    clear();
    replace();
    report(id, REPORT_GRANTED);
    ok(has(0, "extended"), "the client has got at-risk, and not extended: it gets that");
}

static void report_at_risk(uint64_t id, enum reason reason) {
    const struct registry *registry = &harness.front.registry;
    const struct report report = {
        .kind = REPORT_AT_RISK,
        .request = keeper_handle_of(&registry->handles, registry_find(registry, id)->handle_slot),
        .reason = reason};
    registry_report(&harness.front.registry, &report, harness.now_ns);
}

/* at-risk for max-hold or unread is final. */
static void test_final_risks(void) {
    restore_harness_begin();
    uint64_t id = hold(0, "ACQUIRE job MAXHOLD 20000");
    report_at_risk(id, REASON_MAX_HOLD);
    ok(has(0, "max-hold"), "the end of max_hold is announced before the restart");
    flush(0);
    clear();
    replace();
    report(id, REPORT_GRANTED);
    report_at_risk(id, REASON_MAX_HOLD);
    is_string(got(0), "", "and is as near after it: no push follows");

    for (unsigned releases = 0; releases <= 1; releases++) {
        restore_harness_begin();
        finds.max_ttl_ms = 10000; /* the lease's ttl */
        keeper.nobody_reads = true;
        id = hold(0, "ACQUIRE job");
        pass_ms(GRANT_READ_MS + 20);
        ok(has(0, "unread"), "a client does not read its grant before the restart");
        flush(0);
        clear();
        replace();
        serve();
        is_int(count_commands(COMMAND_SEARCH, id), 0, "its lease is extended no more");
        is_string(got(0), "", "and no push follows");
        if (releases) {
            ask_id(0, "RELEASE", id);
            is_int(count_commands(COMMAND_SEARCH, id), 1,
                   "until its client releases it: its keys are found");
            is_string(got(0), "", "before the reply");
            report(id, REPORT_GRANTED);
            is_int(count_commands(COMMAND_RELEASE, id), 1, "and deleted");
            report(id, REPORT_RELEASED);
            is_string(got(0), ":1\r\n", "which the reply promises");
        } else {
            pass_ms(LEFT_MS);
            ok(has(0, "lost") && has(0, "unread"), "until the deadline, where it is lost for that");
        }
    }
}

/* The time to read the grant ends while the lease is searched for. */
static uint64_t hold_unread(void) {
    restore_harness_begin();
    uint64_t id = hold(0, "ACQUIRE job LINGER 5000");
    replace();
    keeper.nobody_reads = true;
    serve();
    pass_ms(GRANT_READ_MS + 20);
    ok(has(0, "unread"), "a client does not read its grant after the restart");
    clear();
    return id;
}

static void test_unread_while_searching(void) {
    struct registry *registry = &harness.front.registry;
    uint64_t id = hold_unread();
    const struct report former = {
        .kind = REPORT_GRANTED,
        .request = keeper_handle_of(&registry->handles, registry_find(registry, id)->handle_slot),
        .deadline_ns = harness.now_ns + LEFT_MS * NS_PER_MS};
    is_int(count_commands(COMMAND_FORGET, id), 1, "rule 9: the search ends, and extends nothing");
    ask_id(0, "RELEASE", id);
    is_int(count_commands(COMMAND_SEARCH, id), 2, "at its release the keys are searched for again");
    registry_report(registry, &former, harness.now_ns);
    is_int(count_commands(COMMAND_RELEASE, id), 0, "a report about the former search says nothing");
    report(id, REPORT_GRANTED);
    is_int(count_commands(COMMAND_RELEASE, id), 1, "found, they are deleted");
    report(id, REPORT_RELEASED);
    is_string(got(0), ":1\r\n", "which the reply promises");

    id = hold_unread();
    ask_id(0, "RELEASE", id);
    disconnect_end(&harness.sessions[0], harness.now_ns);
    ok(!registry_find(registry, id) || !request_is_lingering(registry_find(registry, id)),
       "what is released does not linger after the end of the session");
    pass_ms(LEFT_MS);
    is_int(count_commands(COMMAND_RELEASE, id), 1,
           "not found until the deadline: the search ends with a release");

    restore_harness_begin();
    id = hold(0, "ACQUIRE job");
    replace();
    serve();
    clear();
    ask_id(0, "RELEASE", id);
    report(id, REPORT_LOST);
    is_string(got(0), ":1\r\n", "a lease that is lost before its release is done: the RELEASE is answered");

    for (unsigned moved = 0; moved < 2; moved++) {
        restore_harness_begin();
        keeper.nobody_reads = true;
        id = hold(0, "ACQUIRE job");
        pass_ms(GRANT_READ_MS + 20);
        flush(0);
        finds.max_ttl_ms = moved ? 60000 : 5000;
        finds.key_format = moved;
        replace();
        serve();
        clear();
        ask_id(0, "RELEASE", id);
        is_string(got(0), ":1\r\n",
                  moved ? "keys of another key_format are not searched for"
                        : "rule 10: keys of a ttl that is not allowed any more are not set again");
        is_int(keeper.n_commands, 0, "not even to delete them");
    }
}

static void test_not_found(void) {
    restore_harness_begin();
    uint64_t id = hold(0, "ACQUIRE job");
    replace();
    report(id, REPORT_FAILED);
    is_string(got(0), "", "a lease that the nodes have no more is not lost yet");
    ask_id(0, "RELEASE", id);
    is_string(got(0), ":1\r\n", "its client's RELEASE, read again, may be why: it is answered once");
    restore_harness_begin();
    id = hold(0, "ACQUIRE job");
    uint64_t waiter = wait_for(1, "ACQUIRE job WAIT -1 ASYNC");
    replace();
    report(id, REPORT_FAILED);
    serve();
    ok(has(0, "lost") && has(0, "no-quorum"), "rule 13: otherwise its client gets lost");
    is_int(count_commands(COMMAND_CONTEND, waiter), 1, "after the loss the next request contends");
    restore_harness_begin();
    id = hold(0, "ACQUIRE job COOLDOWN 60000");
    replace();
    report(id, REPORT_FAILED);
    serve();
    ok(has(0, "lost") && cooling_count(&harness.front.cooling, harness.now_ns) == 0,
       "without keys its name does not cool");
    restore_harness_begin();
    id = hold(0, "ACQUIRE job");
    replace();
    serve();
    report(id, REPORT_FAILED);
    ok(has(0, "lost"), "found missing later, when requests are served: lost at once");
    restore_harness_begin();
    id = hold(0, "ACQUIRE job");
    replace();
    ask_id(0, "RELEASE", id);
    is_string(got(0), "", "its RELEASE is read again first:");
    report(id, REPORT_FAILED);
    is_string(got(0), ":1\r\n", "answered when the search ends, without a loss");

    restore_harness_begin();
    id = hold(0, "ACQUIRE job COOLDOWN 60000");
    replace();
    ask_id(0, "RELEASE", id);
    report(id, REPORT_FAILED);
    is_int(cooling_count(&harness.front.cooling, harness.now_ns), 1,
           "and its name cools: the former process may have released it");

    restore_harness_begin();
    id = hold(0, "ACQUIRE job");
    replace();
    serve();
    harness.front.registry.drops_at_once = 0;
    disconnect_end(&harness.sessions[0], harness.now_ns);
    report(id, REPORT_FAILED);
    is_int((int64_t) harness.front.registry.losses[REASON_NO_QUORUM], 0,
           "a lease whose session has ended is not lost when it is not found");
}

static void test_released_meanwhile(void) {
    restore_harness_begin();
    uint64_t id = hold(0, "ACQUIRE job");
    replace();
    serve();
    ask_id(0, "RELEASE", id);
    is_string(got(0), "", "RELEASE of a lease that is not found yet waits");
    report(id, REPORT_GRANTED);
    is_int(count_commands(COMMAND_RELEASE, id), 1,
           "a lease released meanwhile is released once it is found");
    report(id, REPORT_RELEASED);
    is_string(got(0), ":1\r\n", "RELEASE is answered when the keeper confirms");

    restore_harness_begin();
    id = hold(0, "ACQUIRE job");
    replace();
    serve();
    ask_id(0, "RELEASE", id);
    uint64_t waiter = wait_for(1, "ACQUIRE job WAIT -1 ASYNC");
    pass_ms(TIMEOUT_MS - 1);
    is_string(got(0), "", "a lease that is not found: its RELEASE waits for a node time-out");
    pass_ms(1);
    is_string(got(0), ":1\r\n", "rule 15: and no longer");
    is_int(count_commands(COMMAND_CONTEND, waiter), 0, "the name stays taken");
    report(id, REPORT_GRANTED);
    is_int(count_commands(COMMAND_RELEASE, id), 1, "found later, the lease is released");
    is_int(count_commands(COMMAND_CONTEND, waiter), 1, "and the next request contends");
    report(id, REPORT_RELEASED);
    is_string(got(0), ":1\r\n", "RELEASE is answered once");

    restore_harness_begin();
    id = hold(0, "ACQUIRE job");
    replace();
    serve();
    ask_id(0, "RELEASE", id);
    pass_ms(TIMEOUT_MS - 1);
    report(id, REPORT_GRANTED);
    is_string(got(0), "", "a lease found late: its RELEASE waits for the keeper's report");
    pass_ms(1);
    is_string(got(0), ":1\r\n", "rule 15: for the rest of the node time-out");
    report(id, REPORT_RELEASED);
    is_string(got(0), ":1\r\n", "the report is no second answer");

    restore_harness_begin();
    id = hold(0, "ACQUIRE job");
    waiter = wait_for(1, "ACQUIRE job WAIT -1 ASYNC");
    replace();
    serve();
    ask_id(0, "RELEASE", id);
    pass_ms(LEFT_MS);
    is_string(got(0), ":1\r\n", "a lease that is never found: its RELEASE is answered once");
    is_int(count_commands(COMMAND_CONTEND, waiter), 1, "at its deadline the next request contends");

    restore_harness_begin();
    id = hold(0, "ACQUIRE job");
    waiter = wait_for(1, "ACQUIRE job WAIT -1 ASYNC");
    replace();
    serve();
    ask_id(0, "RELEASE", id);
    pass_ms(TIMEOUT_MS);
    is_string(got(0), ":1\r\n", "answered before,");
    pass_ms(LEFT_MS - TIMEOUT_MS - 1);
    is_int(count_commands(COMMAND_CONTEND, waiter), 0, "the name stays taken until the deadline");
    pass_ms(1);
    is_int(count_commands(COMMAND_CONTEND, waiter), 1, "at its deadline the next request contends");

    restore_harness_begin();
    id = hold(0, "ACQUIRE job");
    replace();
    serve();
    disconnect_end(&harness.sessions[0], harness.now_ns);
    is_int(count_commands(COMMAND_RELEASE, id), 0,
           "no key is deleted before the lease of an ended session is found");
    report(id, REPORT_GRANTED);
    is_int(count_commands(COMMAND_RELEASE, id), 1,
           "the lease of an ended session is released once it is found");

    restore_harness_begin();
    id = hold(0, "ACQUIRE job");
    replace();
    serve();
    ask_id(0, "RELEASE", id);
    report(id, REPORT_GRANTED);
    disconnect_end(&harness.sessions[0], harness.now_ns);
    pass_ms(TIMEOUT_MS);
    pass_ms(3 * TIMEOUT_MS);
    is_int(count_commands(COMMAND_RELEASE, id), 1,
           "a session that ends during its RELEASE: no more is done");
    report(id, REPORT_RELEASED);
    is_int(harness.front.registry.requests.taken, 0, "before the keeper's report");
}

/* Killed before the reply to the RELEASE is sent: only a lease that was handed off is not searched for. */
static void test_released_unsent(void) {
    restore_harness_begin();
    uint64_t id = hold(0, "ACQUIRE job");
    replace();
    serve();
    ask_id(0, "RELEASE", id);
    report(id, REPORT_FAILED);
    is_string(got(0), ":1\r\n", "a lease that is not found is released");
    replace();
    is_int(count_commands(COMMAND_SEARCH, id), 1, "the next process searches for it again");
}

static void test_deadline_first(void) {
    restore_harness_begin();
    uint64_t id = hold(0, "ACQUIRE job");
    replace();
    serve();
    pass_ms(LEFT_MS - 1);
    is_string(got(0), "", "without an answer of the keeper it is held");
    pass_ms(1);
    ok(has(0, "lost"), "until the deadline that its client knows");
    is_int(count_commands(COMMAND_FORGET, id), 1, "rule 8: nothing is deleted");
    report(id, REPORT_GRANTED);
    ok(!has(0, "granted"), "a lost lease is not granted by a late report");
    report(id, REPORT_RELEASED);
    is_int(harness.front.registry.requests.taken, 0,
           "the request is freed when the keeper has forgotten it");

    restore_harness_begin();
    id = hold(0, "ACQUIRE job");
    replace();
    serve();
    pass_ms(LEFT_MS);
    unsigned n_commands = keeper.n_commands;
    report(id, REPORT_FAILED); /* sent before the keeper got the request to forget it */
    is_int(keeper.n_commands, n_commands, "a keeper that has not found it by then does not search again");
    report(id, REPORT_RELEASED);
    is_int(harness.front.registry.requests.taken, 0, "that request is freed, too");

    restore_harness_begin();
    id = hold(0, "ACQUIRE job");
    replace();
    serve();
    harness.now_ns += LEFT_MS * NS_PER_MS;
    report(id, REPORT_GRANTED); /* the mail is read before the timer */
    ask_id(0, "CHECK", id);
    is_string(got(0), ":0\r\n", "found when its deadline has passed, a lease does not begin again");
    clear();
    pass_ms(0);
    ok(has(0, "lost"), "the loss is reported");
}

static void test_ids(void) {
    restore_harness_begin();
    uint64_t id = hold(0, "ACQUIRE job");
    ask_id(0, "RELEASE", id);
    report(id, REPORT_RELEASED);
    flush(0);
    replace();
    replace();
    serve();
    ask(0, "ACQUIRE job");
    ok(last_command()->request > id, "no id is used twice, not even after two restarts without leases");
}

int main(void) {
    test_found();
    test_resumed_by_another();
    test_read_before();
    test_at_risk();
    test_at_risk_by_search();
    test_risk_unsent();
    test_final_risks();
    test_unread_while_searching();
    test_not_found();
    test_released_meanwhile();
    test_released_unsent();
    test_deadline_first();
    test_ids();
    return done_testing();
}
