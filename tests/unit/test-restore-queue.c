/* Waiting requests after a restart: their order, their waits, and grants that their clients do not know. */

#include <assert.h>
#include <sys/mman.h>
#include <time.h>

#include "local/recovery/restore.h"
#include "restore-harness.h"
#include "tap.h"

static void test_order(void) {
    restore_harness_begin();
    uint64_t holder = hold(0, "ACQUIRE job");
    ask(5, "PING");
    uint64_t first = wait_for(1, "ACQUIRE job WAIT -1 ASYNC");
    harness.now_ns += NS_PER_MS;
    uint64_t second = wait_for(2, "ACQUIRE job WAIT 5000 ASYNC");
    harness.now_ns += NS_PER_MS;
    uint64_t third = wait_for(3, "ACQUIRE job WAIT -1 ASYNC");
    ask_id(1, "RELEASE", first);
    flush(1);
    harness.now_ns += NS_PER_MS;
    first = wait_for(1, "ACQUIRE job WAIT -1 ASYNC");
    harness.now_ns += NS_PER_S;
    clear();
    replace();
    report(holder, REPORT_GRANTED);
    serve();
    harness.sessions[4].asked_ns = harness.now_ns - 2 * NS_PER_S;
    ask(4, "ACQUIRE job WAIT 10000");
    ask_id(0, "RELEASE", holder);
    const struct command before_all = *last_command();
    ok(before_all.kind == COMMAND_CONTEND && before_all.request != second,
       "the first request contends first: one without an answer, read again");
    report(before_all.request, REPORT_GRANTED);
    ask_id(4, "RELEASE", before_all.request);
    is_int(count_commands(COMMAND_CONTEND, second), 1, "the waiting requests follow in their order");
    report_with(second, REPORT_CONTENDED, FAILURE_BUSY);
    pass_ms(4000);
    ok(has(2, "TIMEOUT"), "a wait ends when it would have");
    is_int(count_commands(COMMAND_CONTEND, third), 1, "and the next contends");
    is_int(count_commands(COMMAND_CONTEND, first), 0, "before a later request in an earlier slot");
}

/* Of one receive; the slots that were given back last are taken first. */
static void test_order_of_one_instant(void) {
    restore_harness_begin();
    uint64_t holder = hold(0, "ACQUIRE job"), before[] = {hold(2, "ACQUIRE a"), hold(2, "ACQUIRE b")};
    for (unsigned i = 0; i < 2; i++) {
        ask_id(2, "RELEASE", before[i]);
        report(before[i], REPORT_RELEASED);
    }
    flush(2);
    uint64_t first = wait_for(1, "ACQUIRE job WAIT -1 ASYNC");
    uint64_t second = wait_for(4, "ACQUIRE job WAIT -1 ASYNC");
    ok((first & (REQUESTS_MAX - 1)) > (second & (REQUESTS_MAX - 1)), "a later request in an earlier slot");
    ask(3, "ACQUIRE job WAIT -1"); /* in the same instant, and left without an answer */
    instant_ns asked_ns = ledger.sessions[3].asked_ns;
    harness.now_ns += NS_PER_MS;
    replace();
    report(holder, REPORT_GRANTED);
    harness.sessions[3].asked_ns = asked_ns;
    ask(3, "ACQUIRE job WAIT -1");
    serve();
    ask_id(0, "RELEASE", holder);
    is_int((int64_t) last_command()->request, (int64_t) first,
           "requests of one instant stay in the order in which they came");
    ask_id(1, "RELEASE", first);
    is_int((int64_t) last_command()->request, (int64_t) second, "the second one, too,");
    ask_id(4, "RELEASE", second);
    is_int(last_command()->kind, COMMAND_CONTEND, "and one that is read again");
}

static void ignore_command(void *userdata, uint64_t hash, const struct command *command) {
    (void) userdata;
    (void) hash;
    (void) command;
}

/* The restart must not take so long that leases end meanwhile. A walk through the queue for each request
 * takes several seconds here. */
static void test_many_in_reverse(void) {
    enum { MANY = 1 << 16 };
    static struct registry registry;
    const struct registry_sink sink = {.command = ignore_command};
    const struct registry_ask ask = {
        .name = "job", .name_length = 3, .tail = "7:1000:me", .tail_length = 9, .wait_ms = -1};
    const uint64_t key[2] = {1, 2};
    size_t bytes = registry_memory_bytes(MANY);
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    const struct request *request = NULL, *before = NULL;
    unsigned in_order = 0;

    assert(memory != MAP_FAILED);
    registry_init(&registry, &sink, MANY, MANY, key, memory);
    for (unsigned i = 0; i < MANY; i++) {
        const struct restore_entry entry = {.id = (UINT64_C(1) << REQUEST_INDEX_BITS) + i,
                                            .asked_ns = 1000 * NS_PER_S - i,
                                            .wait_until_ns = INSTANT_NEVER};
        request = restore_request(&registry, NULL, &ask, &entry);
        assert(request);
    }
    clock_t began = clock();
    restore_start(&registry, 1001 * NS_PER_S);
    ok(clock() - began < CLOCKS_PER_SEC, "waiting requests in descending slots are queued in no time");
    for (const struct list *at = request->name->queue.next; at != &request->name->queue; at = at->next) {
        const struct request *next = list_entry(at, const struct request, queue_link);
        in_order += !before || before->asked_ns < next->asked_ns;
        before = next;
    }
    is_int(in_order, MANY, "all of them in their order");
    (void) munmap(memory, bytes);
}

static void test_granted_unreported(void) {
    restore_harness_begin();
    uint64_t id = wait_for(0, "ACQUIRE job WAIT -1 ASYNC");
    report(id, REPORT_GRANTED);
    clear();
    replace();
    ok(last_command()->kind == COMMAND_SEARCH && last_command()->request == id,
       "granted, and its client does not know: its keys are searched for");
    report(id, REPORT_GRANTED);
    ok(has(0, "granted"), "the keys are found: the request is granted");
    restore_harness_begin();
    id = wait_for(0, "ACQUIRE job WAIT 5000 ASYNC");
    report(id, REPORT_GRANTED);
    clear();
    replace();
    report(id, REPORT_FAILED);
    is_int(count_commands(COMMAND_CONTEND, id), 0, "not found, it waits again");
    serve();
    is_int(count_commands(COMMAND_CONTEND, id), 1, "and contends");
    report_with(id, REPORT_CONTENDED, FAILURE_BUSY);
    pass_ms(5000);
    ok(has(0, "TIMEOUT"), "a wait ends at the same time as without a restart");
    is_int(count_commands(COMMAND_RELEASE, id), 1, "a request that waited in vain leaves no key");
}

/* The results of earlier attempts are in no ledger. */
static void test_wait_over_meanwhile(void) {
    restore_harness_begin();
    uint64_t id = wait_for(0, "ACQUIRE job WAIT 5000 ASYNC");
    report_with(id, REPORT_CONTENDED, FAILURE_BUSY);
    clear();
    harness.now_ns += 6000 * NS_PER_MS;
    replace();
    serve();
    pass_ms(0);
    ok(has(0, "NOQUORUM") && has(0, "no attempt has ended within 6000 ms\r\n"),
       "a wait that has ended while the agent was away is answered without the results of before");
}

/* A lease is found after its client has released it, and the client goes before the keeper confirms. */
static void test_released_and_gone(void) {
    restore_harness_begin();
    uint64_t id = hold(0, "ACQUIRE job");
    replace();
    serve();
    harness.front.registry.drops_at_once = 0; /* what a session leaves is left to the next tick */
    ask_id(0, "RELEASE", id);
    report(id, REPORT_GRANTED);
    disconnect_end(&harness.sessions[0], harness.now_ns);
    harness.now_ns += 60000 * NS_PER_MS; /* past the time for an answer */
    pass_ms(0);
    pass_ms(0);
    report(id, REPORT_RELEASED);
    is_int(harness.front.registry.requests.taken, 0,
           "a request whose client has gone ends once, and is freed");
}

/* A grant that its client does not know leaves no cooldown. */
static void test_unreported_cooldown(void) {
    for (unsigned withdrawn = 0; withdrawn < 3; withdrawn++) {
        restore_harness_begin();
        uint64_t id = wait_for(0, "ACQUIRE job WAIT 5000 COOLDOWN 60000 ASYNC");
        report(id, REPORT_GRANTED);
        clear();
        replace();
        ok(last_command()->kind == COMMAND_SEARCH && last_command()->cooldown_until_ns > harness.now_ns,
           "an unreported grant with a cooldown is searched for with it");
        serve();
        if (withdrawn == 0)
            ask_id(0, "RELEASE", id);
        else if (withdrawn == 1)
            disconnect_end(&harness.sessions[0], harness.now_ns);
        else
            pass_ms(6000);
        is_int(count_commands(COMMAND_RELEASE, id), 1, "withdrawn before it is found, it is released");
        is_int(last_command()->cooldown_until_ns, 0, "without a cooldown");
    }
}

/* The keeper's report comes when the lease ends. */
static void report_too_late(uint64_t id) {
    const struct registry *registry = &harness.front.registry;
    const struct report report = {
        .kind = REPORT_GRANTED,
        .request = keeper_handle_of(&registry->handles, registry_find(registry, id)->handle_slot),
        .deadline_ns = harness.now_ns,
        .text = "abcdefghijklmnopqrst",
        .text_length = SECRET_BYTES};

    registry_report(&harness.front.registry, &report, harness.now_ns);
}

static void test_unreported_found_too_late(void) {
    restore_harness_begin();
    uint64_t id = wait_for(0, "ACQUIRE job WAIT -1 ASYNC");
    report(id, REPORT_GRANTED);
    clear();
    replace();
    serve();
    report_too_late(id);
    is_int(count_commands(COMMAND_RELEASE, id), 1, "an unreported grant that is found too late is released");
    report(id, REPORT_RELEASED);
    is_int(count_commands(COMMAND_CONTEND, id), 1, "then its request contends like any other, once");
    ask(1, "ACQUIRE job");
    report_with(id, REPORT_CONTENDED, FAILURE_BUSY);
    ok(has(1, "-BUSY"),
       "rule 15: the result of its attempt answers the requests behind it that do not wait");
}

/* Its client does not read: the lease was granted, released and handed off meanwhile. */
static void test_unreported_behind_another(void) {
    restore_harness_begin();
    uint64_t id = wait_for(0, "ACQUIRE job WAIT -1 ASYNC");
    report(id, REPORT_GRANTED);
    ask(1, "ACQUIRE job WAIT -1");
    ask_id(0, "RELEASE", id);
    report(id, REPORT_RELEASED);
    uint64_t other = last_command()->request;
    report(other, REPORT_GRANTED);
    flush(1);
    clear();
    replace();
    serve();
    report(other, REPORT_GRANTED);
    report(id, REPORT_FAILED);
    is_int(count_commands(COMMAND_CONTEND, id), 0, "an unreported grant waits behind the present holder");
    ask_id(1, "RELEASE", other);
    is_int(count_commands(COMMAND_CONTEND, id), 1, "an unreported grant contends after the present holder");
}

/* A client's RESUME and an unreported grant, each in the earlier slot once. */
static void test_unreported_beside_a_resume(void) {
    for (unsigned earlier = 0; earlier < 2; earlier++) {
        restore_harness_begin();
        uint64_t before = hold(2, "ACQUIRE other");
        uint64_t id = wait_for(0, "ACQUIRE job WAIT -1 ASYNC");
        if (earlier) {
            ask_id(2, "RELEASE", before);
            report(before, REPORT_RELEASED);
            flush(2);
            pass_ms(1000);
        }
        resume(1, "job", " WAIT 9000 ASYNC");
        flush(1);
        report(id, REPORT_GRANTED);
        clear();
        replace();
        report(id, REPORT_FAILED);
        resume(3, "job", "");
        ok(has(3, "-BUSY another session is resuming"),
           "rule 8: a RESUME is found beside an unreported grant that waits again");
    }
}

/* An ACQUIRE that waits for its reply is no entry: the next process reads the request again. */
static void test_unanswered_first(void) {
    restore_harness_begin();
    instant_ns asked_ns = harness.now_ns;
    pass_ms(10);
    uint64_t id = wait_for(1, "ACQUIRE job WAIT -1 ASYNC");
    replace();
    is_int(count_commands(COMMAND_CONTEND, id), 0, "no request contends until all are read again");
    harness.sessions[0].asked_ns = asked_ns;
    ask(0, "ACQUIRE job WAIT -1");
    serve();
    ok(last_command()->kind == COMMAND_CONTEND && last_command()->request != id,
       "then the oldest one does, which its client sent first");
    is_int(count_commands(COMMAND_CONTEND, id), 0, "and no other");
}

static void test_one_try(void) {
    restore_harness_begin();
    uint64_t id = wait_for(0, "ACQUIRE job ASYNC");
    clear();
    replace();
    is_int(keeper.n_commands, 0, "one try is made when the nodes have had the time to connect");
    serve();
    ok(last_command()->kind == COMMAND_CONTEND && !last_command()->persist,
       "a request without WAIT makes one attempt");
    report_with(id, REPORT_FAILED, FAILURE_BUSY);
    ok(has(0, "failed") && has(0, "BUSY"), "the attempt of a request without WAIT is answered");

    restore_harness_begin();
    uint64_t holder = hold(1, "ACQUIRE other");
    id = wait_for(0, "ACQUIRE job ASYNC");
    report(id, REPORT_GRANTED);
    clear();
    replace();
    serve();
    is_int(count_commands(COMMAND_CONTEND, id), 1, "also when it was granted and its client does not know");
    (void) holder;
}

/* The session's next request is one that the former process accepted, and left unanswered. */
static void accepted_before(unsigned session) {
    harness.sessions[session].asked_ns = harness.now_ns - NS_PER_S;
    harness.sessions[session].accepted_at = harness.sessions[session].request_at + 1;
}

static void ask_again(unsigned session, const char *line) {
    accepted_before(session);
    ask(session, line);
}

static void test_unanswered_beyond_limits(void) {
    restore_harness_begin();
    uint64_t held = hold(0, "ACQUIRE job");
    clear();
    replace();
    harness.front.registry.limit = 1;
    ask_again(1, "ACQUIRE job WAIT -1");
    ask_again(2, "ACQUIRE other WAIT -1");
    ok(!has(1, "-") && !has(2, "-"), "unanswered requests wait on beyond a smaller max_leases");
    ask(3, "ACQUIRE job WAIT -1");
    ok(has(3, "-QUOTA the agent has 1 leases"), "a new one is rejected");
    report(held, REPORT_GRANTED);
    serve();
    is_int(last_command()->kind, COMMAND_CONTEND, "and they contend");

    restore_harness_begin();
    (void) hold(0, "ACQUIRE job");
    clear();
    replace();
    harness.front.registry.quota.max[QUOTA_LEASES] = 2;
    harness.front.registry.quota.max[QUOTA_EXTENSIONS] = 2;
    ask_again(1, "ACQUIRE job WAIT -1");
    resume(2, "third", "");
    ok(!has(1, "-") && has(2, "-QUOTA max_leases"), "the same beyond its user's share");
    accepted_before(2);
    resume(2, "third", "");
    ok(!has(2, "-"), "and of RESUME");
    is_int(harness.front.registry.quota.used[QUOTA_LEASES], 3, "they count as others do");

    restore_harness_begin();
    (void) hold(0, "ACQUIRE job");
    finds.missing = 1;
    replace();
    harness.front.registry.limit = 1;
    resume(1, "other", "");
    ok(has(1, "-QUOTA the agent has 1 leases"), "a RESUME beyond max_leases is rejected");
    resume(1, "job", "");
    ok(!has(1, "-"), "not one of a lease that the agent has");
}

/* The next process knows by this which request it must not reject. */
static void test_accepted(void) {
    restore_harness_begin();
    (void) hold(1, "ACQUIRE job");
    uint64_t other = hold(0, "ACQUIRE other"), third = hold(0, "ACQUIRE third");
    ask(0, "ACQUIRE job WAIT 1000");
    report(other, REPORT_LOST);
    is_int((int64_t) ledger.sessions[0].accepted, 1, "a request stays accepted when another one ends");
    pass_ms(1000);
    ok(has(0, "-TIMEOUT"), "it ends");
    is_int((int64_t) ledger.sessions[0].accepted, 0, "and is accepted no more");
    ask(0, "ACQUIRE unsent");
    uint64_t unsent = last_command()->request;
    report(unsent, REPORT_GRANTED);
    report(third, REPORT_LOST);
    is_int((int64_t) ledger.sessions[0].accepted, 1,
           "a request whose grant is not sent stays accepted when another one ends");
    report(unsent, REPORT_LOST);
    is_int((int64_t) ledger.sessions[0].accepted, 0, "until its lease is lost");
}

/* The reply to the request before was not sent. */
static void test_unanswered_behind_a_reply(void) {
    struct session *session = &harness.sessions[0];

    restore_harness_begin();
    uint64_t held = hold(1, "ACQUIRE job");
    clear();
    replace();
    report(held, REPORT_GRANTED);
    serve();
    session->asked_ns = harness.now_ns - 4 * NS_PER_S;
    session->accepted_at = 6 + 1;
    ask(0, "PING");
    session->request_at = 6;
    ask(0, "ACQUIRE job WAIT 5000");
    pass_ms(999);
    is_string(got(0), "", "an unanswered request behind a reply that was not sent waits on");
    pass_ms(1);
    ok(has(0, "-TIMEOUT waited 5000 ms"), "for the rest of its time");
}

/* From now on. */
static void apply(struct policy_rule *rule) {
    const struct policy_peer peer = {.uid = 1000, .gid = (gid_t) -1};

    harness.front.policy.rules = harness.front.registry.quota.rules = rule;
    harness.front.policy.n_rules = 1;
    for (unsigned i = 0; i < LISTENERS; i++)
        session_set_peer(&harness.sessions[i], &peer);
}

static void test_unanswered_with_longer_times(void) {
    restore_harness_begin();
    finds.max_ttl_ms = 5000;
    replace();
    ask(0, "ACQUIRE job TTL 60000 WAIT -1");
    ok(has(0, "-BADARG TTL"), "a new request with a ttl above max_ttl is rejected");
    ask_again(0, "ACQUIRE job TTL 60000 LINGER 60000 COOLDOWN 60000 WAIT -1");
    ok(!has(0, "-"), "an unanswered one waits on");
    ask_again(4, "ACQUIRE other TTL 4000 LINGER 60000 WAIT -1 TTL 60000");
    ok(has(4, "-BADARG TTL is given twice"), "unless it is wrong anyway");
    serve();
    const struct lease_terms *terms = &last_command()->terms;
    is_int(last_command()->kind, COMMAND_CONTEND, "it contends");
    ok(terms->ttl_ms == 5000 && terms->linger_ms == 60000 && terms->cooldown_ms == 5000,
       "with the smaller ttl and cooldown, and the linger that was asked for");
}

/* A shorter ttl would shorten its keys. */
static void test_unanswered_resume_with_longer_times(void) {
    struct resume_token linger = resume_token_of_10_s(), cooldown = linger, ttl = linger;

    restore_harness_begin();
    finds.max_ttl_ms = 10000;
    replace();
    serve();
    linger.terms.linger_ms = 60000;
    cooldown.cooldown_until_ns = harness.now_ns + 60 * NS_PER_S;
    ttl.terms.ttl_ms = 10001;
    const struct resume_token tokens[] = {linger, cooldown};
    uint64_t before = 0;
    for (unsigned i = 0; i < 2; i++) {
        resume_token(0, i == 0 ? "a" : "b", &tokens[i], "");
        ok(has(0, "-BADARG the lease's ttl"), "a new RESUME of a longer %s is rejected",
           i == 0 ? "linger" : "cooldown");
        accepted_before(i + 1);
        resume_token(i + 1, i == 0 ? "a" : "b", &tokens[i], " WAIT 20000");
        const struct command *last = last_command();
        ok(last && last->request != before && last->terms.linger_ms == tokens[i].terms.linger_ms &&
               last->cooldown_until_ns == tokens[i].cooldown_until_ns,
           "an unanswered one is tried with the times of its lease");
        before = last ? last->request : 0;
    }
    resume(0, "c", " WAIT 20000");
    ok(has(0, "-BADARG WAIT"), "a new RESUME with a longer WAIT is rejected");
    accepted_before(3);
    resume_token(3, "d", &ttl, "");
    ok(has(3, "-BADARG the lease's ttl"), "and one of a longer ttl, also an unanswered one");
}

static void test_unanswered_resume_above_rule(void) {
    static char all[] = "*";
    static struct policy_rule rule = {
        .pattern = all, .line = 9, .terms = {.may = POLICY_MAY_DEFAULT, .max_ttl_ms = 5000}};

    restore_harness_begin();
    replace();
    serve();
    apply(&rule);
    resume(0, "e", "");
    ok(has(0, "-DENIED rule \"*\" (line 9) allows a ttl"),
       "a new RESUME above its rule's max_ttl is rejected");
    accepted_before(1);
    resume(1, "e", "");
    is_int(harness.sessions[1].state, SESSION_ACQUIRING, "an unanswered one waits on");
    ok(last_command() && last_command()->terms.ttl_ms == 10000, "with the ttl of its lease");
}

/* As without a restart. */
static void test_beyond_rule_leases(void) {
    static char all[] = "*";
    static struct policy_rule rule = {
        .pattern = all,
        .line = 9,
        .terms = {.may = POLICY_MAY_DEFAULT, .default_ttl_ms = 5000, .max_ttl_ms = 60000, .max_leases = 1}};
    static const uint8_t numbers[RULES_MAX + 1] = {1};

    restore_harness_begin();
    (void) hold(0, "ACQUIRE one");
    uint64_t id = wait_for(3, "ACQUIRE two WAIT -1 ASYNC");
    clear();
    replace();
    apply(&rule);
    registry_set_rules(&harness.front.registry, &rule, numbers);
    serve();
    pass_ms(0);
    ok(has(3, "QUOTA rule \"*\" (line 9) has max_leases = 1") && count_commands(COMMAND_CONTEND, id) == 0,
       "a request that waits with ASYNC beyond a smaller max_leases of its rule fails in its turn");
    ask(1, "ACQUIRE two WAIT -1");
    ok(has(1, "-QUOTA rule \"*\" (line 9) has max_leases = 1"),
       "a new request beyond max_leases is rejected");
    ask_again(1, "ACQUIRE two WAIT -1");
    pass_ms(0);
    ok(has(1, "-QUOTA rule \"*\" (line 9) has max_leases = 1"), "an unanswered one, too");
}

static void test_unanswered_above_rule(void) {
    static char all[] = "*";
    static struct policy_rule rule = {
        .pattern = all,
        .line = 9,
        .terms = {.may = POLICY_MAY_DEFAULT, .default_ttl_ms = 5000, .max_ttl_ms = 5000, .max_waiters = 1}};

    restore_harness_begin();
    (void) wait_for(0, "ACQUIRE job WAIT -1 ASYNC");
    (void) wait_for(1, "ACQUIRE job WAIT -1 ASYNC");
    replace();
    apply(&rule);
    clear();
    ask(2, "ACQUIRE job TTL 6000 WAIT -1");
    ok(has(2, "-DENIED rule"), "a new request above its rule's max_ttl is rejected");
    ask_again(2, "ACQUIRE job TTL 6000 WAIT -1");
    ok(!has(2, "-"), "an unanswered one waits on");
    ask(3, "ACQUIRE job WAIT -1");
    ok(has(3, "-QUOTA rule \"*\" (line 9) has max_waiters = 1"),
       "a new request beyond max_waiters is rejected");
    ask_again(3, "ACQUIRE job WAIT -1");
    ok(!has(3, "-"), "an unanswered one waits on");
    rule.terms.may = POLICY_MAY(POLICY_OBSERVE);
    ask(4, "ACQUIRE job WAIT -1");
    ok(has(4, "-DENIED rule \"*\" (line 9) does not allow 'acquire'"), "a new request without the right");
    ask_again(4, "ACQUIRE job WAIT -1");
    is_int(harness.sessions[4].state, SESSION_ACQUIRING, "an unanswered one waits on");
    resume(5, "third", "");
    ok(has(5, "-DENIED rule"), "a new RESUME without the right");
    accepted_before(5);
    resume(5, "third", "");
    is_int(harness.sessions[5].state, SESSION_ACQUIRING, "an unanswered one is tried");
}

int main(void) {
    test_order();
    test_order_of_one_instant();
    test_many_in_reverse();
    test_granted_unreported();
    test_wait_over_meanwhile();
    test_released_and_gone();
    test_unreported_cooldown();
    test_unreported_found_too_late();
    test_unreported_behind_another();
    test_unreported_beside_a_resume();
    test_unanswered_first();
    test_one_try();
    test_accepted();
    test_unanswered_beyond_limits();
    test_unanswered_behind_a_reply();
    test_unanswered_with_longer_times();
    test_unanswered_resume_with_longer_times();
    test_unanswered_resume_above_rule();
    test_beyond_rule_leases();
    test_unanswered_above_rule();
    return done_testing();
}
