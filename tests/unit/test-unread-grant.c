/* Rule 9: a grant that its client does not read is withdrawn. */

#include "scripted-keeper.h"
#include "tap.h"

static void extend(uint64_t number) {
    const struct extension extension = {.request = number, .deadline_ns = harness.now_ns + 9898 * NS_PER_MS};
    registry_report_extensions(&harness.front.registry, &extension, 1, harness.now_ns);
}

static void tick_after(int64_t ms) {
    harness.now_ns += ms * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
}

/* What happens to the lease meanwhile is not the reason of its end, unless it ends before. */
static void test_unread_grant_at_risk(void) {
    begin(512);
    ask(2, "HELLO 3");
    ask(2, "ACQUIRE job");
    uint64_t number = last_command()->request;
    keeper.nobody_reads = true;
    report(number, REPORT_GRANTED);
    tick_after(GRANT_READ_MS + 20);
    ok(strstr(got(2), "unread"), "a client that does not read its grant gets at-risk");
    clear();
    report(number, REPORT_AT_RISK);
    is_string(got(2), "", "after at-risk for unread, no other at-risk follows");
    registry_report(&harness.front.registry,
                    &(struct report){.kind = REPORT_LOST, .request = number, .reason = REASON_TAKEN},
                    harness.now_ns);
    ok(strstr(got(2), "lost") && strstr(got(2), "taken"),
       "a lease that another takes before its deadline is lost for that");
}

/* The keeper reports a loss before its own deadline, or at it. It may have extended a lease at risk, and
 * have paused before it reported that: the client does not know of it. */
static void test_reasons(void) {
    static const struct {
        bool unread, at_risk;
        int64_t left_ms;
        enum reason reported, reason;
        const char *what;
    } cases[] = {
        {false, false, 0, REASON_PAUSED, REASON_PAUSED, "at the deadline the keeper's reason counts"},
        {false, true, 0, REASON_PAUSED, REASON_NO_QUORUM, "but a pause is none for a lease at risk"},
        {false, true, 0, REASON_MAX_HOLD, REASON_NO_QUORUM,
         "nor a max_hold, of which it has got no warning"},
        {false, true, 0, REASON_TAKEN, REASON_TAKEN, "unlike others"},
        {true, false, 0, REASON_NO_QUORUM, REASON_UNREAD, "an unread grant is the reason at the deadline"},
        {true, false, 1, REASON_NO_QUORUM, REASON_NO_QUORUM, "and not before"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(512);
        instant_ns deadline_ns = harness.now_ns + 9898 * NS_PER_MS;
        uint64_t number = hold(2, "ACQUIRE job");
        keeper.nobody_reads = cases[i].unread;
        tick_after(GRANT_READ_MS + 20);
        struct report report = {.kind = REPORT_AT_RISK, .request = number, .reason = REASON_NO_QUORUM};
        if (cases[i].at_risk)
            registry_report(&harness.front.registry, &report, harness.now_ns);
        report.kind = REPORT_LOST;
        report.reason = cases[i].reported;
        registry_report(&harness.front.registry, &report, deadline_ns - cases[i].left_ms * NS_PER_MS);
        is_int(keeper.last_loss, cases[i].reason, cases[i].what);
    }
}

/* A client that does not read its grant (stopped or stuck) does not hold the lease for ever. */
static void test_unread_grant(void) {
    for (unsigned asks_async = 0; asks_async < 2; asks_async++) {
        begin(512);
        ask(2, "HELLO 3");
        uint64_t first = hold(0, "ACQUIRE job");
        ask(2, asks_async ? "ACQUIRE job WAIT -1 ASYNC" : "ACQUIRE job WAIT -1");
        ask(1, "ACQUIRE job WAIT -1");
        keeper.nobody_reads = true;
        ask(0, "QUIT");
        disconnect_end(&harness.sessions[0], harness.now_ns);
        report(first, REPORT_RELEASED);
        uint64_t number = last_command()->request;
        report(number, REPORT_GRANTED);
        tick_after(GRANT_READ_MS - 1);
        is_int(last_command()->kind, COMMAND_CONTEND, "a grant may go unread for a while");
        extend(number);
        clear();
        tick_after(20);
        is_int(last_command()->kind, COMMAND_ABANDON, "then it is extended no more");
        is_int(last_command()->request, number, "though it is the keeper's to keep until its deadline");
        ok(strstr(got(2), "at-risk") && strstr(got(2), "unread"), "its client gets at-risk");
        is_string(
            got(1), "",
            "the client may read the grant at any moment, so no other gets the lease before the deadline");
        keeper.nobody_reads = false; /* too late */
        tick_after(9870);
        is_string(got(1), "", "up to the deadline");
        tick_after(10);
        ok(strstr(got(2), "lost") && strstr(got(2), "unread"), "then it is lost, with the reason");
        is_int(last_command()->kind, COMMAND_CONTEND, "and the next request contends");
        report(last_command()->request, REPORT_GRANTED);
        ok(begins(1, "*12"), "and is granted");
    }
}

static void test_read_grant(void) {
    begin(512);
    keeper.nobody_reads = true; /* but the first session */
    uint64_t number = hold(0, "ACQUIRE job TTL 1000");
    for (unsigned i = 0; i < 30; i++) {
        tick_after(300);
        extend(number);
    }
    is_int(keeper.n_commands, 1, "a grant that was read is not taken back");
    ask(2, "ACQUIRE short TTL 200");
    number = last_command()->request;
    report(number, REPORT_GRANTED);
    tick_after(220);
    is_int(last_command()->kind, COMMAND_ABANDON,
           "with a short ttl there is no more time to read than that");
    ask(2, "LEASES");
    ok(strstr(got(2), "at-risk"), "LEASES shows the abandoned lease as at-risk");
    char line[64];
    (void) snprintf(line, sizeof(line), "RELEASE %lld",
                    (long long) registry_id(&harness.front.registry,
                                            list_entry(harness.sessions[2].requester.requests.next,
                                                       struct request, session_link)));
    ask(2, line);
    is_int(last_command()->kind, COMMAND_RELEASE, "its client may still release it");
    report(number, REPORT_RELEASED);
    is_string(got(2), ":1\r\n", "and gets the answer");
}

int main(void) {
    test_unread_grant_at_risk();
    test_reasons();
    test_unread_grant();
    test_read_grant();
    return done_testing();
}
