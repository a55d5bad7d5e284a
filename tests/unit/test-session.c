/* Sessions of the local layer: requests go in as tokens, replies come out as bytes. */

#include <assert.h>

#include "scripted-keeper.h"
#include "tap.h"

/* The keeper reports several extensions at a time. */
static void test_extensions(void) {
    begin(512);
    struct extension extensions[20];
    uint64_t leases[20];

    for (unsigned i = 0; i < 20; i++) {
        char line[32];
        (void) snprintf(line, sizeof(line), "ACQUIRE name%u ASYNC", i);
        keeper.n_commands = 0;
        leases[i] = hold(0, line);
        extensions[i] =
            (struct extension){.request = leases[i], .deadline_ns = harness.now_ns + 10 * NS_PER_S + i};
    }
    registry_report_extensions(&harness.front.registry, extensions, 19, harness.now_ns);
    unsigned extended = 0;
    const struct request *request;
    for (uint32_t slot = 0; (request = registry_next(&harness.front.registry, &slot));)
        extended += request->deadline_ns >= harness.now_ns + 10 * NS_PER_S;
    is_int(extended, 19, "each of them counts, and no other");
}

static void test_acquire_and_release(void) {
    char expected[256], line[64], beat[64];

    begin(512);
    ask(0, "ACQUIRE job");
    is_string(got(0), "", "ACQUIRE waits for the keeper");
    const struct command command = *last_command();
    is_int(command.terms.ttl_ms, 10000, "the default ttl goes to the keeper");
    is_int(command.terms.node_timeout_ms, 100, "the node time-out is at most 100 ms");
    is_int(command.persist, 0, "without WAIT it is one try");
    report(command.request, REPORT_GRANTED);
    (void) snprintf(
        expected, sizeof(expected),
        "*12\r\n$2\r\nid\r\n:%lld\r\n$4\r\nname\r\n$3\r\njob\r\n$5\r\nfence\r\n:7\r\n$8\r\nvalidity\r\n"
        ":9898\r\n$8\r\ndeadline\r\n:%lld\r\n$4\r\nslot\r\n:-1\r\n",
        (long long) command.request, (long long) (harness.now_ns + 9898 * NS_PER_MS));
    is_string(got(0), expected, "the grant is a flat map in RESP2");
    harness.now_ns += 98 * NS_PER_MS;
    (void) snprintf(line, sizeof(line), "CHECK %lld", (long long) command.request);
    ask(0, line);
    is_string(got(0), ":9800\r\n", "CHECK gives the validity");
    ask(1, line);
    is_string(got(1), "-NOTHELD held by another session\r\n", "another session of the user learns why");
    (void) snprintf(beat, sizeof(beat), "BEAT %lld", (long long) command.request);
    ask(1, beat);
    is_string(got(1), "-NOTHELD held by another session\r\n", "also if it sends a BEAT");
    harness.sessions[2].uid = 1001;
    ask(2, line);
    is_string(got(2), ":0\r\n", "another user's CHECK gives 0");
    (void) snprintf(line, sizeof(line), "RELEASE %lld", (long long) command.request);
    ask(1, line);
    is_string(got(1), "-NOTHELD held by another session\r\n", "another session can't release it");
    ask(2, line);
    is_string(got(2), ":0\r\n", "nor can another user");
    ask(0, line);
    is_string(got(0), "", "RELEASE waits for the keeper");
    report(command.request, REPORT_RELEASED);
    is_string(got(0), ":1\r\n", "and is confirmed");
    ask(0, line);
    is_string(got(0), ":0\r\n", "never an error twice");
    ask(1, line);
    is_string(got(1), ":0\r\n", "and no session holds it any more");
    ask(0, "ACQUIRE job ASYNC");
    (void) snprintf(line, sizeof(line), "CHECK %lld",
                    (long long) registry_id(&harness.front.registry,
                                            list_entry(harness.sessions[0].requester.requests.next,
                                                       struct request, session_link)));
    ask(1, line);
    is_string(got(1), "-NOTHELD asked for by another session\r\n",
              "the error says that the other session waits");
}

/* --- several sessions --- */

static void test_waiters_are_fifo(void) {
    begin(512);
    uint64_t first = hold(0, "ACQUIRE job");
    ask(1, "ACQUIRE job WAIT -1");
    ask(2, "ACQUIRE job WAIT -1");
    ask(3, "ACQUIRE job");
    ok(begins(3, "-BUSY held by process 100 of this host"),
       "a request that does not wait gets the holder at once");
    is_int(keeper.n_commands, 1, "only the first of the queue is with the keeper");
    disconnect_end(&harness.sessions[0], harness.now_ns);
    is_int(keeper.commands[1].kind, COMMAND_RELEASE, "a session that ends releases");
    ok(keeper.commands[1].request == first, "its own lease");
    is_int(keeper.commands[2].kind, COMMAND_CONTEND,
           "and the next one contends at once, behind the release");
    report(keeper.commands[2].request, REPORT_GRANTED);
    ok(begins(1, "*12") && !begins(2, "*12"), "the first waiter acquires it");
    disconnect_end(&harness.sessions[2], harness.now_ns);
    is_int(harness.front.registry.waiting, 0, "a waiter that leaves leaves nothing behind");
    disconnect_end(&harness.sessions[1], harness.now_ns);
    for (unsigned i = 0; i < 2; i++)
        report(keeper.commands[i * 3].request, REPORT_RELEASED);
    report(keeper.commands[2].request, REPORT_RELEASED);
    report(first, REPORT_RELEASED);
    is_int(harness.front.registry.requests.taken, 0, "no request is left");
    is_int(harness.front.registry.names.table.pool.taken, 0, "no name either");
}

static void on_secret(void *userdata, uint8_t secret[SECRET_BYTES]) {
    (void) userdata;
    memset(secret, 0xab, SECRET_BYTES);
}

/* Session 1 holds the name, granted from the queue; sessions 1 and 2 wait for it. */
static void begin_handoff(void) {
    begin(512);
    harness.front.registry.sink.secret = on_secret;
    uint64_t first = hold(0, "ACQUIRE job");
    ask(1, "ACQUIRE job WAIT -1");
    registry_release(&harness.front.registry, registry_find(&harness.front.registry, first), harness.now_ns);
    grant_from_queue();
    ok(begins(1, "*12"), "the first of the queue is granted the lease");
    ask(1, "ACQUIRE job WAIT -1");
    ask(2, "ACQUIRE job WAIT -1 RESUMABLE");
    clear();
}

static void test_handed_off_at_the_end(void) {
    begin_handoff();
    unsigned commands = keeper.n_commands;
    disconnect_end(&harness.sessions[1], harness.now_ns);
    ok(begins(2, "*14") && strstr(got(2), "$5\r\nfence\r\n:8\r\n"),
       "at the end of its session the lease is handed off, but not to that session's waiting request");
    is_string(got(1), "", "which gets no output");
    is_int(keeper.n_commands, commands, "and the keeper gets no command yet");
    is_int(harness.front.registry.held, 1, "one lease is held");
    is_int(harness.front.registry.waiting, 0, "no request waits");
}

static void test_handed_off_to_itself(void) {
    begin_handoff();
    struct request *held =
        list_entry(harness.sessions[1].requester.requests.next, struct request, session_link);
    registry_release(&harness.front.registry, held, harness.now_ns);
    ok(begins(1, "*12") && strstr(got(1), "$5\r\nfence\r\n:8\r\n"),
       "a session that waits for the name it holds gets the hand-off");
    is_string(got(2), "", "as it asked first");
}

static void test_wait_ends(void) {
    begin(512);
    (void) hold(0, "ACQUIRE job");
    ask(1, "ACQUIRE job WAIT 1000");
    harness.now_ns += 999 * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    is_string(got(1), "", "a waiter gets no output before its time");
    harness.now_ns += NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    ok(begins(1, "-TIMEOUT waited 1000 ms; held by process 100"), "then TIMEOUT, with the holder");
    ok(session_ready(&harness.sessions[1]), "and its session takes requests");

    begin(512);
    ask(1, "ACQUIRE job WAIT 3000");
    const struct report busy = {.kind = REPORT_CONTENDED,
                                .request = last_command()->request,
                                .failure = FAILURE_BUSY,
                                .text = "held by web2, 5000 ms left",
                                .text_length = 26};
    registry_report(&harness.front.registry, &busy, harness.now_ns);
    harness.now_ns += 3000 * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    is_string(got(1), "-TIMEOUT waited 3000 ms; 3000 ms ago: held by web2, 5000 ms left\r\n",
              "the nodes' last result about the holder is shown with its age");

    begin(512);
    ask(1, "ACQUIRE job WAIT 10");
    harness.now_ns += 10 * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    is_string(got(1), "", "a wait that ends during the first attempt has that attempt's result");
    registry_report(&harness.front.registry, &busy, harness.now_ns);
    is_string(got(1), "-TIMEOUT waited 10 ms; held by web2, 5000 ms left\r\n", "as soon as it is known");

    begin(512);
    ask(0, "ACQUIRE job WAIT 1000");
    const struct report contended = {.kind = REPORT_CONTENDED,
                                     .request = last_command()->request,
                                     .failure = FAILURE_NO_QUORUM,
                                     .text = "1 of 3",
                                     .text_length = 6};
    registry_report(&harness.front.registry, &contended, harness.now_ns);
    ask(1, "ACQUIRE job");
    ok(begins(1, "-NOQUORUM 1 of 3"),
       "a request that does not wait gets the result of the first of the queue");
    harness.now_ns += NS_PER_S;
    registry_tick(&harness.front.registry, harness.now_ns);
    ok(begins(0, "-NOQUORUM waited 1000 ms; 1000 ms ago: 1 of 3"),
       "a wait without a quorum ends as NOQUORUM, not as TIMEOUT");
    is_int(last_command()->kind, COMMAND_RELEASE, "and is withdrawn from the keeper");
    report(last_command()->request, REPORT_GRANTED);
    ok(begins(0, "-NOQUORUM"), "a grant that comes too late changes nothing");
}

/* The grant of the contender answers those behind it that do not wait. */
static void test_grant_answers_others(void) {
    begin(512);
    ask(0, "ACQUIRE job WAIT -1 ASYNC");
    uint64_t request = last_command()->request;
    ask(1, "ACQUIRE job");
    ask(2, "ACQUIRE job WAIT 1000");
    is_string(got(1), "", "a request behind a contender waits for the contender's result");
    report(request, REPORT_GRANTED);
    ok(begins(1, "-BUSY held by process 100"), "and is answered as soon as the name has a holder");
    is_string(got(2), "", "one that waits goes on waiting");
}

/* A client that expects no pushes would take one for the reply to its next request. */
static void test_announced(void) {
    begin(512);
    ask(1, "HELLO 3");
    ask(2, "ACQUIRE job ASYNC");
    clear();
    for (unsigned i = 0; i < 3; i++)
        disconnect_announce(&harness.sessions[i]);
    is_string(got(0), "", "a RESP2 session without ASYNC gets no push when the agent stops");
    ok(begins(1, ">2\r\n$8\r\ndraining\r\n"), "a RESP3 session does");
    ok(begins(2, "*2\r\n$8\r\ndraining\r\n"), "a RESP2 session that has used ASYNC, too");
}

static void test_late_grant(void) {
    begin(512);
    ask(0, "ACQUIRE job");
    const struct report granted = {
        .kind = REPORT_GRANTED, .request = last_command()->request, .deadline_ns = harness.now_ns};
    registry_report(&harness.front.registry, &granted, harness.now_ns);
    ok(begins(0, "-NOQUORUM"), "rule 6: no grant when the answer is given at the deadline");
    is_int(last_command()->kind, COMMAND_RELEASE, "the late grant becomes a release");
}

static void report_late(void) {
    const struct report granted = {
        .kind = REPORT_GRANTED, .request = last_command()->request, .deadline_ns = harness.now_ns};
    registry_report(&harness.front.registry, &granted, harness.now_ns);
}

/* A request that waits has its time yet. */
static void test_late_grant_of_waiter(void) {
    static const char *const lines[] = {"ACQUIRE job WAIT -1", "ACQUIRE job WAIT 5000"};

    for (unsigned i = 0; i < 2; i++) {
        begin(512);
        ask(0, lines[i]);
        ask(1, "ACQUIRE job WAIT -1");
        report_late();
        is_string(got(0), "", "after a grant that came too late, a request with a WAIT gets no answer yet");
        is_int(last_command()->kind, COMMAND_RELEASE, "the late grant is released");
        report(last_command()->request, REPORT_RELEASED);
        is_int(last_command()->kind, COMMAND_CONTEND, "after the release the request contends again");
        report(last_command()->request, REPORT_GRANTED);
        ok(begins(0, "*12") && !begins(1, "*"), "the request is granted before a later one");
    }
    begin(512);
    ask(0, "ACQUIRE job WAIT 1000");
    report_late();
    harness.now_ns += 1100 * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    ok(begins(0, "-NOQUORUM"), "a request is answered in time when no node confirms the release");
    uint64_t number = last_command()->request;
    report(number, REPORT_RELEASED);
    is_int(harness.front.registry.requests.taken, 0,
           "an answered request is freed when the release is confirmed");
    begin(512);
    ask(0, "ACQUIRE job WAIT -1");
    report_late();
    disconnect_end(&harness.sessions[0], harness.now_ns);
    report(number = last_command()->request, REPORT_RELEASED);
    report(number, REPORT_RELEASED);
    is_int(harness.front.registry.requests.taken, 0, "a request whose session ends meanwhile is freed, too");
}

static void test_grant_at_the_last_moment(void) {
    begin(512);
    ask(0, "ACQUIRE job");
    struct report granted = {.kind = REPORT_GRANTED,
                             .request = last_command()->request,
                             .deadline_ns = harness.now_ns + NS_PER_MS - 1,
                             .text = "vvvvvvvvvvvvvvvvvvvv",
                             .text_length = SECRET_BYTES};
    registry_report(&harness.front.registry, &granted, harness.now_ns);
    ok(begins(0, "-NOQUORUM"), "no grant has a validity of 0 ms");
    begin(512);
    ask(0, "ACQUIRE job");
    granted.request = last_command()->request;
    granted.deadline_ns = harness.now_ns + NS_PER_MS;
    registry_report(&harness.front.registry, &granted, harness.now_ns);
    ok(strstr(got(0), "validity\r\n:1\r\n"), "1 ms is enough");
}

static void test_own_deadline(void) {
    begin(512);
    ask(0, "HELLO 3");
    uint64_t id = hold(0, "ACQUIRE job");
    clear();
    harness.now_ns += 9898 * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    ok(begins(0, ">4\r\n$4\r\nlost\r\n"), "rule 13: a silent keeper does not delay the news of the loss");
    clear();
    report(id, REPORT_EXTENDED);
    report(id, REPORT_LOST);
    is_string(got(0), "", "what the keeper says afterwards changes nothing");
    ask(0, "LEASES");
    is_string(got(0), "*0\r\n", "it is in no listing");
}

static void test_pushes(void) {
    char expected[64];

    begin(512);
    ask(0, "ACQUIRE job ASYNC WAIT -1");
    uint64_t id = last_command()->request;
    (void) snprintf(expected, sizeof(expected), "*2\r\n$7\r\nwaiting\r\n:%lld\r\n", (long long) id);
    is_string(got(0), expected, "ASYNC answers at once");
    clear();
    report(id, REPORT_GRANTED);
    ok(begins(0, "*3\r\n$7\r\ngranted\r\n"), "the grant is pushed, in RESP2 too");
    clear();
    const struct report risk = {.kind = REPORT_AT_RISK, .request = id, .reason = REASON_NO_QUORUM};
    registry_report(&harness.front.registry, &risk, harness.now_ns);
    ok(begins(0, "*4\r\n$7\r\nat-risk\r\n") && strstr(got(0), ":9898\r\n$9\r\nno-quorum\r\n"),
       "at-risk with the ms left and the reason");
    clear();
    harness.now_ns += NS_PER_MS;
    report(id, REPORT_EXTENDED);
    ok(begins(0, "*4\r\n$8\r\nextended\r\n"), "extended when it is safe again");
    clear();
    report(id, REPORT_EXTENDED);
    is_string(got(0), "", "but not for each extension");
    ask(0, "ACQUIRE job ASYNC");
    ok(strstr(got(0), "*3\r\n$6\r\nfailed\r\n") && strstr(got(0), "BUSY held by"),
       "failed comes after waiting");
    ask(1, "ACQUIRE plain");
    report(last_command()->request, REPORT_GRANTED);
    clear();
    report(last_command()->request, REPORT_LOST);
    is_string(got(1), "", "a RESP2 session without ASYNC gets no pushes");
}

/* The front was stopped, and reads the keeper's reports after the deadline. */
static void test_risk_once(void) {
    begin(512);
    ask(0, "HELLO 3");
    uint64_t request = hold(0, "ACQUIRE job");
    clear();
    harness.now_ns += 9898 * NS_PER_MS;
    report(request, REPORT_AT_RISK);
    ok(begins(0, ">4\r\n$7\r\nat-risk\r\n"), "the holder gets at-risk");
    clear();
    report(request, REPORT_EXTENDED);
    report(request, REPORT_AT_RISK);
    is_string(got(0), "", "once, if the extension between came too late");
    registry_tick(&harness.front.registry, harness.now_ns);
    ok(begins(0, ">4\r\n$4\r\nlost\r\n"), "and then lost");
}

static void test_withdraw_async(void) {
    char line[64];

    begin(512);
    (void) hold(0, "ACQUIRE job");
    ask(1, "ACQUIRE job ASYNC WAIT -1");
    const struct list *mine = list_first(&harness.sessions[1].requester.requests);
    assert(mine);
    uint64_t id = registry_id(&harness.front.registry, list_entry(mine, struct request, session_link));
    (void) snprintf(line, sizeof(line), "RELEASE %lld", (long long) id);
    ask(1, line);
    is_string(got(1), ":1\r\n", "RELEASE withdraws a waiting request");
    is_int(harness.front.registry.waiting, 0, "it no longer waits");
}

static void test_expel(void) {
    begin(512);
    ask(0, "HELLO 3");
    uint64_t id = hold(0, "ACQUIRE job");
    clear();
    bool stays = disconnect_expel(&harness.sessions[0], "malformed", harness.now_ns);
    ok(begins(0, ">4\r\n$4\r\nlost\r\n") && strstr(got(0), "closed"),
       "rule 8: a session that the agent ends gets lost first");
    ok(stays && last_command()->kind == COMMAND_ABANDON,
       "and its key is not deleted while its process lives");
    disconnect_end(&harness.sessions[0], harness.now_ns);
    ok(last_command()->kind == COMMAND_RELEASE && last_command()->request == id,
       "but at once when the process dies");
}

static void is_lost_once(enum reason reason, const char *what) {
    ok(keeper.losses == 1 && keeper.last_loss == reason, "%s: one loss", what);
}

/* The log has each loss once, from where it is seen first. */
static void test_losses(void) {
    begin(512);
    report(hold(0, "ACQUIRE job"), REPORT_LOST);
    is_lost_once(REASON_NO_QUORUM, "reported by the keeper");

    begin(512);
    uint64_t request = hold(0, "ACQUIRE job");
    harness.now_ns += 9898 * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    is_lost_once(REASON_PAUSED, "seen by the front alone, as the keeper has extended the lease");
    report(request, REPORT_EXTENDED);
    report(request, REPORT_LOST);
    report(request, REPORT_RELEASED);
    is_lost_once(REASON_PAUSED, "by the keeper, too, but later");

    begin(512);
    (void) hold(0, "ACQUIRE job");
    (void) disconnect_expel(&harness.sessions[0], "malformed", harness.now_ns);
    is_lost_once(REASON_CLOSED, "with a session that the agent ends");
    harness.now_ns += 9898 * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    is_lost_once(REASON_CLOSED, "and at its deadline");

    begin(512);
    request = hold(0, "ACQUIRE job LINGER 5000");
    disconnect_end(&harness.sessions[0], harness.now_ns);
    report(request, REPORT_LOST);
    is_lost_once(REASON_NO_QUORUM, "while the lease lingers without a session");

    begin(512);
    (void) hold(0, "ACQUIRE job");
    disconnect_end(&harness.sessions[0], harness.now_ns);
    report(last_command()->request, REPORT_LOST);
    is_int(keeper.losses, 0, "a released lease is not lost");
}

static void test_quota(void) {
    begin(2);
    (void) hold(0, "ACQUIRE one");
    (void) hold(0, "ACQUIRE two");
    ask(1, "ACQUIRE three");
    ok(begins(1, "-QUOTA"), "over the limit: QUOTA");
    ok(session_ready(&harness.sessions[1]), "the session takes requests");
}

int main(void) {
    test_extensions();
    test_acquire_and_release();
    test_waiters_are_fifo();
    test_handed_off_at_the_end();
    test_handed_off_to_itself();
    test_wait_ends();
    test_grant_answers_others();
    test_announced();
    test_late_grant();
    test_late_grant_of_waiter();
    test_grant_at_the_last_moment();
    test_own_deadline();
    test_pushes();
    test_risk_once();
    test_withdraw_async();
    test_expel();
    test_losses();
    test_quota();
    return done_testing();
}
