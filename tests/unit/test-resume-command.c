/* RESUME at an agent that does not know the lease. */

#include <assert.h>

#include "core/limits.h"
#include "local/resume-token.h"
#include "scripted-keeper.h"
#include "tap.h"

static void report_granted(uint64_t request) {
    const struct report report = {.kind = REPORT_GRANTED,
                                  .request = request,
                                  .deadline_ns = harness.now_ns + 9898 * NS_PER_MS,
                                  .cooldown_until_ns = local_harness_cooldown_until_ns(last_command()),
                                  .text = "0123456789abcdefghij",
                                  .text_length = SECRET_BYTES};
    registry_report(&harness.front.registry, &report, harness.now_ns);
}

static void report_failed(uint64_t request, enum failure failure) {
    const struct report report = {
        .kind = REPORT_FAILED, .request = request, .failure = failure, .text = "so", .text_length = 2};
    registry_report(&harness.front.registry, &report, harness.now_ns);
}

/* The secret in the last reply. */
static void take_secret(unsigned session, char ret[4096]) {
    const char *at = strstr(got(session), "$6\r\nsecret\r\n$");
    assert(at);
    at = strchr(at + 15, '\n') + 1;
    (void) snprintf(ret, 4096, "%.*s", (int) strcspn(at, "\r"), at);
}

/* A new agent, and what a client has left of a lease of the old one. */
static void outlive_agent(const char *terms, char ret[4096]) {
    char line[128];

    begin(512);
    (void) snprintf(line, sizeof(line), "ACQUIRE job RESUMABLE %s", terms);
    ask(0, line);
    report_granted(last_command()->request);
    take_secret(0, ret);
    begin(512);
}

static void resume(unsigned session, const char *secret, const char *options) {
    char line[4200];
    (void) snprintf(line, sizeof(line), "RESUME job %s %s", secret, options);
    ask(session, line);
}

static void test_resume(void) {
    char secret[4096], again[4096];

    outlive_agent("TTL 4321 HEARTBEAT 765 MAXHOLD 9000000 DATA my:data", secret);
    resume(1, secret, "");
    const struct command *command = last_command();
    is_int(command->kind, COMMAND_RESUME, "a secret of another agent is enough to resume");
    ok(memcmp(command->secret, "0123456789abcdefghik", SECRET_BYTES) == 0,
       "with the lease's value, whose last digit counts the RESUME");
    is_int(command->terms.ttl_ms, 4321, "its ttl");
    is_int(command->terms.heartbeat_ms, 765, "its heartbeat");
    is_int(command->hold_until_ns, harness.now_ns + 9000 * NS_PER_S, "the end of max_hold as an instant");
    is_int(command->persist, 1, "and it is tried for a while");
    is_string(got(1), "", "RESUME waits for the keeper");
    report_granted(command->request);
    ok(begins(1, "*14\r\n$2\r\nid\r\n"), "the reply is that of ACQUIRE");
    take_secret(1, again);
    is_string(again, secret, "with the same secret");
    resume(2, secret, "");
    ok(begins(2, "-NOTHELD another session"), "the secret does not make a second holder");
    disconnect_end(&harness.sessions[1], harness.now_ns);
    is_int(last_command()->kind, COMMAND_RELEASE, "a resumed lease is released like any other");
    outlive_agent("", secret);
    ask(1, "ACQUIRE job");
    report(last_command()->request, REPORT_GRANTED);
    resume(2, secret, "");
    ok(begins(2, "-NOTHELD"), "nor while another of this host holds the name");
}

static void test_resume_cools(void) {
    char secret[4096], again[4096];

    outlive_agent("COOLDOWN 60000 LINGER 300", secret);
    harness.now_ns += NS_PER_MS;
    resume(1, secret, "");
    instant_ns until_ns = last_command()->cooldown_until_ns;
    ok(until_ns > harness.now_ns && until_ns < harness.now_ns + 60000 * NS_PER_MS,
       "the cooldown of a resumed lease counts from its grant");
    report_granted(last_command()->request);
    take_secret(1, again);
    is_string(again, secret, "its secret is the same again");
    harness.front.policy.max_ttl_ms = 59000;
    resume(2, secret, "");
    ok(begins(2, "-BADARG the lease's ttl, heartbeat, linger or cooldown"),
       "unless the agent no longer grants that");
}

static void test_resume_lingers(void) {
    char secret[4096], again[4096];

    outlive_agent("LINGER 300 DATA abc", secret);
    resume(1, secret, "");
    report_granted(last_command()->request);
    take_secret(1, again);
    is_string(again, secret, "the secret of a lease that lingers is the same again");
    disconnect_end(&harness.sessions[1], harness.now_ns);
    is_int(last_command()->kind, COMMAND_RESUME, "and a resumed lease lingers as before");
    harness.now_ns += 300 * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    is_int(last_command()->kind, COMMAND_RELEASE, "for as long");
    harness.front.policy.max_ttl_ms = 299;
    resume(2, secret, "");
    ok(begins(2, "-BADARG the lease's ttl, heartbeat, linger or cooldown"),
       "unless the agent no longer grants that");
}

static void test_resume_in_line(void) {
    char secret[4096];

    outlive_agent("", secret);
    ask(1, "ACQUIRE job WAIT -1");
    uint64_t contender = last_command()->request;
    ask(2, "ACQUIRE job WAIT -1");
    resume(3, secret, "");
    uint64_t resumer = last_command()->request;
    is_int(last_command()->kind, COMMAND_RESUME, "it is tried though others wait for the name");
    resume(4, secret, "");
    ok(begins(4, "-BUSY another session is resuming"), "one at a time");
    harness.sessions[6].uid = 1001;
    resume(6, secret, "");
    ok(!begins(6, "-BUSY") && last_command()->kind == COMMAND_RESUME && last_command()->request != resumer,
       "another user's is no hindrance, and none to it");
    harness.sessions[7].uid = 1002;
    resume(7, secret, "");
    ok(begins(7, "-BUSY another session is resuming"), "but no third one: others wait for the end of all");
    report_failed(last_command()->request, FAILURE_NOT_HELD);
    report_granted(resumer);
    ok(begins(3, "*14"), "it comes before them");
    ask(5, "ACQUIRE job");
    ok(begins(5, "-BUSY held by process 103"), "and is the holder");
    unsigned commands = keeper.n_commands;
    disconnect_end(&harness.sessions[3], harness.now_ns);
    is_int(keeper.n_commands, commands + 1, "its release lets the one contend that does already");
    report(contender, REPORT_GRANTED);
    ok(begins(1, "*12"), "which gets it");
    disconnect_end(&harness.sessions[1], harness.now_ns);
    is_int(last_command()->kind, COMMAND_CONTEND, "then it is the turn of the next");

    outlive_agent("", secret);
    resume(3, secret, "");
    resumer = last_command()->request;
    ask(1, "ACQUIRE job WAIT -1");
    is_int(last_command()->request, resumer, "a later request waits for the outcome");
    report_failed(resumer, FAILURE_NOT_HELD);
    is_string(got(3), "-NOTHELD so\r\n", "when it has ended, that is said");
    is_int(last_command()->kind, COMMAND_CONTEND, "and the next contends");

    outlive_agent("", secret);
    ask(1, "ACQUIRE job WAIT -1");
    contender = last_command()->request;
    resume(3, secret, "");
    resumer = last_command()->request;
    report(contender, REPORT_GRANTED);
    ask(5, "ACQUIRE job");
    ok(begins(5, "-BUSY held by process 101"),
       "a contender that wins is the holder, though a resume is tried");
    report_failed(resumer, FAILURE_NOT_HELD);
    ask(2, "ACQUIRE job WAIT -1");
    disconnect_end(&harness.sessions[1], harness.now_ns);
    is_int(last_command()->kind, COMMAND_CONTEND, "and the next request contends");
}

/* Whether a majority votes is not known then. */
static void test_behind_resume(void) {
    char secret[4096];

    outlive_agent("", secret);
    resume(1, secret, "WAIT 9000");
    ask(2, "ACQUIRE job");
    ask(3, "ACQUIRE job WAIT 200");
    harness.now_ns += 300 * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    is_string(
        got(2),
        "-NOQUORUM no attempt has ended within 300 ms: a session of this host is resuming the lease\r\n",
        "a request behind an undecided RESUME is answered within its bound, with the reason");
    ok(begins(3, "-NOQUORUM no attempt has ended within 300 ms: a session"), "so is one that waits");

    outlive_agent("", secret);
    ask(2, "ACQUIRE job WAIT 200");
    resume(1, secret, "WAIT 9000");
    harness.now_ns += 200 * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    report(last_command()->request, REPORT_CONTENDED);
    is_string(got(2), "", "a try of the RESUME is no result of an attempt beside it");
}

static void test_resume_gives_up(void) {
    char secret[4096];

    outlive_agent("", secret);
    resume(1, secret, "WAIT 500");
    const struct report tried = {.kind = REPORT_CONTENDED,
                                 .request = last_command()->request,
                                 .failure = FAILURE_NO_QUORUM,
                                 .text = "so",
                                 .text_length = 2};
    registry_report(&harness.front.registry, &tried, harness.now_ns);
    is_string(got(1), "", "a try without a result is not the end");
    harness.now_ns += 500 * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    ok(begins(1, "-NOQUORUM tried for 500 ms"), "WAIT bounds how long it is tried");
    is_int(last_command()->kind, COMMAND_FORGET, "rule 8: and nothing is deleted");
    resume(2, secret, "WAIT 0 ASYNC");
    ok(begins(2, "*2\r\n$7\r\nwaiting\r\n"), "ASYNC answers at once");
    is_int(last_command()->persist, 0, "WAIT 0 is one try");
    report_failed(last_command()->request, FAILURE_NO_QUORUM);
    ok(strstr(got(2), "failed") && strstr(got(2), "NOQUORUM so"), "its end comes as a push");
    resume(3, secret, "");
    disconnect_end(&harness.sessions[3], harness.now_ns);
    is_int(last_command()->kind, COMMAND_FORGET, "rule 8: nor when its session ends before the outcome");
    resume(4, secret, "ASYNC");
    ask(4, "RELEASE 3145728");
    ok(last_command()->kind != COMMAND_RELEASE, "RELEASE of another id changes nothing");
    char line[64];
    (void) snprintf(line, sizeof(line), "RELEASE %llu",
                    (unsigned long long) keeper.commands[keeper.n_commands - 1].request);
    ask(4, line);
    is_int(last_command()->kind, COMMAND_RELEASE, "but a RELEASE during the try releases it");
}

/* Others of its requests may be left to a tick. */
static void test_again_in_another_session(void) {
    char secret[4096];

    outlive_agent("", secret);
    harness.front.registry.drops_at_once = 0;
    resume(3, secret, "ASYNC");
    ask(3, "ACQUIRE other WAIT -1");
    disconnect_end(&harness.sessions[3], harness.now_ns);
    is_int(last_command()->kind, COMMAND_FORGET, "a RESUME is dropped as its session ends, alone,");
    resume(4, secret, "");
    is_int(last_command()->kind, COMMAND_RESUME, "so that the client can resume in another session at once");
}

static void test_bad_secrets(void) {
    char secret[4096], changed[4096];
    unsigned refused = 0, tried = 0;

    outlive_agent("MAXHOLD 5000 DATA abc", secret);
    size_t length = strlen(secret);
    for (size_t i = 0; i < length; i++) {
        for (unsigned c = '!'; c <= '~'; c++) {
            (void) strcpy(changed, secret);
            changed[i] = (char) c;
            if (secret[i] == (char) c)
                continue;
            resume(1, changed, "");
            refused += begins(1, "-BADARG this is not the secret");
            tried++;
        }
        (void) snprintf(changed, sizeof(changed), "%.*s", (int) i + 1, secret);
        if (i + 1 < length) {
            resume(1, changed, "");
            refused += begins(1, "-BADARG");
            tried++;
        }
    }
    is_int(refused, tried, "an altered or cut secret is none, whatever was altered");
    is_int(keeper.n_commands, 0, "and no node is asked");
    resume(1, secret, "WAIT");
    ok(begins(1, "-BADARG WAIT wants milliseconds"), "WAIT without its value");
    resume(1, secret, "TTL");
    ok(begins(1, "-BADARG unknown option number 1"), "an unknown option");
    harness.front.policy.max_ttl_ms = 5000;
    resume(1, secret, "");
    ok(begins(1, "-BADARG the lease's ttl"), "a ttl that the agent no longer grants");
    harness.front.policy.max_ttl_ms = 60000;
    harness.now_ns += 5 * NS_PER_S;
    resume(1, secret, "");
    ok(begins(1, "-NOTHELD the lease reached its max_hold"), "a lease that was to end before now");
}

/* --- terms, at their bounds --- */

enum { MAX_TTL_MS = 60000, RULE_TTL_MS = 5000 };

/* What a lease of these terms is answered: "": it is tried. */
static const char *answer_to(const struct resume_token *token, const char *name) {
    static char first[32];
    char text[RESUME_TOKEN_BYTES_MAX + 1], line[RESUME_TOKEN_BYTES_MAX + 32];

    text[resume_token_write(token, text)] = '\0';
    (void) snprintf(line, sizeof(line), "RESUME %s %s WAIT 0", name, text);
    unsigned commands = keeper.n_commands;
    ask(1, line);
    (void) snprintf(first, sizeof(first), "%.*s", (int) strcspn(got(1), " "), got(1));
    if (first[0] == '\0') { /* it ends, and the next one may be tried */
        assert(keeper.n_commands == commands + 1);
        report_failed(last_command()->request, FAILURE_NOT_HELD);
    } else {
        assert(keeper.n_commands == commands && strchr(got(1), '\n')[1] == '\0');
    }
    return first;
}

static void test_terms(void) {
    static const struct {
        uint32_t ttl_ms, heartbeat_ms, linger_ms;
        int64_t cooling_ns, holding_ns;
        const char *answer, *what;
    } cases[] = {
        {TTL_MS_MIN, 0, 0, 0, 1, "", "the shortest ttl, without a heartbeat"},
        {TTL_MS_MIN - 1, 0, 0, 0, 1, "-BADARG", "a shorter ttl"},
        {MAX_TTL_MS, 0, 0, 0, 1, "", "the longest ttl"},
        {MAX_TTL_MS + 1, 0, 0, 0, 1, "-BADARG", "a longer ttl"},
        {1000, TTL_MS_MIN, 0, 0, 1, "", "the shortest heartbeat"},
        {1000, TTL_MS_MIN - 1, 0, 0, 1, "-BADARG", "a shorter heartbeat"},
        {1000, 0, MAX_TTL_MS, 0, 1, "", "the longest linger"},
        {1000, 0, MAX_TTL_MS + 1, 0, 1, "-BADARG", "a longer linger"},
        {1000, 0, 0, MAX_TTL_MS * NS_PER_MS, 1, "", "the longest cooldown"},
        {1000, 0, 0, MAX_TTL_MS * NS_PER_MS + 1, 1, "-BADARG", "a longer cooldown"},
        {1000, 0, 0, 0, 0, "-NOTHELD", "the end of max_hold is now"},
    };

    begin(512);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct resume_token token = {
            .terms = {.ttl_ms = cases[i].ttl_ms,
                      .heartbeat_ms = cases[i].heartbeat_ms,
                      .linger_ms = cases[i].linger_ms},
            .cooldown_until_ns = cases[i].cooling_ns > 0 ? harness.now_ns + cases[i].cooling_ns : 0,
            .hold_until_ns = harness.now_ns + cases[i].holding_ns};
        is_string(answer_to(&token, "job"), cases[i].answer, cases[i].what);
    }
    const struct resume_token token = {.terms.ttl_ms = 1000, .hold_until_ns = INSTANT_NEVER};
    is_string(answer_to(&token, "redlockd:x"), "-BADNAME", "a wrong name");
}

static void test_rule(void) {
    static char pattern[] = "job";
    static const struct policy_rule rule = {
        .pattern = pattern,
        .terms = {.may = POLICY_MAY_DEFAULT, .max_ttl_ms = RULE_TTL_MS, .max_hold_ms = 700}};
    struct resume_token token = {.terms.ttl_ms = RULE_TTL_MS, .hold_until_ns = INSTANT_NEVER};

    begin(512);
    harness.front.policy.rules = harness.front.registry.quota.rules = &rule;
    harness.front.policy.n_rules = 1;
    for (unsigned i = 0; i < LISTENERS; i++)
        harness.sessions[i].rules = 1;
    is_string(answer_to(&token, "job"), "", "the longest ttl of the rule");
    is_int(last_command()->hold_until_ns, harness.now_ns + 700 * NS_PER_MS, "with its max_hold");
    is_string(answer_to(&token, "other"), "", "a name without a rule");
    is_int(last_command()->hold_until_ns, INSTANT_NEVER, "has no such bound");
    token.terms.ttl_ms++;
    is_string(answer_to(&token, "job"), "-DENIED", "a longer ttl");
    is_string(answer_to(&token, "other"), "", "which another name may have");
    token.terms.ttl_ms = 1000;
    token.terms.linger_ms = RULE_TTL_MS;
    is_string(answer_to(&token, "job"), "", "the longest linger");
    token.terms.linger_ms++;
    is_string(answer_to(&token, "job"), "-DENIED", "a longer linger");
    token.terms.linger_ms = 0;
    token.cooldown_until_ns = harness.now_ns + RULE_TTL_MS * NS_PER_MS;
    is_string(answer_to(&token, "job"), "", "the longest cooldown");
    token.cooldown_until_ns++;
    is_string(answer_to(&token, "job"), "-DENIED", "a longer cooldown");
    is_string(answer_to(&token, "other"), "", "which another name may have");
}

static void succeed(uint64_t request) {
    report_granted(request);
}

static void fail(uint64_t request) {
    report_failed(request, FAILURE_NOT_HELD);
}

static void withdraw(uint64_t request) {
    const struct report released = {.kind = REPORT_RELEASED, .request = request};
    char line[64];

    (void) snprintf(line, sizeof(line), "RELEASE %llu", (unsigned long long) request);
    ask(1, line);
    registry_report(&harness.front.registry, &released, harness.now_ns);
}

static void succeed_and_withdraw(uint64_t request) {
    report_granted(request);
    withdraw(request);
}

static void end_session(uint64_t request) {
    (void) request;
    disconnect_end(&harness.sessions[1], harness.now_ns);
}

static void expel(uint64_t request) {
    (void) request;
    (void) disconnect_expel(&harness.sessions[1], "so", harness.now_ns);
}

/* Attempts that fail keep the nodes as busy as those that succeed, and no quota bounds their number. */
static void test_in_vain(void) {
    enum { UNITS_PER_S = 1000 };
    static const struct {
        const char *options, *what;
        bool root;
        void (*end)(uint64_t request);
        unsigned units;
    } cases[] = {
        {"", "RESUME that succeeds takes no more", false, succeed, 0},
        {"ASYNC", "nor does the end of its lease", false, succeed_and_withdraw, 0},
        {"", "RESUME that fails takes 16 units in all", false, fail, 13},
        {"ASYNC", "also with ASYNC", false, fail, 13},
        {"ASYNC", "or if it is withdrawn", false, withdraw, 13},
        {"ASYNC", "or its session ends", false, end_session, 13},
        {"ASYNC", "or is expelled", false, expel, 13},
        {"", "but not of root, who has no limit", true, fail, 0},
    };
    char secret[4096];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        outlive_agent("", secret);
        harness.front.work.units_per_s = UNITS_PER_S;
        const instant_ns *paid_ns = &harness.front.work.paid_ns[harness.sessions[1].account];
        resume(1, secret, cases[i].options);
        session_note_work(&harness.sessions[1], WORK_SHARE_LEASE, harness.now_ns);
        harness.sessions[1].uid = cases[i].root ? 0 : harness.sessions[1].uid;
        instant_ns before_ns = *paid_ns;
        cases[i].end(last_command()->request);
        is_int((*paid_ns - before_ns) / (NS_PER_S / UNITS_PER_S), cases[i].units, cases[i].what);
    }
}

int main(void) {
    test_resume();
    test_resume_cools();
    test_resume_lingers();
    test_resume_in_line();
    test_behind_resume();
    test_resume_gives_up();
    test_again_in_another_session();
    test_bad_secrets();
    test_terms();
    test_rule();
    test_in_vain();
    return done_testing();
}
