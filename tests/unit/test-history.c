/* The history: the events of a lease, how each node answered, who sees them, and what a flood leaves. */

#include <assert.h>

#include "scripted-keeper.h"
#include "tap.h"

static const struct round_trace trace = {.answers = {ROUND_ANSWER_YES}, .after = {610}};

/* "event value" of each event of the reply, one after the other. */
static const char *values_of(unsigned session, const char *key) {
    static char values[1024];
    char mark[64];
    size_t length = 0;

    (void) snprintf(mark, sizeof(mark), "\r\n%s\r\n", key);
    values[0] = '\0';
    for (const char *at = got(session); (at = strstr(at, mark));) {
        at += strlen(mark);
        at = *at == '$' ? strstr(at, "\r\n") + 2 : at + 1;
        length += (size_t) snprintf(values + length, sizeof(values) - length, "%s%.*s", length ? " " : "",
                                    (int) strcspn(at, "\r"), at);
    }
    return values;
}

static void report_traced(uint64_t request, enum report_kind kind, enum reason reason) {
    registry_report(&harness.front.registry,
                    &(struct report){.kind = kind,
                                     .request = request,
                                     .reason = reason,
                                     .deadline_ns = harness.now_ns + 9898 * NS_PER_MS,
                                     .cooldown_until_ns = local_harness_cooldown_until_ns(last_command()),
                                     .token = 7,
                                     .trace = trace,
                                     .text = kind == REPORT_LOST ? "job" : "vvvvvvvvvvvvvvvvvvvv",
                                     .text_length = kind == REPORT_LOST ? 3 : SECRET_BYTES},
                    harness.now_ns);
}

static unsigned long long id_of_reply(unsigned session) {
    const char *at = strstr(got(session), "id\r\n:");
    return at ? strtoull(at + 5, NULL, 10) : 0;
}

static void release(unsigned session, unsigned long long id) {
    char line[64];

    (void) snprintf(line, sizeof(line), "RELEASE %llu", id);
    ask(session, line);
}

static void test_life(void) {
    begin(8);
    ask(0, "ACQUIRE job");
    uint64_t request = last_command()->request;
    harness.now_ns += 40 * NS_PER_MS;
    report_traced(request, REPORT_GRANTED, 0);
    unsigned long long id = id_of_reply(0);
    harness.now_ns += 3000 * NS_PER_MS;
    report_traced(request, REPORT_AT_RISK, REASON_NO_QUORUM);
    report(request, REPORT_EXTENDED);
    release(0, id);
    report(request, REPORT_RELEASED);
    ask(0, "HISTORY job");
    is_string(values_of(0, "event"), "granted at-risk extended released", "HISTORY: a lease's life");
    is_string(values_of(0, "ago"), "3000 0 0 0", "how long ago each event was");
    is_string(values_of(0, "reason"), "no-quorum  ", "why it was at risk");
    is_string(values_of(0, "fence"), "7 7 7 7", "the token");
    is_string(values_of(0, "pid"), "100 100 100 100", "the process");
    is_string(values_of(0, "answer"), "yes yes", "what the node answered");
    ok(!strstr(got(0), "vvvv"), "not the random part of the keys");
    ok(strstr(got(0), "after\r\n:40000\r\n"), "the grant came after 40 ms,");
    ok(strstr(got(0), "after\r\n:39976\r\n"), "the node's answer after as many, in steps of 66 µs");
    ask(0, "HISTORY job COUNT 2");
    is_string(values_of(0, "event"), "extended released", "COUNT: the last events");
    ask(0, "HISTORY other");
    is_string(got(0), "*0\r\n", "nothing of another name");
    ask(0, "HISTORY job COUNT 0");
    ok(begins(0, "-BADARG HISTORY takes a name"), "COUNT is at least 1");
    ask(0, "HISTORY job COUNT");
    ok(begins(0, "-BADARG"), "and has a value");
    ask(0, "HISTORY job LAST 2");
    ok(begins(0, "-BADARG"), "there is no other option");
    ask(0, "HISTORY job COUNT 2 3");
    ok(begins(0, "-ERR wrong number"), "nor a further argument");
}

static void test_hand_off(void) {
    begin(8);
    harness.front.registry.sink.secret = NULL;
    hold(0, "ACQUIRE job");
    unsigned long long id = id_of_reply(0);
    ask(1, "ACQUIRE job WAIT 5000");
    ask(2, "ACQUIRE job ASYNC WAIT -1");
    harness.now_ns += 250 * NS_PER_MS;
    release(0, id);
    ask(3, "HISTORY job");
    is_string(values_of(3, "event"), "granted asked asked released",
              "a hand-over through the nodes waits for the grant");
    report_traced(last_command()->request, REPORT_CONTENDED, 0);
    ask(3, "HISTORY job");
    is_string(values_of(3, "event"), "granted asked asked released contended",
              "a failed attempt of one that waits");
    is_string(values_of(3, "reason"), "BUSY", "and the error's word");
    harness.now_ns += 6000 * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    ask(3, "HISTORY job COUNT 1");
    is_string(values_of(3, "event"), "failed", "a request that waited too long");
    is_string(values_of(3, "reason"), "TIMEOUT", "has its error's word,");
    is_string(values_of(3, "pid"), "101", "and its process");
    disconnect_end(&harness.sessions[2], harness.now_ns);
    ask(3, "HISTORY job COUNT 1");
    is_string(values_of(3, "event"), "withdrawn", "a session that ends while it waits");
}

/* Front and keeper each compare their own copy of the deadline. Either may be first. */
static void test_loss(void) {
    for (unsigned front_first = 0; front_first < 2; front_first++) {
        begin(8);
        uint64_t request = hold(0, "ACQUIRE job COOLDOWN 60000");
        harness.now_ns += 9898 * NS_PER_MS;
        if (front_first)
            registry_tick(&harness.front.registry, harness.now_ns);
        report_traced(request, REPORT_LOST, REASON_NO_QUORUM);
        ask(0, "HISTORY job");
        is_string(values_of(0, "event"), "granted lost", "a lost lease");
        is_string(values_of(0, "answer"), "yes", "with the answers to its last extension");
    }
    begin(8);
    ask(0, "ACQUIRE job COOLDOWN 60000");
    uint64_t request = last_command()->request;
    report_traced(request, REPORT_GRANTED, 0);
    release(0, id_of_reply(0));
    report(request, REPORT_RELEASED);
    ask(0, "HISTORY job");
    is_string(values_of(0, "event"), "granted released cooling",
              "the release of a lease with a cooldown has an event of its own");
    is_string(values_of(0, "left"), "9898 0 60000", "and how long");
}

static void test_who_sees(void) {
    begin(8);
    harness.sessions[1].uid = 1001;
    harness.sessions[2].uid = 0;
    harness.front.registry.quota.owner = 999;
    harness.sessions[3].uid = 999;
    hold(0, "ACQUIRE job");
    release(0, id_of_reply(0));
    report(last_command()->request, REPORT_RELEASED);
    hold(1, "ACQUIRE job");
    ask(0, "HISTORY job");
    is_string(values_of(0, "event"), "granted released", "a user sees what happened to its own leases");
    ask(1, "HISTORY job");
    is_string(values_of(1, "uid"), "1001", "and each other user the same");
    ask(2, "HISTORY job");
    is_string(values_of(2, "uid"), "1000 1000 1001", "root sees all");
    ask(3, "HISTORY job");
    is_string(values_of(3, "uid"), "1000 1000 1001", "the agent's own user sees all");
    harness.front.policy.terms.may |= POLICY_MAY(POLICY_HISTORY);
    ask(1, "HISTORY job");
    is_string(values_of(1, "uid"), "1000 1000 1001", "a user with the right sees all");
}

/* The text of BUSY has the holder's process. */
static void test_hidden_text(void) {
    static const char holder[] = "held by process 100";

    begin(8);
    harness.sessions[1].uid = 1001;
    hold(0, "ACQUIRE job");
    ask(1, "ACQUIRE job");
    ask(1, "HISTORY job");
    ok(strstr(got(1), holder), "with the right 'leader' a user sees who held the name");
    harness.front.policy.terms.may = POLICY_MAY(POLICY_ACQUIRE);
    ask(1, "HISTORY job");
    is_string(values_of(1, "reason"), "BUSY", "without rights a user sees its own failure");
    ok(!strstr(got(1), holder), "and not who held the name");
    harness.front.policy.terms.may |= POLICY_MAY(POLICY_HISTORY);
    ask(1, "HISTORY job");
    ok(strstr(got(1), holder), "with the right 'history' it does");
}

/* A node's answer has its time; a node that was silent, or was not asked, has none. */
static void test_answers(void) {
    const struct round_trace round = {.answers = {ROUND_ANSWER_SILENT}, .after = {610}};

    begin(8);
    uint64_t request = hold(0, "ACQUIRE job");
    registry_report(&harness.front.registry,
                    &(struct report){.kind = REPORT_AT_RISK,
                                     .request = request,
                                     .reason = REASON_NO_QUORUM,
                                     .deadline_ns = harness.now_ns + NS_PER_S,
                                     .trace = round},
                    harness.now_ns);
    ask(0, "HISTORY job COUNT 1");
    is_string(values_of(0, "answer"), "silent", "a node that did not answer");
    ok(strstr(got(0), "silent\r\n$5\r\nafter\r\n:-1\r\n"), "has no time");
}

static void is_ahead(unsigned session, const char *ahead, const char *what) {
    char text[160];

    (void) snprintf(text, sizeof(text), "text\r\n$%zu\r\n%s\r\n", strlen(ahead), ahead);
    ask(session, "HISTORY job COUNT 1");
    if (!ok(strstr(got(session), text), "%s", what))
        (void) printf("#   got %s\n", got(session));
}

/* Sessions 0 and 1 are of different users, 2 is root's. */
static void test_asked(void) {
    begin(32);
    harness.sessions[1].uid = 1001;
    harness.sessions[2].uid = 0;
    ask(0, "ACQUIRE job WAIT 5000");
    ask(2, "HISTORY job");
    is_string(values_of(2, "event"), "asked", "a request that is not answered yet");
    is_string(values_of(2, "wait"), "5000", "and how long it waits");
    is_ahead(2, "", "nobody is before it");
    harness.now_ns += 7 * NS_PER_MS;
    report_traced(last_command()->request, REPORT_GRANTED, 0);
    ask(2, "HISTORY job");
    is_string(values_of(2, "event"), "granted", "its grant takes the place of the event");
    ok(strstr(got(2), "after\r\n:7000\r\n"), "and says how long ago the request was made");
    ask(1, "ACQUIRE job WAIT -1 ASYNC");
    is_ahead(2, "behind process 100 of user 1000, which holds the name", "who is before it");
    is_string(values_of(2, "wait"), "-1", "it waits without limit");
    is_ahead(1, "behind process 100 of user 1000, which holds the name", "its user sees the holder, too");
    ask(1, "ACQUIRE job WAIT 100 ASYNC");
    is_ahead(2, "behind process 100 of user 1000, which holds the name, and 1 other", "and how many others");
    is_ahead(1, "behind process 100 of user 1000, which holds the name", "which need a right");
    harness.front.policy.terms.may |= POLICY_MAY(POLICY_LIST);
    is_ahead(1, "behind process 100 of user 1000, which holds the name, and 1 other", "the right 'list'");
    harness.front.policy.terms.may = POLICY_MAY(POLICY_ACQUIRE);
    is_ahead(1, "behind another user's request", "without the right 'leader' not even the holder");
    for (unsigned i = 0; i < 20; i++)
        ask(1, "ACQUIRE job WAIT -1 ASYNC");
    is_ahead(2, "behind process 100 of user 1000, which holds the name, and 7 or more others", "many");
    ask(2, "HISTORY job");
    is_string(values_of(2, "event"), "granted asked asked asked asked asked asked asked asked",
              "a crowd of waiters leaves the other events");
}

static void test_asked_of_others(void) {
    begin(64);
    harness.sessions[1].uid = 1001;
    harness.sessions[2].uid = 0;
    hold(2, "ACQUIRE job");
    for (unsigned i = 0; i < 6; i++)
        ask(0, "ACQUIRE job WAIT -1 ASYNC");
    for (unsigned i = 0; i < 20; i++)
        ask(1, "ACQUIRE job WAIT -1 ASYNC");
    ask(0, "HISTORY job");
    is_string(values_of(0, "event"), "asked asked asked asked", "and half of their events to another user");
}

static void churn(unsigned session, const char *prefix, unsigned count) {
    char line[64];

    for (unsigned i = 0; i < count; i++) {
        (void) snprintf(line, sizeof(line), "ACQUIRE %s%u", prefix, i);
        keeper.n_commands = 0;
        hold(session, line);
        release(session, id_of_reply(session));
        report(last_command()->request, REPORT_RELEASED);
    }
}

static void test_flood(void) {
    begin(8);
    harness.sessions[1].uid = 1001;
    for (unsigned i = 0; i < 8; i++)
        churn(0, "job", 1);
    churn(1, "job", 100);
    ask(0, "HISTORY job0");
    is_string(values_of(0, "event"),
              "granted released granted released granted released granted released "
              "granted released granted released granted released granted released",
              "another user's leases of the name leave half of the events");
    churn(1, "flood", 20000);
    ask(0, "HISTORY job0");
    ok(begins(0, "*16\r\n"), "and so do its 20,000 leases of other names");
    churn(0, "own", 20000);
    ask(0, "HISTORY job0");
    ok(!begins(0, "*16\r\n"), "one's own leases of many names take the place");
    for (unsigned i = 0; i < 100; i++)
        churn(0, "job", 1);
    ask(0, "HISTORY job0");
    ok(begins(0, "*16\r\n") || begins(0, "*32\r\n"), "a name has at most so many events");
}

static void test_text(void) {
    struct history_event event = {0};

    history_set_text(&event, "held", 4);
    is_int(event.text_length, 4, "a short text is kept");
    char text[HISTORY_TEXT_BYTES + 2];
    memset(text, 'x', sizeof(text));
    memcpy(text + HISTORY_TEXT_BYTES - 1, "ä", 2);
    history_set_text(&event, text, sizeof(text));
    is_int(event.text_length, HISTORY_TEXT_BYTES, "a long one is cut");
    ok(memcmp(event.text + HISTORY_TEXT_BYTES - 4, "x…", 4) == 0, "and shows that");
    memcpy(text + HISTORY_TEXT_BYTES - 4, "ä", 2);
    history_set_text(&event, text, sizeof(text));
    is_int(event.text_length, HISTORY_TEXT_BYTES - 1, "between characters");
    memset(text, 'x', sizeof(text));
    history_set_text(&event, text, HISTORY_TEXT_BYTES - 1);
    is_int(event.text_length, HISTORY_TEXT_BYTES - 1, "one that ends before that is whole");
    memset(text, 'x', sizeof(text));
    memset(text + HISTORY_TEXT_BYTES, 0x80, 2);
    history_set_text(&event, text, HISTORY_TEXT_BYTES);
    is_int(event.text_length, HISTORY_TEXT_BYTES, "the longest one is whole, whatever follows");
    memset(text, 0x80, sizeof(text));
    history_set_text(&event, text, sizeof(text));
    is_int(event.text_length, strlen("…"), "what has no beginning of a character is left out");
}

int main(void) {
    test_life();
    test_hand_off();
    test_loss();
    test_who_sees();
    test_hidden_text();
    test_answers();
    test_asked();
    test_asked_of_others();
    test_flood();
    test_text();
    return done_testing();
}
