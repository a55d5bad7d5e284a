/* Observers of names by way of their sessions: OBSERVE goes in as tokens, pushes come out as bytes, and the
 * keeper is this file. */

#include <assert.h>

#include "local-harness.h"
#include "tap.h"

enum { CROWD = SESSIONS_MAX - LISTENERS, BUSY_NAMES = 4 };

#define HEX_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HEX_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static struct keeper {
    struct command query;
    char asked_for[NAME_BYTES_MAX + 1];
    unsigned queries;
    struct command busy[BUSY_NAMES]; /* queries for names that begin like this */
    unsigned n_busy;
    uint64_t contender; /* the last */
} keeper;

static void on_query(void *userdata, uint64_t hash, const struct command *command) {
    (void) userdata;
    (void) hash;
    assert(command->kind == COMMAND_QUERY);
    (void) snprintf(keeper.asked_for, sizeof(keeper.asked_for), "%.*s", (int) command->head_length,
                    command->text);
    if (strncmp(keeper.asked_for, "busy", 4) == 0) {
        assert(keeper.n_busy < BUSY_NAMES);
        keeper.busy[keeper.n_busy++] = *command;
        return;
    }
    keeper.query = *command;
    keeper.queries++;
}

static void on_command(void *userdata, uint64_t hash, const struct command *command) {
    (void) userdata;
    (void) hash;
    if (command->kind == COMMAND_CONTEND)
        keeper.contender = command->request;
}

static void on_changed(void *userdata, uint64_t hash, const char *name, size_t length) {
    observe_hint(userdata, hash, name, length);
}

static void begin(void) {
    const struct local_harness_setup setup = {
        .identity = {.version = "1", .n_nodes = 1, .n_keepers = 1},
        .sink = {.query = on_query},
        .registry_sink = {.command = on_command, .changed = on_changed},
        .requests_max = 64,
        .limit = 64,
        .sessions = SESSIONS_MAX};

    memset(&keeper, 0, sizeof(keeper));
    local_harness_begin(&setup);
}

/* What came since the last call. */
static const char *pushed(unsigned session) {
    static char copy[OUTPUT_MAX];
    memcpy(copy, harness.output[session], harness.output_length[session] + 1);
    harness.output_length[session] = 0;
    harness.output[session][0] = '\0';
    return copy;
}

static void answer_with(const struct report *given) {
    struct report report = *given;

    assert(keeper.query.origin == REPORT_ORIGIN_OBSERVE && keeper.query.request != 0);
    report.origin = keeper.query.origin;
    report.request = keeper.query.request;
    report.text_length = report.text ? (uint16_t) strlen(report.text) : 0;
    observe_report(&harness.front, &report, harness.now_ns);
    observe_tick(&harness.front, harness.now_ns);
}

/* The majority's answer to the query under way; NULL: no holder. */
static void answer(const char *value, int64_t token) {
    answer_with(&(struct report){
        .kind = REPORT_LEADER, .text = value, .token = token, .validity_ms = value ? 9000 : 0});
}

static void no_majority(void) {
    answer_with(&(struct report){.kind = REPORT_FAILED, .failure = FAILURE_NO_QUORUM});
}

/* Lets time pass until the next question, at most this long; whether it came. */
static bool query_within_ms(int64_t ms) {
    unsigned before = keeper.queries;
    instant_ns until_ns = harness.now_ns + ms * NS_PER_MS;

    while (keeper.queries == before && observe_due_ns(&harness.front) <= until_ns) {
        harness.now_ns = instant_max(harness.now_ns, observe_due_ns(&harness.front));
        observe_tick(&harness.front, harness.now_ns);
    }
    if (keeper.queries == before)
        harness.now_ns = until_ns;
    return keeper.queries > before;
}

static void push_of(char *buffer, size_t size, const char *holder, const char *host, int64_t token,
                    const char *data, long since_ms) {
    (void) snprintf(
        buffer, size,
        ">3\r\n$6\r\nleader\r\n$3\r\njob\r\n%%6\r\n$5\r\nstate\r\n$4\r\nheld\r\n$5\r\nsince\r\n:%ld\r\n"
        "$6\r\nholder\r\n$%zu\r\n%s\r\n$4\r\nhost\r\n$%zu\r\n%s\r\n$5\r\nfence\r\n:%lld\r\n"
        "$4\r\ndata\r\n$%zu\r\n%s\r\n",
        since_ms, strlen(holder), holder, strlen(host), host, (long long) token, strlen(data), data);
}

static const char nobody[] =
    ">3\r\n$6\r\nleader\r\n$3\r\njob\r\n%2\r\n$5\r\nstate\r\n$4\r\nfree\r\n$5\r\nsince\r\n:0\r\n";
static const char unknown[] =
    ">3\r\n$6\r\nleader\r\n$3\r\njob\r\n%2\r\n$5\r\nstate\r\n$7\r\nunknown\r\n$5\r\nsince\r\n:0\r\n";

static void begin_observing(void) {
    begin();
    ask(0, "HELLO 3");
    ask(0, "OBSERVE job");
}

/* --- pushes --- */

static void test_changes(void) {
    char want[512];

    begin_observing();
    is_string(pushed(0), ":1\r\n", "OBSERVE is answered at once");
    is_string(keeper.asked_for, "job", "and the keeper is asked");
    answer(NULL, 0);
    is_string(pushed(0), nobody, "then gets the push `free`");
    ok(query_within_ms(1100), "the keeper is asked again within 1.1 s");
    answer(NULL, 0);
    is_string(pushed(0), "", "no push without a change");
    ok(query_within_ms(1100), "and again");
    answer(HEX_A ":web1:0badcafe:42:0:at home", 7);
    push_of(want, sizeof(want), "web1:0badcafe:42", "web1", 7, "at home", 0);
    is_string(pushed(0), want, "a leader is pushed, with holder, host, token and data");
    ok(query_within_ms(1100), "the keeper is asked again");
    answer(HEX_A ":web1:12345678:42:0:at home", 7);
    is_string(pushed(0), "", "a lease resumed at another agent is no change");
    (void) query_within_ms(1100);
    answer(HEX_B ":web1:12345678:42:0:", 8);
    push_of(want, sizeof(want), "web1:12345678:42", "web1", 8, "", 0);
    is_string(pushed(0), want, "another lease of the same process is a change");
    (void) query_within_ms(1100);
    answer(HEX_A ":web1:12345678:42:0:", 8);
    is_string(pushed(0), "", "a new value with the same token and holder is no change");
    (void) query_within_ms(1100);
    answer(HEX_B ":web1:12345678:42:0:", 9);
    push_of(want, sizeof(want), "web1:12345678:42", "web1", 9, "", 0);
    is_string(pushed(0), want, "one with another token is a change");
    (void) query_within_ms(1100);
    answer(HEX_A ":web1:12345678:43:0:", 9);
    push_of(want, sizeof(want), "web1:12345678:43", "web1", 9, "", 0);
    is_string(pushed(0), want, "so is another process");
    (void) query_within_ms(1100);
    answer("a:b:c", 8);
    push_of(want, sizeof(want), "a:b:c", "", 0, "", 0);
    is_string(pushed(0), want, "another library's lock has neither host nor token");
    (void) query_within_ms(1100);
    answer(NULL, 0);
    is_string(pushed(0), nobody, "the end of the lock is pushed");
}

static void test_token_later(void) {
    char want[512];

    begin_observing();
    answer(HEX_A ":web1:0badcafe:42:0:", 0);
    (void) pushed(0);
    instant_ns since_ns = harness.now_ns;
    (void) query_within_ms(1100);
    answer(HEX_A ":web1:0badcafe:42:0:", 7);
    push_of(want, sizeof(want), "web1:0badcafe:42", "web1", 7, "",
            (long) ((harness.now_ns - since_ns) / NS_PER_MS));
    is_string(pushed(0), want, "a token that becomes known later is pushed; `since` stays");
    (void) query_within_ms(1100);
    answer(HEX_A ":web1:0badcafe:42:0:", 0);
    is_string(pushed(0), "", "the token is kept when an answer lacks it");
}

/* A process that stood still, and is continued, does not know the present leader. */
static void test_old_answer(void) {
    begin_observing();
    answer(HEX_A ":web1:0badcafe:42:0:", 7);
    ask(1, "HELLO 3");
    (void) pushed(0);
    (void) pushed(1);
    harness.now_ns += 3 * NS_PER_S;
    ask(1, "OBSERVE job");
    is_string(pushed(1), ":1\r\n", "an answer from some seconds ago is not pushed");
    (void) query_within_ms(1);
    answer(HEX_A ":web1:0badcafe:42:0:", 7);
    ok(strstr(pushed(1), "web1:0badcafe:42"), "the next one is, although nothing has changed");
    (void) query_within_ms(1100);
    answer(HEX_A ":web1:0badcafe:42:0:", 7);
    is_string(pushed(1), "", "once");
}

static void test_no_majority(void) {
    begin_observing();
    answer(HEX_A ":web1:0badcafe:42:0:", 7);
    (void) pushed(0);
    assert(query_within_ms(1100));
    harness.now_ns += 60 * NS_PER_S;
    no_majority();
    is_string(pushed(0), "", "a query without an answer after a sleep of the machine causes no push");
    instant_ns from_ns = harness.now_ns;
    unsigned questions = 0;
    for (; harness.output_length[0] == 0 && questions < 20; questions++) {
        assert(query_within_ms(1100));
        no_majority();
    }
    ok(questions <= 6, "questions without an answer are not asked more often than others");
    is_string(pushed(0), unknown, "without a majority `unknown` is pushed");
    ok(harness.now_ns - from_ns >= 5 * NS_PER_S && harness.now_ns - from_ns <= 6200 * NS_PER_MS,
       "after 5 seconds, not before");
    (void) query_within_ms(1100);
    no_majority();
    is_string(pushed(0), "", "once");
    ask(1, "HELLO 3");
    ask(1, "OBSERVE job");
    ok(strstr(pushed(1), "unknown"), "a new observer gets the same at once");
    (void) query_within_ms(1100);
    answer_with(&(struct report){.kind = REPORT_LEADER, .undecided = true, .changing = true});
    is_string(pushed(0), "", "where silent nodes may make a majority, the leader stays unknown");
    (void) query_within_ms(1100);
    answer(NULL, 0);
    is_string(pushed(0), nobody, "the first answer of a majority is pushed");
}

/* In the middle of a hand-off, when some nodes have the former holder's value. */
static void test_changing_value(void) {
    begin_observing();
    answer(HEX_A ":web1:0badcafe:42:0:", 7);
    (void) pushed(0);
    (void) query_within_ms(1100);
    answer_with(&(struct report){.kind = REPORT_LEADER, .changing = true});
    is_string(pushed(0), "", "a name whose value is changing is not shown as free");
    (void) query_within_ms(1100);
    answer(HEX_A ":web1:0badcafe:42:0:", 7);
    is_string(pushed(0), "", "nor does the same holder count as a new one afterwards");
    instant_ns from_ns = harness.now_ns;
    while (harness.output_length[0] == 0 && harness.now_ns - from_ns < 20 * NS_PER_S) {
        assert(query_within_ms(1100));
        answer_with(&(struct report){.kind = REPORT_LEADER, .changing = true});
    }
    is_string(pushed(0), nobody, "a name whose values are those of attempts that fail is free");
    ok(harness.now_ns - from_ns >= 5 * NS_PER_S && harness.now_ns - from_ns <= 7 * NS_PER_S,
       "after 5 to 7 seconds");
}

static void test_unknown_since(void) {
    static const struct {
        struct report answer;
        const char *push;
    } cases[] = {
        {{.kind = REPORT_FAILED, .failure = FAILURE_NO_QUORUM}, unknown},
        {{.kind = REPORT_LEADER, .changing = true}, nobody},
    };

    for (unsigned i = 0; i < 2; i++) {
        begin_observing();
        answer(HEX_A ":web1:0badcafe:42:0:", 7);
        (void) pushed(0);
        assert(query_within_ms(1100));
        answer_with(&cases[i].answer);
        instant_ns since_ns = harness.now_ns;
        assert(query_within_ms(1100));
        harness.now_ns = since_ns + 5 * NS_PER_S - 1;
        answer_with(&cases[i].answer);
        is_string(pushed(0), "", "the holder's end is not pushed a nanosecond before its time");
        assert(query_within_ms(1100));
        harness.now_ns = since_ns + 5 * NS_PER_S;
        answer_with(&cases[i].answer);
        is_string(pushed(0), cases[i].push, "but then");
    }
}

/* --- when it is asked --- */

static void test_expiry(void) {
    begin_observing();
    answer_with(&(struct report){.kind = REPORT_LEADER, .text = "foreign", .validity_ms = 300});
    instant_ns from_ns = harness.now_ns;
    ok(query_within_ms(1100) && harness.now_ns - from_ns >= 300 * NS_PER_MS &&
           harness.now_ns - from_ns <= 310 * NS_PER_MS,
       "the keeper is asked when the key is to end");
    answer_with(&(struct report){.kind = REPORT_LEADER, .text = "foreign", .validity_ms = 0});
    from_ns = harness.now_ns;
    ok(query_within_ms(1100) && harness.now_ns - from_ns >= 20 * NS_PER_MS,
       "the keeper is not asked more often than every 20 ms");
    ok(harness.now_ns - from_ns <= 30 * NS_PER_MS, "a key that ends now is about to end, too");
}

static void test_hints(void) {
    static const char value[] = HEX_A ":web1:0badcafe:42:0:";
    const struct report granted = {.kind = REPORT_GRANTED, .token = 7};

    begin_observing();
    answer(NULL, 0);
    harness.now_ns += 500 * NS_PER_MS;
    unsigned before = keeper.queries;
    ask(1, "ACQUIRE other");
    struct report report = granted;
    report.request = keeper.contender;
    report.deadline_ns = harness.now_ns + 9 * NS_PER_S;
    registry_report(&harness.front.registry, &report, harness.now_ns);
    observe_tick(&harness.front, harness.now_ns);
    is_int(keeper.queries, before, "a grant of another name causes no query");
    ask(2, "ACQUIRE job");
    report.request = keeper.contender;
    registry_report(&harness.front.registry, &report, harness.now_ns);
    observe_tick(&harness.front, harness.now_ns);
    is_int(keeper.queries, before + 1, "a grant on this host causes a query at once");
    answer(NULL, 0);
    instant_ns from_ns = harness.now_ns;
    ok(query_within_ms(20), "and 20 ms later if it is not seen yet");
    answer(NULL, 0);
    ok(query_within_ms(40) && harness.now_ns - from_ns >= 40 * NS_PER_MS, "then after 20 ms more");
    answer(value, 7);
    (void) pushed(0);
    ok(!query_within_ms(800), "once found, queries are rare again");
    disconnect_end(&harness.sessions[2], harness.now_ns);
    before = keeper.queries;
    observe_tick(&harness.front, harness.now_ns);
    is_int(keeper.queries, before + 1, "so does the end of its holder");
    ask(3, "ACQUIRE job WAIT -1");
    report.request = keeper.contender;
    registry_report(&harness.front.registry, &report, harness.now_ns);
    observe_tick(&harness.front, harness.now_ns);
    is_int(keeper.queries, before + 1, "one query at a time");
    answer(NULL, 0);
    is_string(pushed(0), nobody, "its result is pushed");
    ok(query_within_ms(20), "a hint during a query causes another query");
}

/* --- observers --- */

static void test_crowd(void) {
    begin();
    for (unsigned i = 0; i < CROWD; i++) {
        ask(LISTENERS + i, "HELLO 3");
        ask(LISTENERS + i, "OBSERVE job");
    }
    is_int(keeper.queries, 1, "1,000 observers of one name cost one query");
    harness.crowd_pushes = 0;
    answer(HEX_A ":web1:0badcafe:42:0:", 7);
    is_int(harness.crowd_pushes, CROWD, "each gets a push");
    ask(0, "HELLO 3");
    ask(0, "OBSERVE job");
    ok(strncmp(pushed(0), ":1\r\n>3\r\n$6\r\nleader", 18) == 0, "a later observer gets the known leader");
    is_int(keeper.queries, 1, "without a query");
    ok(query_within_ms(1100) && keeper.queries == 2, "the next query is periodic");
    ok(!query_within_ms(5000), "is asked for all");
}

static void change_here(void) {
    observe_hint(&harness.front, registry_hash(&harness.front.registry, "job", 3), "job", 3);
    observe_tick(&harness.front, harness.now_ns);
}

/* A name of many observers that changes all the time. */
static void test_crowd_is_slower(void) {
    static const char one[] = HEX_A ":web1:0badcafe:42:0:", other[] = HEX_B ":web1:0badcafe:42:0:";
    const int64_t pushes_ns = CROWD * 50 * NS_PER_US;

    begin();
    for (unsigned i = 0; i < CROWD; i++)
        ask(LISTENERS + i, "OBSERVE job");
    answer(one, 7);
    harness.now_ns += NS_PER_S / 2;
    unsigned before = keeper.queries;
    change_here();
    is_int(keeper.queries, before + 1, "a change on this host causes a query at once, for a crowd, too");
    harness.crowd_pushes = 0;
    answer(other, 8);
    is_int(harness.crowd_pushes, CROWD, "each gets its push at once");
    instant_ns from_ns = harness.now_ns;
    change_here();
    ok(query_within_ms(1100) && harness.now_ns - from_ns == pushes_ns,
       "a query soon after that follows when 50 us have passed for each push");
    answer(one, 9);
    from_ns = harness.now_ns;
    before = keeper.queries;
    ask(LISTENERS, "OBSERVE another");
    is_int(keeper.queries, before, "that counts for another name of the user");
    local_harness_set_user(0, 0);
    ask(0, "OBSERVE root's");
    is_string(keeper.asked_for, "root's", "but not for another user's");
    answer(NULL, 0);
    ok(query_within_ms(1100) && harness.now_ns - from_ns == pushes_ns, "and as long");
    is_string(keeper.asked_for, "another", "for this name, too");
}

/* All of these names change at once, and all queries for them are answered. */
static void change_busy(unsigned round) {
    for (unsigned i = 0; i < BUSY_NAMES; i++) {
        char name[8];
        (void) snprintf(name, sizeof(name), "busy-%u", i);
        observe_hint(&harness.front, registry_hash(&harness.front.registry, name, 6), name, 6);
    }
    observe_tick(&harness.front, harness.now_ns);
    while (keeper.n_busy > 0) {
        keeper.query = keeper.busy[--keeper.n_busy];
        answer(round % 2 ? HEX_A ":web1:0badcafe:42:0:" : HEX_B ":web1:0badcafe:42:0:", round + 1);
    }
}

/* Pushes to a user's sessions pause the queries for its names again and again. Another user may observe one
 * of these names, too. */
static void test_pauses_are_bounded(void) {
    begin();
    for (unsigned i = 0; i < CROWD; i++)
        for (unsigned name = 0; name < BUSY_NAMES; name++) {
            char line[32];
            (void) snprintf(line, sizeof(line), "OBSERVE busy-%u", name);
            ask(LISTENERS + i, line);
        }
    change_busy(0);
    ask(LISTENERS, "OBSERVE job");
    is_int(keeper.queries, 0, "a new name waits while its user's sessions get many pushes");
    unsigned ms = 0;
    for (; ms < 5000 && strcmp(keeper.asked_for, "job") != 0; ms++) {
        harness.now_ns += NS_PER_MS;
        change_busy(ms + 1);
    }
    ok(ms > 900 && ms <= 1000, "for a second at most, however many pushes follow: %u ms", ms);
}

static void test_ends(void) {
    begin_observing();
    is_int(harness.front.observers.entries.taken, 1, "an observation");
    (void) pushed(0);
    ask(0, "OBSERVE job");
    is_string(pushed(0), ":0\r\n", "a second OBSERVE of the same name has no effect");
    ask(1, "UNOBSERVE job");
    is_string(pushed(1), ":0\r\n", "nor has UNOBSERVE of a name that only another session observes");
    ask(0, "UNOBSERVE job");
    is_string(pushed(0), ":1\r\n", "UNOBSERVE ends it");
    ask(0, "OBSERVE job");
    is_int(keeper.queries, 1, "observers come and go, and there is one query at a time");
    ask(0, "UNOBSERVE job");
    (void) pushed(0);
    answer(HEX_A ":web1:0badcafe:42:0:", 7);
    is_string(pushed(0), "", "no push afterwards");
    is_int(harness.front.observers.names.pool.taken, 0, "the name is forgotten with its last answer");
    ok(!query_within_ms(5000), "and asked for no more");
    const uint64_t *used = harness.front.registry.quota.used;
    is_int((int64_t) used[QUOTA_NAMES], 0, "no user pays for the name any more");
    ask(0, "OBSERVE job");
    ask(0, "OBSERVE other");
    ask(1, "OBSERVE job");
    (void) disconnect_expel(&harness.sessions[0], "malformed", harness.now_ns);
    is_int((int64_t) used[QUOTA_NAMES], 1, "its next observer's user pays for a name");
    disconnect_end(&harness.sessions[1], harness.now_ns);
    is_int(harness.front.observers.entries.taken, 0, "a session's end ends its observations");
    is_int((int64_t) (used[QUOTA_NAMES] + used[QUOTA_OBSERVATIONS]), 0, "and nobody pays");
}

static void test_limits(void) {
    char line[64];
    unsigned refused = 0;

    begin();
    for (unsigned i = 0; i < SESSION_OBSERVATIONS_MAX; i++) {
        (void) snprintf(line, sizeof(line), "OBSERVE name%u", i);
        ask(0, line);
        refused += strncmp(pushed(0), ":1\r\n", 4) != 0;
    }
    is_int(refused, 0, "a session observes 1,024 names");
    ask(0, "OBSERVE one-more");
    ok(strncmp(pushed(0), "-QUOTA a session observes at most 1024 names", 40) == 0, "at its limit");
    is_int(keeper.queries, OBSERVE_USER_QUERIES_MAX, "at most 64 queries of one user at a time");
    answer(NULL, 0);
    ok(query_within_ms(20), "an answer makes room for the next query");
    is_int(keeper.queries, OBSERVE_USER_QUERIES_MAX + 1, "and for one");
    local_harness_set_user(1, 0);
    for (unsigned i = 0; i < OBSERVED_NAMES_MAX - SESSION_OBSERVATIONS_MAX; i++) {
        if (i == SESSION_OBSERVATIONS_MAX)
            is_int(keeper.queries, OBSERVE_QUERIES_MAX + 1, "at most 512 of all users, and of root");
        (void) snprintf(line, sizeof(line), "OBSERVE more%u", i);
        ask(1 + i / SESSION_OBSERVATIONS_MAX, line);
    }
    ask(5, "OBSERVE one-more");
    ok(strncmp(pushed(5), "-QUOTA the agent has no room for another observer", 48) == 0,
       "4,096 names are observed, and no more");
    ask(5, "OBSERVE name0");
    ok(strncmp(pushed(5), ":1\r\n", 4) == 0, "but any session may observe these");
    ask(6, "OBSERVE redlockd:epoch");
    ok(strncmp(pushed(6), "-BADNAME", 8) == 0, "names are checked");
}

static void test_resp2(void) {
    begin();
    ask(0, "OBSERVE job");
    (void) pushed(0);
    answer(NULL, 0);
    is_string(pushed(0),
              "*3\r\n$6\r\nleader\r\n$3\r\njob\r\n*4\r\n$5\r\nstate\r\n$4\r\nfree\r\n$5\r\nsince\r\n:0\r\n",
              "in RESP2 pushes are arrays");
}

/* --- rights --- */

static void test_rights_change(void) {
    begin_observing();
    harness.sessions[0].uid = 1000;
    harness.sessions[1].uid = 1001;
    ask(1, "OBSERVE job");
    answer(HEX_A ":web1:9a84f0b9:42:0:secret", 7);
    (void) pushed(0);
    (void) pushed(1);
    harness.front.policy.terms.may = 0;
    observe_review(&harness.sessions[0]);
    is_string(pushed(0), unknown, "without the right, the observation ends with a last push: unknown");
    is_int(harness.sessions[0].n_observations, 0, "the session has no observation any more");
    harness.front.policy.terms.may = POLICY_MAY(POLICY_OBSERVE);
    observe_review(&harness.sessions[1]);
    is_string(pushed(1), "", "with the right the observation stays");
    is_int(harness.sessions[1].n_observations, 1, "an observation that stays gets no push");
    harness.front.policy.terms.may = 0;
    observe_restore(&harness.sessions[0], "job", 3, harness.now_ns);
    is_string(pushed(0), unknown, "no process of the agent restores it");
    is_int(harness.sessions[0].n_observations, 0, "without the right");
}

int main(void) {
    test_changes();
    test_token_later();
    test_old_answer();
    test_no_majority();
    test_changing_value();
    test_unknown_since();
    test_expiry();
    test_hints();
    test_crowd();
    test_crowd_is_slower();
    test_pauses_are_bounded();
    test_ends();
    test_limits();
    test_resp2();
    test_rights_change();
    return done_testing();
}
