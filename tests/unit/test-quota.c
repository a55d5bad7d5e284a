/* Quotas: what a user may take, what the next one finds, and whose use counts where. */

#include "local/quota.h"

#include <string.h>

#include "local/policy.h"
#include "tap.h"

enum { ALICE = 1000, BOB = 1001, CAROL = 1002, AGENT = 900 };

static struct quota quota;
static struct quota_rule_use memory[QUOTA_ACCOUNTS][RULES_MAX + 1];

static void begin(uint64_t max) {
    memset(memory, 0, sizeof(memory));
    quota_init(&quota, memory);
    quota.owner = AGENT;
    for (unsigned kind = 0; kind < QUOTA_KINDS; kind++)
        quota.max[kind] = max;
}

/* Takes one at a time until it may not. */
static unsigned take_all(uid_t uid, enum quota_kind kind, uint64_t amount) {
    unsigned taken = 0;

    for (; quota_may(&quota, uid, kind, amount); taken++)
        (void) quota_charge(&quota, uid, kind, amount);
    return taken;
}

static void test_shares(void) {
    begin(100);
    is_int((int64_t) quota_limit(&quota, ALICE, QUOTA_LEASES), 50, "a user alone may have half");
    is_int(take_all(ALICE, QUOTA_LEASES, 1), 50, "and gets it");
    is_int((int64_t) quota_limit(&quota, BOB, QUOTA_LEASES), 25, "the next one half of the rest");
    is_int(take_all(BOB, QUOTA_LEASES, 1), 25, "and gets it");
    is_int(take_all(CAROL, QUOTA_LEASES, 1), 12, "and so on");
    is_int(take_all(ALICE, QUOTA_LEASES, 1), 0, "the first one gets no more");
    is_int((int64_t) quota_limit(&quota, ALICE, QUOTA_LEASES), 31, "and has more than its share since");
    is_int(take_all(ALICE, QUOTA_NAMES, 1), 50, "another kind has its own limit");
    quota_refund(&quota, quota_charge(&quota, CAROL, QUOTA_LEASES, 0), QUOTA_LEASES, 12);
    is_int(take_all(BOB, QUOTA_LEASES, 1), 0,
           "a share that another user gives back is shared again: Bob has his half");
    is_int((int64_t) quota.used[QUOTA_LEASES], 75, "use in all");
}

static void test_requests(void) {
    begin(10000);
    (void) quota_charge(&quota, BOB, QUOTA_REQUESTS, 9900);
    is_int((int64_t) quota_limit(&quota, ALICE, QUOTA_REQUESTS), 256 + 32,
           "first attempts and queries of a user");
    is_int((int64_t) quota_limit(&quota, AGENT, QUOTA_REQUESTS), 256 + 32, "those of root wait, too");
}

static void test_fullest(void) {
    begin(100);
    is_int(quota_fullest_permille(&quota, QUOTA_LEASES), 0, "no user has anything");
    (void) quota_charge(&quota, AGENT, QUOTA_LEASES, 20);
    is_int(quota_fullest_permille(&quota, QUOTA_LEASES), 0, "a user without limits does not count");
    (void) quota_charge(&quota, ALICE, QUOTA_LEASES, 10);
    is_int(quota_fullest_permille(&quota, QUOTA_LEASES), 250, "10 of the 40 that Alice may have");
    (void) quota_charge(&quota, BOB, QUOTA_LEASES, 30);
    is_int(quota_fullest_permille(&quota, QUOTA_LEASES), 857, "30 of the 35 that Bob may have since");
    (void) quota_charge(&quota, BOB, QUOTA_LEASES, 10);
    is_int(quota_fullest_permille(&quota, QUOTA_LEASES), 1000, "a user above its limit counts as full");
    quota.max[QUOTA_LEASES] = QUOTA_UNLIMITED;
    is_int(quota_fullest_permille(&quota, QUOTA_LEASES), 0, "no limit is reached where there is none");
    begin(100);
    for (unsigned i = 0; i < QUOTA_ACCOUNTS; i++)
        (void) quota_charge(&quota, 5000 + i, QUOTA_NAMES, 1);
    is_int(quota_charge(&quota, CAROL, QUOTA_LEASES, 40), 0, "a user without an account of its own");
    is_int(quota_fullest_permille(&quota, QUOTA_LEASES), 800, "counts, too: it may have 50");
}

static void test_extensions(void) {
    static const struct {
        uint32_t ttl_ms, extensions;
    } cases[] = {{100, 6400}, {299, 2141}, {300, 1067}, {999, 321},  {1000, 160},  {2000, 80},
                 {5000, 32},  {10000, 16}, {159999, 2}, {160000, 1}, {86400000, 1}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ok(quota_extensions(cases[i].ttl_ms) == cases[i].extensions,
           "a lease with a ttl of %u ms: %u extensions a minute", cases[i].ttl_ms, cases[i].extensions);
    begin(1000000);
    is_int(take_all(ALICE, QUOTA_EXTENSIONS, quota_extensions(10000)), 31250, "leases of 10 s");
    begin(1000000);
    is_int(take_all(ALICE, QUOTA_EXTENSIONS, quota_extensions(2000)), 6250, "leases of 2 s");
    is_int(take_all(BOB, QUOTA_EXTENSIONS, quota_extensions(10000)), 15625, "another user's beside them");
}

static void test_trusted(void) {
    begin(100);
    is_int(take_all(ALICE, QUOTA_LEASES, 1), 50, "a user has half");
    is_int((int64_t) quota_limit(&quota, 0, QUOTA_LEASES), 50, "root may have all that is left");
    (void) quota_charge(&quota, 0, QUOTA_LEASES, 70);
    ok(quota_may(&quota, 0, QUOTA_LEASES, 1) && quota_may(&quota, AGENT, QUOTA_LEASES, 1),
       "and is not refused, nor is the agent's user");
    is_int(take_all(BOB, QUOTA_LEASES, 1), 0, "nothing is left for others");
    begin(QUOTA_UNLIMITED);
    ok(quota_may(&quota, ALICE, QUOTA_NAMES, UINT32_MAX), "no limit: no refusal");
    ok(quota_limit(&quota, ALICE, QUOTA_NAMES) == QUOTA_UNLIMITED, "and none is shown");
}

/* A user with many uids is many users, and leaves some sessions nevertheless. */
static void test_kept_sessions(void) {
    static const struct {
        uint64_t max;
        unsigned taken; /* one more would be all that is left, of which a user gets half */
    } cases[] = {{1, 0}, {9, 8}, {10, 8}, {100, 89}, {159, 143}, {160, 143}, {200, 183}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uid_t uid = 100000;
        begin(cases[i].max);
        for (; quota_may(&quota, uid, QUOTA_SESSIONS, 1); uid++)
            (void) quota_charge(&quota, uid, QUOTA_SESSIONS, 1);
        is_int(uid - 100000, cases[i].taken, "sessions of as many uids");
    }
    begin(10000);
    is_int((int64_t) quota_limit(&quota, ALICE, QUOTA_SESSIONS), 4992, "16 of 10,000 are kept");
    begin(100);
    is_int((int64_t) quota_limit(&quota, ALICE, QUOTA_SESSIONS), 45, "a user sees half of what others get");
    is_int(take_all(ALICE, QUOTA_SESSIONS, 1), 45, "and gets it");
    is_int((int64_t) quota_limit(&quota, AGENT, QUOTA_SESSIONS), 55, "the agent's user all that is left");
    is_int(quota_fullest_permille(&quota, QUOTA_SESSIONS), 1000, "Alice has all that she may");
}

static void test_accounts(void) {
    unsigned seen = 0;

    begin(1000);
    uint8_t alice = quota_charge(&quota, ALICE, QUOTA_SESSIONS, 1);
    is_int(quota_charge(&quota, ALICE, QUOTA_LEASES, 3), alice, "a user has one account");
    ok(quota_charge(&quota, BOB, QUOTA_LEASES, 1) != alice, "and another user another");
    quota_refund(&quota, alice, QUOTA_SESSIONS, 1);
    is_int((int64_t) quota_find(&quota, ALICE)->used[QUOTA_LEASES], 3, "it stays while something is in use");
    quota_refund(&quota, alice, QUOTA_LEASES, 3);
    ok(!quota_at(&quota, alice), "then it is gone");
    for (unsigned i = 0; i < QUOTA_ACCOUNTS; i++)
        seen += quota_at(&quota, i) != NULL;
    is_int(seen, 1, "a listing has those that are left");
}

/* More users than accounts: further ones share one, and what they give back is counted there. */
static void test_crowd(void) {
    uint8_t accounts[600];

    begin(100000);
    for (unsigned i = 0; i < 600; i++)
        accounts[i] = quota_charge(&quota, 5000 + 256 * i, QUOTA_SESSIONS, 1);
    ok(accounts[252] != 0 && accounts[253] == 0 && accounts[599] == 0, "the 254th user shares account 0");
    is_int((int64_t) quota_at(&quota, 0)->used[QUOTA_SESSIONS], 347, "with all later ones");
    is_int((int64_t) quota_find(&quota, 5000 + 256 * 300)->used[QUOTA_SESSIONS], 347,
           "as each of them sees");
    quota_count_rule(&quota, 0, 3, 2, 0);
    is_int(quota_rule_use(&quota, 5000 + 256 * 300, 3).leases, 2, "also what it has under a rule");
    is_int((int64_t) quota_find(&quota, 0)->used[QUOTA_SESSIONS], 0, "but root does not");
    is_int(quota_rule_use(&quota, 0, 3).leases, 0, "under no rule either");
    quota_count_rule(&quota, 0, 3, -2, 0);
    uint8_t root = quota_charge(&quota, 0, QUOTA_SESSIONS, 1);
    uint8_t agent = quota_charge(&quota, AGENT, QUOTA_SESSIONS, 1);
    ok(root != 0 && agent != 0 && root != agent, "root and the agent's user have accounts of their own");
    quota_refund(&quota, root, QUOTA_SESSIONS, 1);
    is_int(quota_charge(&quota, 4000, QUOTA_SESSIONS, 1), 0, "which no other user gets");
    ok(quota_charge(&quota, 0, QUOTA_SESSIONS, 1) != 0, "so root has one again");
    quota_refund(&quota, quota_charge(&quota, 0, QUOTA_SESSIONS, 0), QUOTA_SESSIONS, 1);
    quota_refund(&quota, agent, QUOTA_SESSIONS, 1);
    quota_refund(&quota, 0, QUOTA_SESSIONS, 1);
    quota_refund(&quota, accounts[0], QUOTA_SESSIONS, 1);
    ok(quota_charge(&quota, 5000 + 256 * 300, QUOTA_LEASES, 1) != 0, "a free account is used again");
    for (unsigned i = 1; i < 600; i++)
        quota_refund(&quota, accounts[i], QUOTA_SESSIONS, 1);
    is_int((int64_t) quota.used[QUOTA_SESSIONS], 0, "all is given back");
    ok(!quota_at(&quota, 0), "and the shared account is gone");
}

static void test_rules(void) {
    static char pattern[] = "deploy/*";
    static const struct policy_rule rules[4] = {
        [2] = {.pattern = pattern, .line = 7, .terms = {.max_leases = 2, .max_waiters = 1}}};
    char text[QUOTA_RULE_TEXT_BYTES];

    begin(1000);
    uint8_t alice = quota_charge(&quota, ALICE, QUOTA_SESSIONS, 1);
    uint8_t root = quota_charge(&quota, 0, QUOTA_SESSIONS, 1);
    quota_set_rules(&quota, rules);
    quota_count_rule(&quota, alice, 3, 1, 1);
    ok(quota_rule_may(&quota, ALICE, 3, false), "one lease of two");
    ok(!quota_rule_may(&quota, ALICE, 3, true), "one waiter of one");
    ok(quota_rule_may(&quota, BOB, 3, true), "another user has its own count");
    ok(quota_rule_may(&quota, ALICE, 4, true), "and another rule");
    quota_count_rule(&quota, alice, 3, 1, -1);
    ok(!quota_rule_may(&quota, ALICE, 3, false) && quota_rule_may(&quota, ALICE, 3, true),
       "the waiter has become a lease");
    quota_count_rule(&quota, root, 3, 9, 9);
    ok(quota_rule_may(&quota, 0, 3, false), "root has no such limit");
    quota_count_rule(&quota, alice, 3, 0, 0);
    quota_count_rule(&quota, alice, 4, 0, 1);
    ok(quota_rule_use(&quota, ALICE, 4).waiters == 1 && quota_rule_use(&quota, ALICE, 4).leases == 0,
       "a waiter alone counts, too");
    is_int(quota_rule_use(&quota, ALICE, 0).leases, 0, "nothing counts without a rule");
    is_int(quota_rule_use(&quota, CAROL, 3).leases, 0, "nothing counts for a user without leases");
    quota_count_rule(&quota, alice, 0, 7, 7);
    is_int(quota_rule_use(&quota, ALICE, 0).leases, 0, "a lease without a rule counts for no rule");
    ok(quota_rule_may(&quota, ALICE, 0, false), "a name without a rule has no limit");
    is_int(quota_rule_use(&quota, ALICE, 3).leases, 2, "the use is shown");
    quota_rule_text(&quota, ALICE, 3, false, text);
    is_string(text, "rule \"deploy/*\" (line 7) has max_leases = 2, and user 1000 has as many",
              "lease limit");
    quota_rule_text(&quota, ALICE, 3, true, text);
    is_string(text, "rule \"deploy/*\" (line 7) has max_waiters = 1, and user 1000 has as many", "waiters");
    quota_set_rules(&quota, rules);
    is_int(quota_rule_use(&quota, ALICE, 3).leases, 0, "new rules begin with none");
}

static void test_text(void) {
    char text[QUOTA_TEXT_BYTES];

    begin(100);
    (void) quota_charge(&quota, ALICE, QUOTA_LEASES, 48);
    ok(!quota_may(&quota, ALICE, QUOTA_LEASES, 5), "48 and 5 are more than half");
    quota_text(&quota, ALICE, QUOTA_LEASES, 5, text);
    is_string(text,
              "max_leases: user 1000 has 48 of at most 50, half of what other users leave of 100, and this "
              "needs 5 more",
              "the limit's name, the use and the limit");
}

int main(void) {
    test_shares();
    test_requests();
    test_fullest();
    test_extensions();
    test_trusted();
    test_kept_sessions();
    test_accounts();
    test_crowd();
    test_rules();
    test_text();
    return done_testing();
}
