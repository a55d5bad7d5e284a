/* Rights and limits of users at the commands: DENIED with its rule, QUOTA with its limit, LEASES of others,
 * WHOAMI. Sessions 0 and 1 are Alice's, 2 is Bob's, 3 root's. */

#include <assert.h>

#include "local/policy.h"
#include "local/rule-count.h"
#include "scripted-keeper.h"
#include "tap.h"

enum { ALICE = 1000, BOB = 1001, CAROL = 1002, AGENT = 900, REQUESTS = 512 };

static char deploy[] = "deploy/*", listed[] = "listed/*", all[] = "*", closed[] = "closed";
static uid_t bob[] = {BOB};
static struct policy_rule rules[] = {
    {.pattern = deploy,
     .line = 12,
     .users = {bob, 1},
     .terms = {.may = POLICY_MAY(POLICY_LEADER), .default_ttl_ms = 10000}},
    {.pattern = deploy,
     .line = 20,
     .terms = {.may = POLICY_MAY_DEFAULT,
               .default_ttl_ms = 10000,
               .max_ttl_ms = 5000,
               .max_leases = 1,
               .max_waiters = 1}},
    {.pattern = listed, .line = 30, .terms = {.may = POLICY_MAY(POLICY_LIST)}},
    {.pattern = closed, .line = 40},
    {.pattern = all,
     .line = 50,
     .users = {bob, 1},
     .terms = {.may = POLICY_MAY_DEFAULT | POLICY_MAY(POLICY_BLESS), .default_ttl_ms = 10000}},
};

static void set_user(unsigned session, uid_t uid) {
    const struct policy_peer peer = {.uid = uid, .gid = uid};

    local_harness_set_user(session, uid);
    session_set_peer(&harness.sessions[session], &peer);
}

static void begin_with_rules(unsigned n_rules) {
    const uint8_t numbers[RULES_MAX + 1] = {0};

    begin(REQUESTS);
    harness.front.registry.quota.owner = AGENT;
    harness.front.policy.rules = rules;
    harness.front.policy.n_rules = n_rules;
    registry_set_rules(&harness.front.registry, rules, numbers);
    for (unsigned i = 0; i < 4; i++)
        set_user(i, i == 3 ? 0 : i == 2 ? BOB : ALICE);
}

static void replies(unsigned session, const char *line, const char *reply, const char *what) {
    ask(session, line);
    if (!ok(begins(session, reply), "%s: %s", line, what))
        (void) printf("#   got %s", got(session));
}

static void test_denied(void) {
    begin_with_rules(5);
    replies(2, "ACQUIRE deploy/web",
            "-DENIED rule \"deploy/*\" (line 12) does not allow 'acquire' to user 1001: its may has to list "
            "the word\r\n",
            "the denial says rule, line, right and user");
    replies(2, "OBSERVE deploy/web", "-DENIED rule \"deploy/*\" (line 12) does not allow 'observe'",
            "another right of the same rule");
    replies(2, "RESUME deploy/web x", "-DENIED rule \"deploy/*\" (line 12) does not allow 'resume'",
            "before the token is read");
    is_int(keeper.n_commands, 0, "no command reached a keeper");
    set_user(4, BOB);
    ask(4, "LEADER deploy/web");
    is_int(last_command()->kind, COMMAND_QUERY, "LEADER is allowed there");
    replies(0, "ACQUIRE closed", "-DENIED rule \"closed\" (line 40) does not allow 'acquire' to user 1000",
            "an empty may allows nothing");
    ask_name(2, "\x01", 1);
    ok(begins(2, "-BADNAME"), "a wrong name is a wrong name");
    replies(0, "BLESS a",
            "-DENIED no rule allows 'bless' to user 1000, and without a rule only root and the agent's own "
            "user may",
            "without a rule the default decides");
    replies(2, "BLESS x", "-BADARG no node has this name", "the rule for all names grants it");
    (void) hold(3, "ACQUIRE closed ASYNC");
    ok(harness.front.registry.held == 1, "root may do everything");
    set_user(0, AGENT);
    replies(0, "ACQUIRE closed", "-BUSY", "so may the agent's own user");
    set_user(0, ALICE);
    replies(0, "RELEASE 1", ":0", "release, check and beat need no right");
    replies(0, "WHOAMI closed", "*32\r\n", "nor does WHOAMI");
}

static void test_max_ttl(void) {
    begin_with_rules(5);
    replies(0, "ACQUIRE deploy/a TTL 5001",
            "-DENIED rule \"deploy/*\" (line 20) allows TTL at most 5000 ms (max_ttl), not 5001",
            "a rule's max_ttl");
    replies(0, "ACQUIRE deploy/a LINGER 5001", "-DENIED rule \"deploy/*\" (line 20) allows LINGER at most",
            "linger too");
    replies(0, "ACQUIRE deploy/a COOLDOWN 5001", "-DENIED rule \"deploy/*\" (line 20) allows COOLDOWN",
            "and cooldown");
    replies(0, "ACQUIRE deploy/a TTL 60001", "-BADARG TTL wants milliseconds from 100 to 60000",
            "the agent's is reported as before");
    (void) hold(0, "ACQUIRE deploy/a ASYNC");
    is_int(last_command()->terms.ttl_ms, 5000, "the default is within the rule's max_ttl");
}

static void test_rule_limits(void) {
    begin_with_rules(5);
    (void) hold(3, "ACQUIRE deploy/root ASYNC");
    uint64_t held = hold(0, "ACQUIRE deploy/a ASYNC");
    replies(1, "ACQUIRE deploy/b",
            "-QUOTA rule \"deploy/*\" (line 20) has max_leases = 1, and user 1000 has as many",
            "one lease more");
    ask(1, "ACQUIRE deploy/root WAIT -1 ASYNC");
    ok(begins(1, "*2\r\n$7\r\nwaiting"), "a waiter is another count");
    replies(0, "ACQUIRE deploy/a WAIT 100 ASYNC",
            "-QUOTA rule \"deploy/*\" (line 20) has max_waiters = 1, and user 1000 has as many",
            "one waiter more");
    replies(0, "ACQUIRE deploy/a", "-BUSY held by", "a request that does not wait is BUSY, not QUOTA");
    is_int(quota_rule_use(&harness.front.registry.quota, ALICE, 2).leases, 1, "one lease counts");
    is_int(quota_rule_use(&harness.front.registry.quota, ALICE, 2).waiters, 1, "and one waiter");
    (void) held;
}

/* Requests that are held back for a moment are neither leases nor waiters. */
static void test_held_back(void) {
    struct registry *registry = &harness.front.registry;

    begin_with_rules(5);
    rules[1].terms.max_leases = 9;
    registry->admission.session_max = 1;
    (void) hold(3, "ACQUIRE deploy/root ASYNC");
    ask(0, "ACQUIRE deploy/a ASYNC");
    uint64_t contender = last_command()->request;
    ask(0, "ACQUIRE deploy/b ASYNC");
    ask(0, "ACQUIRE deploy/c ASYNC");
    ask(1, "ACQUIRE deploy/root WAIT -1 ASYNC");
    ok(begins(1, "*2\r\n$7\r\nwaiting"), "requests that are held back leave a user its waiters");
    replies(1, "ACQUIRE deploy/root WAIT -1 ASYNC", "-QUOTA rule \"deploy/*\" (line 20) has max_waiters = 1",
            "one waiter more");
    report(contender, REPORT_GRANTED);
    is_int(quota_rule_use(&registry->quota, ALICE, 2).leases, 2, "admitted, one counts as a lease");
    disconnect_end(&harness.sessions[0], harness.now_ns);
    is_int(quota_rule_use(&registry->quota, ALICE, 2).waiters, 1, "and withdrawn, the other as nothing");
    rules[1].terms.max_leases = 1;
}

/* Of the session's first request. */
static uint64_t id_of(unsigned session) {
    return registry_id(&harness.front.registry, list_entry(harness.sessions[session].requester.requests.next,
                                                           struct request, session_link));
}

static void release(unsigned session) {
    char line[64];

    (void) snprintf(line, sizeof(line), "RELEASE %llu", (unsigned long long) id_of(session));
    ask(session, line);
}

/* A waiter whose turn comes while its user has max_leases. */
static void test_turn_without_room(void) {
    begin_with_rules(5);
    uint64_t roots = hold(3, "ACQUIRE deploy/root ASYNC");
    (void) hold(0, "ACQUIRE deploy/a ASYNC");
    ask(1, "ACQUIRE deploy/root WAIT -1");
    unsigned before = keeper.n_commands;
    release(3);
    report(roots, REPORT_RELEASED);
    registry_tick(&harness.front.registry, harness.now_ns);
    ok(begins(1, "-QUOTA rule \"deploy/*\" (line 20) has max_leases = 1, and user 1000 has as many"),
       "its request fails when its turn comes");
    is_int(keeper.n_commands, before + 1, "and never reaches a keeper");
    is_int(harness.front.registry.names.table.pool.taken, 1, "its name is free");
}

/* The same, and another lease of its user ends in the same turn of the front. */
static void test_turn_with_room_again(void) {
    begin_with_rules(5);
    uint64_t roots = hold(3, "ACQUIRE deploy/root ASYNC");
    uint64_t own = hold(0, "ACQUIRE deploy/a ASYNC");
    ask(1, "ACQUIRE deploy/root WAIT -1");
    release(3);
    report(roots, REPORT_RELEASED);
    release(0);
    report(own, REPORT_RELEASED);
    registry_tick(&harness.front.registry, harness.now_ns);
    is_string(got(1), "", "a request whose user has room again is not rejected");
    is_int(last_command()->kind, COMMAND_CONTEND, "it contends");
}

/* The same, and an older request, which a former process left unanswered, is put before it. */
static void test_turn_before_refused(void) {
    begin_with_rules(5);
    uint64_t roots = hold(3, "ACQUIRE deploy/root ASYNC");
    uint64_t own = hold(0, "ACQUIRE deploy/a ASYNC");
    harness.now_ns += NS_PER_MS;
    ask(1, "ACQUIRE deploy/root WAIT -1");
    release(3);
    report(roots, REPORT_RELEASED);
    harness.sessions[3].asked_ns = harness.now_ns - NS_PER_MS;
    ask(3, "ACQUIRE deploy/root WAIT -1");
    is_int(last_command()->kind, COMMAND_CONTEND, "rule 15: a request before a refused one contends");
    uint64_t older = last_command()->request;
    registry_tick(&harness.front.registry, harness.now_ns);
    is_string(got(1), "", "and the refused one waits behind it");
    release(0);
    report(own, REPORT_RELEASED);
    report(older, REPORT_GRANTED);
    release(3);
    report(older, REPORT_RELEASED);
    ok(last_command()->kind == COMMAND_CONTEND && last_command()->request != older, "for its next turn");
}

/* The same with WAIT 0, whose bound of three node time-outs counts on. */
static void test_bound_of_refused(void) {
    begin_with_rules(5);
    ask(3, "ACQUIRE deploy/root WAIT -1");
    uint64_t own = hold(0, "ACQUIRE deploy/a ASYNC");
    ask(1, "ACQUIRE deploy/root WAIT 0");
    harness.now_ns += 200 * NS_PER_MS;
    disconnect_end(&harness.sessions[3], harness.now_ns);
    release(0);
    report(own, REPORT_RELEASED);
    registry_tick(&harness.front.registry, harness.now_ns);
    is_int(last_command()->kind, COMMAND_CONTEND, "it contends, since its user has room again");
    harness.now_ns += 99 * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    is_string(got(1), "", "for the rest of its bound");
    harness.now_ns += NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    ok(begins(1, "-NOQUORUM"), "then it is answered");
}

static void on_secret(void *userdata, uint8_t secret[SECRET_BYTES]) {
    (void) userdata;
    memset(secret, 's', SECRET_BYTES);
}

/* Alice holds the name, which can be handed off, since she waited for it behind root. */
static uint64_t hold_from_queue(void) {
    begin_with_rules(5);
    harness.front.registry.sink.secret = on_secret;
    uint64_t roots = hold(3, "ACQUIRE deploy/root ASYNC");
    ask(0, "ACQUIRE deploy/root WAIT -1 ASYNC");
    release(3);
    report(roots, REPORT_RELEASED);
    uint64_t own = last_command()->request;
    const struct report granted = {.kind = REPORT_GRANTED,
                                   .request = own,
                                   .deadline_ns = harness.now_ns + 4900 * NS_PER_MS,
                                   .text = "aaaaaaaaaaaaaaaaaaaa",
                                   .text_length = SECRET_BYTES};
    registry_report(&harness.front.registry, &granted, harness.now_ns);
    return own;
}

/* The rule allows each user one lease. */
static void test_hand_off_under_rule(void) {
    (void) hold_from_queue();
    ask(1, "ACQUIRE deploy/root WAIT -1");
    unsigned before = keeper.n_commands;
    release(0);
    is_int(keeper.n_commands, before, "a lease is handed off to its own user, who has no other one then");
    ok(strstr(got(1), "deploy/root"), "who gets it");
    is_int(quota_rule_use(&harness.front.registry.quota, ALICE, 2).leases, 1, "and has one");

    uint64_t own = hold_from_queue();
    set_user(4, CAROL);
    set_user(5, CAROL);
    (void) hold(4, "ACQUIRE deploy/carol ASYNC");
    ask(5, "ACQUIRE deploy/root WAIT -1");
    release(0);
    is_int(last_command()->kind, COMMAND_RELEASE, "it is not handed off to a user who has one");
    report(own, REPORT_RELEASED);
    registry_tick(&harness.front.registry, harness.now_ns);
    ok(begins(5, "-QUOTA rule \"deploy/*\" (line 20) has max_leases = 1,"),
       "whose request fails when its turn comes");
}

static unsigned blessed;

static void on_bless(void *userdata, unsigned node) {
    (void) userdata;
    blessed |= 1u << node;
}

static void test_metrics(void) {
    const unsigned may = rules[4].terms.may;

    begin_with_rules(5);
    ask(2, "METRICS");
    local_harness_counted();
    ok(begins(2, "$"), "METRICS needs a right that a rule gives");
    rules[4].terms.may = POLICY_MAY(POLICY_ACQUIRE);
    replies(2, "METRICS", "-DENIED rule \"*\" (line 50) does not allow 'metrics' to user",
            "or does not give");
    rules[4].terms.may = may;
}

static void test_bless(void) {
    begin_with_rules(5);
    harness.front.sink.bless = on_bless;
    harness.front.identity.n_nodes = 2;
    harness.front.identity.node_names[1] = "b";
    replies(3, "BLESS c", "-BADARG no node has this name; NODES lists them\r\n", "an unknown node");
    replies(3, "BLESS b", "+OK\r\n", "root blesses a node");
    is_int(blessed, 2, "the node of this name");
    replies(2, "BLESS a", "+OK\r\n", "a user whom a rule gives the right, too");
    is_int(blessed, 3, "its node");
}

/* Ends the session, and another begins in its account, of this user. */
static void follow(unsigned session, uid_t uid) {
    uint8_t account = harness.sessions[session].account;

    disconnect_end(&harness.sessions[session], harness.now_ns);
    session_init(&harness.sessions[session], &harness.front, session + 1, 100, uid);
    assert(harness.sessions[session].account == account);
}

/* In the front's time: for requests, and for pushes. */
static void test_debt(void) {
    struct front_state *front = &harness.front;

    begin_with_rules(0);
    follow(2, CAROL);
    uint8_t account = harness.sessions[2].account;
    front->observers.paused_until_ns[account] = harness.now_ns + NS_PER_S;
    session_note_work(&harness.sessions[0], WORK_SHARE_LEASE, harness.now_ns);
    session_note_work(&harness.sessions[2], 1000, harness.now_ns);
    follow(2, CAROL);
    ok(work_share_due_ns(&front->work, account, harness.now_ns) > harness.now_ns &&
           front->observers.paused_until_ns[account] > harness.now_ns,
       "a user that connects again owes what it owed");
    follow(2, BOB);
    ok(work_share_due_ns(&front->work, account, harness.now_ns) == 0 &&
           front->observers.paused_until_ns[account] == 0,
       "another one in the same account owes nothing");
}

/* The memory for names and data is used up but for one place, which the data of the request takes. */
static void test_no_room_for_a_name(void) {
    static char text[SHARED_STRING_BYTES_MAX];
    struct shared_string_pool *texts = &harness.front.registry.texts;
    struct shared_string *last = NULL, *string;

    begin_with_rules(0);
    while ((string = shared_string_new(texts, text, sizeof(text), NULL, 0)))
        last = string;
    for (size_t length = sizeof(text) / 2; length > 0; length /= 2)
        while (shared_string_new(texts, text, length, NULL, 0))
            ;
    (void) shared_string_unref(texts, last);
    ask(0, "ACQUIRE roomless ASYNC");
    is_string(got(0), "-QUOTA the agent has no room for another name or its data\r\n",
              "without room for the name an ASYNC request gets the error, not `waiting`");
}

/* For twenty names from this number on; how many requests are accepted. */
static unsigned ask_for_leases(unsigned session, unsigned first, const char *options) {
    unsigned accepted = 0;
    char line[64];

    for (unsigned i = first; i < first + 20; i++) {
        (void) snprintf(line, sizeof(line), "ACQUIRE n%u%s ASYNC", i, options);
        ask(session, line);
        accepted += begins(session, "*2\r\n$7\r\nwaiting");
    }
    return accepted;
}

static void test_quota(void) {
    unsigned granted;

    begin_with_rules(0);
    harness.front.registry.quota.max[QUOTA_LEASES] = 30;
    harness.front.registry.quota.max[QUOTA_EXTENSIONS] = 1600;
    granted = ask_for_leases(0, 0, " TTL 2000");
    is_int(granted, 10, "leases of 2 s need 80 extensions a minute: ten of them are half of 1,600");
    ok(begins(0,
              "-QUOTA max_extensions: user 1000 has 800 of at most 800, half of what other users leave of "
              "1600, and this needs 80 more"),
       "the refusal has the limit, the use and what the request needs");
    harness.front.registry.quota.max[QUOTA_EXTENSIONS] = 160000;
    granted += ask_for_leases(1, 20, "");
    is_int(granted, 15, "and all sessions of a user share half of the leases");
    ok(begins(1, "-QUOTA max_leases: user 1000 has 15 of at most 15, half of what other users leave of 30"),
       "which the refusal says");
    ask(2, "ACQUIRE bobs TTL 2000 ASYNC");
    ok(begins(2, "*2\r\n$7\r\nwaiting"), "another user still gets its own");
    is_int((int64_t) quota_find(&harness.front.registry.quota, BOB)->used[QUOTA_EXTENSIONS], 80,
           "and pays for it");
    disconnect_end(&harness.sessions[0], harness.now_ns);
    disconnect_end(&harness.sessions[1], harness.now_ns);
    is_int((int64_t) quota_find(&harness.front.registry.quota, ALICE)->used[QUOTA_LEASES], 15,
           "what the keeper has not confirmed counts on");
    const uint64_t before = quota_find(&harness.front.registry.quota, ALICE)->used[QUOTA_EXTENSIONS];
    for (unsigned i = 0; i < 10; i++)
        report(keeper.commands[i].request, REPORT_RELEASED);
    is_int((int64_t) quota_find(&harness.front.registry.quota, ALICE)->used[QUOTA_LEASES], 5,
           "until it is released");
    is_int((int64_t) (before - quota_find(&harness.front.registry.quota, ALICE)->used[QUOTA_EXTENSIONS]),
           800, "with its extensions");
}

static void test_listing(void) {
    begin_with_rules(5);
    (void) hold(0, "ACQUIRE alices ASYNC");
    (void) hold(0, "ACQUIRE deploy/alices ASYNC");
    (void) hold(3, "ACQUIRE listed/roots ASYNC");
    ask(1, "LEASES");
    ok(begins(1, "*3\r\n") && strstr(got(1), "alices") && strstr(got(1), "listed/roots"),
       "a user sees its own leases, also of another session, and those that a rule shows");
    ask(2, "LEASES");
    ok(begins(2, "*1\r\n") && strstr(got(2), "listed/roots") && !strstr(got(2), "alices"),
       "another user sees only the latter");
    ask(3, "LEASES");
    ok(begins(3, "*3\r\n"), "root sees all");
    ask(2, "LEASES LATEST 64");
    ok(begins(2, "*1\r\n") && strstr(got(2), "listed/roots"), "the latest grants are shown alike");
    ask(1, "LEASES LATEST 64");
    ok(begins(1, "*3\r\n"), "own ones, too");
}

/* A user with the right to acquire a name, and without the right to its leader, does not see its holder. */
static void test_hidden_holder(void) {
    static const char holder[] = "held by web1:9a84f0b9:11676, 4947 ms left";
    const struct report busy = {
        .kind = REPORT_FAILED, .failure = FAILURE_BUSY, .text = holder, .text_length = sizeof(holder) - 1};

    begin_with_rules(0);
    (void) hold(0, "ACQUIRE job ASYNC");
    replies(2, "ACQUIRE job", "-BUSY held by process 100 of this host", "with the right 'leader'");
    harness.front.policy.terms.may = POLICY_MAY(POLICY_ACQUIRE);
    replies(2, "ACQUIRE job", "-BUSY held; the right 'leader' shows the holder\r\n",
            "without the right 'leader' the holder is hidden");
    ask(2, "ACQUIRE job ASYNC WAIT 100");
    harness.now_ns += 150 * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    ok(strstr(got(2), "TIMEOUT waited 150 ms; held; the right"),
       "a timed-out request without the right does not see the holder");
    replies(1, "ACQUIRE job", "-BUSY held by process 100 of this host", "the holder's user sees it");
    replies(3, "ACQUIRE job", "-BUSY held by process 100 of this host", "root sees the holder");
    ask(2, "ACQUIRE other");
    struct report report_of_other = busy;
    report_of_other.request = last_command()->request;
    registry_report(&harness.front.registry, &report_of_other, harness.now_ns);
    ok(begins(2, "-BUSY held; the right"), "without the right a holder of another host is hidden");
    ask(2, "HISTORY other");
    ok(strstr(got(2), "failed") && !strstr(got(2), "web1"),
       "without the right the history hides the holder");
    ask(3, "HISTORY other");
    ok(strstr(got(3), "web1"), "root sees the holder in the history");
    ask(2, "LEADER job");
    ok(begins(2, "-DENIED"), "LEADER is denied");
    ask(2, "CHECK 1048576");
    is_string(got(2), ":0\r\n", "an id of another user's lease is an unknown id");
}

/* As the front does it. */
static void reload(const struct policy_rule *later, unsigned n_rules, unsigned most) {
    const struct policy before = harness.front.policy;
    static struct policy_rule two[2][RULES_MAX];
    struct policy_rule *changed = before.rules == two[0] ? two[1] : two[0];
    uint8_t numbers[RULES_MAX + 1] = {0};

    for (unsigned i = 0; i < n_rules; i++) {
        changed[i] = later[i];
        changed[i].terms.max_leases = most;
    }
    harness.front.policy.rules = changed;
    harness.front.policy.n_rules = n_rules;
    for (unsigned i = 0; i <= before.n_rules; i++)
        numbers[i] = (uint8_t) policy_number_after(&before, i, &harness.front.policy);
    registry_set_rules(&harness.front.registry, changed, numbers);
    for (unsigned i = 0; i < 4; i++)
        set_user(i, harness.sessions[i].uid);
    rule_count_again(&harness.front);
}

static struct quota_rule_use use_of(uint8_t rule) {
    return quota_rule_use(&harness.front.registry.quota, ALICE, rule);
}

/* A reload keeps the counts of rules that are still there. */
static void test_reload(void) {
    begin_with_rules(5);
    (void) hold(0, "ACQUIRE deploy/a ASYNC");
    reload(&rules[1], 1, 1);
    replies(1, "ACQUIRE deploy/b", "-QUOTA rule \"deploy/*\" (line 20) has max_leases = 1",
            "a lease of before counts");
    ask(2, "ACQUIRE deploy/b ASYNC");
    ok(begins(2, "*2\r\n$7\r\nwaiting"), "the rule that denied it is gone");
    disconnect_end(&harness.sessions[0], harness.now_ns);
    is_int(use_of(1).leases, 0, "and is no longer counted after");
}

/* The users of a rule have changed, or another rule is before it: what is there counts under the rule that
 * is for it now. */
static void test_reload_of_users(void) {
    static uid_t both[] = {ALICE, BOB};
    static char deploy_a[] = "deploy/a";
    struct policy_rule named[] = {rules[1], rules[4]};
    struct policy_rule more[] = {rules[2], rules[1], rules[1]};

    named[0].users = (struct policy_ids){both, 2};
    more[1].pattern = deploy_a;
    begin_with_rules(5);
    (void) hold(0, "ACQUIRE deploy/a ASYNC");
    ask(1, "ACQUIRE deploy/a WAIT -1 ASYNC");
    reload(named, 2, 1);
    ok(use_of(1).leases == 1 && use_of(1).waiters == 1, "a rule with other users: lease and waiter count");
    replies(1, "ACQUIRE deploy/b", "-QUOTA rule \"deploy/*\" (line 20) has max_leases = 1",
            "so no user gets more than the rule allows");
    reload(more, 3, 1);
    ok(use_of(2).leases == 1 && use_of(2).waiters == 1 && use_of(3).leases == 0,
       "they count under the first rule that is for the name");
    reload(&rules[2], 1, 1);
    ok(use_of(1).leases == 0 && use_of(1).waiters == 0, "and under none when no rule is for the name");
    reload(named, 2, 1);
    is_int(use_of(1).leases, 1, "under no rule before, they count under a new one");
    disconnect_end(&harness.sessions[1], harness.now_ns);
    disconnect_end(&harness.sessions[0], harness.now_ns);
    ok(use_of(1).leases == 0 && use_of(1).waiters == 0, "with the end of the session they count no more");
}

static void test_reload_of_groups(void) {
    static gid_t staff[] = {ALICE};
    struct policy_rule by_group = rules[1];

    by_group.groups = (struct policy_ids){staff, 1};
    begin_with_rules(0);
    (void) hold(0, "ACQUIRE deploy/a ASYNC");
    reload(&by_group, 1, 1);
    is_int(use_of(1).leases, 1, "a new rule for a group counts the leases of its sessions");
}

/* Of a lease without a session the agent does not know groups or unit. */
static void test_reload_without_session(void) {
    static gid_t staff[] = {CAROL};
    struct policy_rule by_group[] = {rules[1], rules[2]};
    struct policy_rule again[] = {rules[2], by_group[0], rules[1]};
    const struct policy_peer alice = {.uid = ALICE, .gid = CAROL};

    by_group[0].groups = again[1].groups = (struct policy_ids){staff, 1};
    begin_with_rules(0);
    reload(by_group, 2, 1);
    session_set_peer(&harness.sessions[0], &alice);
    (void) hold(0, "ACQUIRE deploy/a ASYNC LINGER 5000");
    is_int(use_of(1).leases, 1, "a lease under a rule for a group");
    disconnect_end(&harness.sessions[0], harness.now_ns);
    session_init(&harness.sessions[0], &harness.front, 1, 100, ALICE);
    reload(again, 3, 1);
    is_int(use_of(2).leases, 1, "a lingering lease counts under the same rule as before");
    reload(&rules[2], 1, 1);
    reload(&rules[1], 1, 1);
    is_int(use_of(1).leases, 1, "under one for its user when that is gone");
}

static void test_whoami(void) {
    begin_with_rules(5);
    harness.sessions[2].unit = "web.service";
    ask(2, "HELLO 3");
    ask(2, "WHOAMI deploy/web");
    is_string(
        got(2),
        "%16\r\n$3\r\nuid\r\n:1001\r\n$3\r\ngid\r\n:1001\r\n$3\r\npid\r\n:102\r\n$4\r\nunit\r\n$11\r\n"
        "web.service\r\n$4\r\nname\r\n$10\r\ndeploy/web\r\n$4\r\nrule\r\n$8\r\ndeploy/"
        "*\r\n$4\r\nline\r\n:12\r\n"
        "$3\r\nmay\r\n*1\r\n$6\r\nleader\r\n$11\r\ndefault_ttl\r\n:10000\r\n$7\r\nmax_ttl\r\n:60000\r\n"
        "$8\r\nmax_hold\r\n:0\r\n$10\r\nmax_leases\r\n:0\r\n$6\r\nleases\r\n:0\r\n$11\r\nmax_waiters\r\n:"
        "0\r\n"
        "$7\r\nwaiters\r\n:0\r\n$5\r\nquota\r\n%8\r\n"
        "$12\r\nmax_sessions\r\n%2\r\n$3\r\nuse\r\n:1\r\n$5\r\nlimit\r\n:-1\r\n"
        "$10\r\nmax_leases\r\n%2\r\n$3\r\nuse\r\n:0\r\n$5\r\nlimit\r\n:-1\r\n"
        "$14\r\nmax_extensions\r\n%2\r\n$3\r\nuse\r\n:0\r\n$5\r\nlimit\r\n:-1\r\n"
        "$18\r\nmax_observed_names\r\n%2\r\n$3\r\nuse\r\n:0\r\n$5\r\nlimit\r\n:-1\r\n"
        "$16\r\nmax_observations\r\n%2\r\n$3\r\nuse\r\n:0\r\n$5\r\nlimit\r\n:-1\r\n"
        "$18\r\nmax_buffered_bytes\r\n%2\r\n$3\r\nuse\r\n:0\r\n$5\r\nlimit\r\n:-1\r\n"
        "$11\r\ndescriptors\r\n%2\r\n$3\r\nuse\r\n:3\r\n$5\r\nlimit\r\n:-1\r\n"
        "$8\r\nrequests\r\n%2\r\n$3\r\nuse\r\n:0\r\n$5\r\nlimit\r\n:-1\r\n",
        "WHOAMI has the peer, its rule with the rights, and the quotas");
    ask(0, "WHOAMI");
    ok(strstr(got(0), "$4\r\nrule\r\n$0\r\n") && strstr(got(0), "*5\r\n$7\r\nacquire\r\n"),
       "without a name: what holds for actions without one");
    ask(3, "WHOAMI closed");
    ok(strstr(got(3), "$3\r\nmay\r\n*8\r\n"), "root may do all");
}

/* A rule that may be for the peer must not fall through to a later rule that allows more. */
static void test_unknown_peer(void) {
    static char unit[] = "backup.service", backup[] = "backup";
    static char *units[] = {unit};
    static const struct policy_rule by_unit[] = {
        {.pattern = backup,
         .line = 3,
         .units = units,
         .n_units = 1,
         .terms = {.may = POLICY_MAY_DEFAULT, .default_ttl_ms = 10000}},
        {.pattern = all, .line = 4, .terms = {.may = POLICY_MAY_DEFAULT, .default_ttl_ms = 10000}},
    };
    struct policy_peer peer = {.uid = ALICE, .gid = ALICE, .unit_unknown = true};

    begin_with_rules(0);
    harness.front.policy.rules = harness.front.registry.quota.rules = by_unit;
    harness.front.policy.n_rules = 2;
    session_set_peer(&harness.sessions[0], &peer);
    replies(0, "ACQUIRE backup", "-DENIED rule \"backup\" (line 3) may be for this process,",
            "a process whose unit can't be read is denied a rule's names");
    ask(0, "ACQUIRE other");
    ok(last_command()->kind == COMMAND_CONTEND, "and gets names without such a rule");
    peer.unit_unknown = false;
    peer.uid = BOB;
    session_set_peer(&harness.sessions[2], &peer);
    ask(2, "ACQUIRE backup");
    ok(last_command()->head_length == strlen("backup"), "a process of no unit gets them by the next rule");
    set_user(3, 0);
    peer.unit_unknown = true;
    peer.uid = 0;
    session_set_peer(&harness.sessions[3], &peer);
    ok(session_may(&harness.sessions[3], POLICY_ACQUIRE, "backup", 6), "root may everything");
}

static const char *status_of(unsigned session) {
    ask(session, "STATUS");
    local_harness_counted();
    return got(session);
}

static void test_status(void) {
    begin_with_rules(5);
    harness.front.registry.quota.max[QUOTA_LEASES] = 100;
    (void) hold(0, "ACQUIRE alices ASYNC");
    (void) hold(3, "ACQUIRE roots ASYNC");
    ok(strstr(status_of(1), "$10\r\nmax_leases\r\n*8\r\n$3\r\nuse\r\n:1\r\n$5\r\nlimit\r\n:49\r\n"
                            "$3\r\nall\r\n:2\r\n$3\r\nmax\r\n:100\r\n"),
       "STATUS: use and limit of the user, and of all");
    ok(!strstr(got(1), "users"), "not what each user has");
    ok(strstr(status_of(3), "$5\r\nusers\r\n*") &&
           strstr(got(3), "$3\r\nuid\r\n:1000\r\n$12\r\nmax_sessions\r\n:") &&
           strstr(got(3), "$10\r\nmax_leases\r\n:1\r\n"),
       "which root sees");
    harness.front.policy.terms.may |= POLICY_MAY(POLICY_LIST);
    ok(strstr(status_of(1), "users") && !strstr(status_of(2), "users"),
       "and who may list, by the rule of the empty name");
}

int main(void) {
    test_denied();
    test_max_ttl();
    test_rule_limits();
    test_held_back();
    test_turn_without_room();
    test_turn_with_room_again();
    test_turn_before_refused();
    test_bound_of_refused();
    test_hand_off_under_rule();
    test_metrics();
    test_bless();
    test_debt();
    test_no_room_for_a_name();
    test_quota();
    test_listing();
    test_hidden_holder();
    test_reload();
    test_reload_of_users();
    test_reload_of_groups();
    test_reload_without_session();
    test_whoami();
    test_unknown_peer();
    test_status();
    return done_testing();
}
