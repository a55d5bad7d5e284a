/* Which rule a name falls under, and what it says. */

#include "local/policy.h"

#include <string.h>

#include "core/limits.h"
#include "tap.h"

static const struct policy_limits *limits_of(const struct policy *policy, const char *name, size_t length) {
    return policy_limits_of(policy, policy_find(policy, POLICY_ALL_RULES, name, length));
}

static bool falls_under(const char *pattern, const char *name) {
    char copied[64];
    (void) snprintf(copied, sizeof(copied), "%s", pattern);
    const struct policy_rule rule = {.pattern = copied, .terms = {.max_hold_ms = 7}};
    const struct policy policy = {.rules = &rule, .n_rules = 1};

    return limits_of(&policy, name, strlen(name))->max_hold_ms == 7;
}

static void test_patterns(void) {
    ok(falls_under("backup", "backup"), "a pattern without star matches its own name");
    ok(!falls_under("backup", "backups") && !falls_under("backup", "backu"), "and no longer or shorter one");
    ok(falls_under("*", "x") && falls_under("**", "x"), "a star alone matches every name");
    ok(falls_under("db/*", "db/") && falls_under("db/*", "db/a/b"), "a star matches any bytes, and none");
    ok(!falls_under("db/*", "db"), "bytes before the star must match");
    ok(falls_under("*/lock", "a/b/lock") && !falls_under("*/lock", "a/lock/b"), "and those behind it");
    ok(falls_under("a*b*c", "aXbbYc") && !falls_under("a*bc*c", "abbcb"), "several stars");
    ok(falls_under("*aab", "aaaab"), "a pattern that needs backtracking");
    ok(falls_under("[a-z]?", "[a-z]?") && !falls_under("[a-z]?", "ab"), "nothing but a star is special");
}

/* 250 stars against a name that almost matches: must not take a time that grows by itself. */
static void test_hostile_name(void) {
    char pattern[NAME_BYTES_MAX + 1], name[NAME_BYTES_MAX + 1];

    for (size_t i = 0; i < NAME_BYTES_MAX; i++) {
        pattern[i] = i % 2 ? '*' : 'a';
        name[i] = 'a';
    }
    memcpy(pattern + NAME_BYTES_MAX - 2, "*b", 3);
    name[NAME_BYTES_MAX] = 0;
    const struct policy_rule rule = {.pattern = pattern, .terms = {.fencing = true}};
    const struct policy policy = {.rules = &rule, .n_rules = 1};
    ok(!limits_of(&policy, name, NAME_BYTES_MAX)->fencing, "a name that almost matches many stars");
}

static void test_order(void) {
    char first[] = "a*", second[] = "*";
    const struct policy_rule rules[] = {{.pattern = first, .terms.default_ttl_ms = 1},
                                        {.pattern = second, .terms.default_ttl_ms = 2}};
    struct policy policy = {.terms = {.default_ttl_ms = 3}, .rules = rules, .n_rules = 2};

    is_int(limits_of(&policy, "ab", 2)->default_ttl_ms, 1, "the first rule that matches counts");
    is_int(limits_of(&policy, "ba", 2)->default_ttl_ms, 2, "then the next");
    policy.n_rules = 1;
    is_int(limits_of(&policy, "ba", 2)->default_ttl_ms, 3, "without one what holds for all");
    is_int(limits_of(&policy, "abc", 0)->default_ttl_ms, 3, "only the name's own bytes count");
}

static void test_hold(void) {
    is_int(policy_hold_ms(0, 0), 0, "no bound of either: none");
    is_int(policy_hold_ms(5, 0), 5, "one bound holds");
    is_int(policy_hold_ms(0, 6), 6, "whosever it is");
    is_int(policy_hold_ms(5, 6), 5, "of two the smaller one");
    is_int(policy_hold_ms(7, 6), 6, "either way");
}

/* --- peers --- */

enum { ALICE = 1001, BOB = 1002, STAFF = 50, DEPLOYERS = 60 };

/* Names of the configuration that the peers below meet. */
static const struct policy *example(void) {
    static char all[] = "*", deploy[] = "deploy/*", secret[] = "secret", unit[] = "deploy-*.service";
    static uid_t alice[] = {ALICE};
    static gid_t deployers[] = {7, DEPLOYERS};
    static char *units[] = {unit};
    static const struct policy_rule rules[] = {
        {.pattern = deploy,
         .users = {alice, 1},
         .groups = {deployers, 2},
         .units = units,
         .n_units = 1,
         .terms.may = POLICY_MAY_DEFAULT | POLICY_MAY(POLICY_LIST)},
        {.pattern = deploy, .terms.may = POLICY_MAY(POLICY_LEADER)},
        {.pattern = secret, .groups = {deployers, 2}, .terms.may = POLICY_MAY(POLICY_ACQUIRE)},
        {.pattern = secret, .terms.may = 0},
        {.pattern = all, .users = {alice, 1}, .terms.may = POLICY_MAY(POLICY_METRICS)},
    };
    static const struct policy policy = {
        .rules = rules, .n_rules = 5, .terms.may = POLICY_MAY_DEFAULT, .max_ttl_ms = 60000};

    return &policy;
}

static void test_peers(void) {
    static const gid_t staff[] = {STAFF}, both[] = {STAFF, DEPLOYERS};
    static const struct policy_peer peers[] = {
        {.uid = ALICE, .gid = ALICE, .groups = staff, .n_groups = 1, .unit = "user@1001.service"},
        {.uid = BOB, .gid = BOB, .groups = both, .n_groups = 2},
        {.uid = BOB, .gid = DEPLOYERS},
        {.uid = BOB, .gid = BOB, .groups = staff, .n_groups = 1, .unit = "deploy-web.service"},
        {.uid = BOB, .gid = BOB, .groups = staff, .n_groups = 1, .unit = "web-deploy-web.service"},
    };
    static const char *const peer_names[] = {"a user of the list", "a member of a group",
                                             "one with this primary group", "a unit", "none of the lists"};
    static const struct {
        const char *name;
        int rules[5]; /* the number for each peer; 0: none */
    } cases[] = {
        {"deploy/x", {1, 1, 1, 1, 2}},
        {"secret", {4, 3, 3, 4, 4}},
        {"other", {5, 0, 0, 0, 0}},
        {"", {5, 0, 0, 0, 0}},
    };
    const struct policy *policy = example();

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t j = 0; j < 5; j++) {
            policy_rules rules = policy_rules_of(policy, &peers[j]);
            const struct policy_rule *rule =
                policy_find(policy, rules, cases[i].name, strlen(cases[i].name));
            ok((int) policy_number(policy, rule) == cases[i].rules[j], "\"%s\" and %s: rule %d",
               cases[i].name, peer_names[j], cases[i].rules[j]);
        }
    const struct policy_peer vague = {.uid = BOB, .gid = BOB, .groups_unknown = true, .unit_unknown = true};
    ok(policy_rules_unknown(policy, &vague) == 5, "rules by groups or units may be for an unknown peer");
    const struct policy_peer alice = {.uid = ALICE, .gid = ALICE, .groups_unknown = true};
    ok(policy_rules_unknown(policy, &alice) == 4, "but not those that are for its user, or by units alone");
    ok(policy_rules_unknown(policy, &peers[4]) == 0, "all is known of a peer without unit and group");
    ok(policy_has_units(policy), "the peers' units are needed");
    ok(!policy_has_units(&(struct policy){.rules = policy->rules + 1, .n_rules = 4}),
       "unless no rule has any");
}

static void test_actions(void) {
    const struct policy *policy = example();
    static const struct {
        unsigned number;
        enum policy_action action;
        bool may;
    } cases[] = {
        {0, POLICY_ACQUIRE, true},  {0, POLICY_LEADER, true},   {0, POLICY_OBSERVE, true},
        {0, POLICY_RESUME, true},   {0, POLICY_METRICS, true},  {0, POLICY_LIST, false},
        {0, POLICY_BLESS, false},   {0, POLICY_HISTORY, false}, {1, POLICY_LIST, true},
        {1, POLICY_BLESS, false},   {2, POLICY_LEADER, true},   {2, POLICY_ACQUIRE, false},
        {4, POLICY_ACQUIRE, false}, {4, POLICY_LEADER, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct policy_rule *rule = cases[i].number ? &policy->rules[cases[i].number - 1] : NULL;
        bool may = policy_limits_of(policy, rule)->may & POLICY_MAY(cases[i].action);
        ok(may == cases[i].may, "rule %u %s '%s'", cases[i].number, may ? "allows" : "does not allow",
           policy_word(cases[i].action));
    }
}

static void test_max_ttl(void) {
    const struct policy *policy = example();

    is_int(policy_max_ttl_ms(policy, &(struct policy_limits){.max_ttl_ms = 5000}), 5000, "a rule's max_ttl");
    is_int(policy_max_ttl_ms(policy, &(struct policy_limits){0}), 60000, "without one the agent's");
    is_int(policy_max_ttl_ms(policy, &(struct policy_limits){.max_ttl_ms = 70000}), 60000,
           "which is never exceeded");
}

static void test_reload(void) {
    const struct policy *before = example();
    char unit[] = "deploy-*.service", *units[] = {unit};
    uid_t alice[] = {ALICE}, bob[] = {BOB};
    struct policy_rule rules[3] = {before->rules[3], before->rules[0], before->rules[4]};
    const struct policy after = {.rules = rules, .n_rules = 3};

    rules[1].users.all = alice;
    rules[1].units = units;
    is_int(policy_number_after(before, 1, &after), 2, "the same rule in another place");
    is_int(policy_number_after(before, 4, &after), 1, "also one for everybody");
    is_int(policy_number_after(before, 3, &after), 0, "not one for other peers");
    is_int(policy_number_after(before, 2, &after), 0, "nor one that is gone");
    rules[2].users.all = bob;
    is_int(policy_number_after(before, 5, &after), 0, "other users: another rule");
    unit[0] = 'D';
    is_int(policy_number_after(before, 1, &after), 0, "other units: another rule");
    is_int(policy_number_after(before, 0, &after), 0, "no rule stays none");
    is_int(policy_number_after(before, 5, before), 5, "the last rule stays the last");
    is_int(policy_number_after(before, 6, before), 0, "there is none behind it");
    rules[1] = before->rules[0];
    rules[1].n_units = 0;
    is_int(policy_number_after(before, 1, &after), 0, "no units: another rule");
}

static void test_units(void) {
    static const struct policy_rule rules[] = {{.n_units = 0}, {.n_units = 1}};

    ok(!policy_has_units(&(struct policy){.rules = rules, .n_rules = 1}), "no rule has units");
    ok(policy_has_units(&(struct policy){.rules = rules, .n_rules = 2}), "one has");
}

static void test_groups(void) {
    static const struct policy_rule rules[] = {{.users.n = 1, .n_units = 1}, {.groups.n = 1}};

    ok(!policy_has_groups(&(struct policy){.rules = rules, .n_rules = 1}), "no rule has groups");
    ok(policy_has_groups(&(struct policy){.rules = rules, .n_rules = 2}), "one has");
}

static void test_node_timeout(void) {
    static const struct {
        uint32_t ttl_ms, timeout_ms;
    } cases[] = {{100, 5}, {119, 5}, {120, 6}, {2000, 100}, {2020, 100}, {60000, 100}};
    struct policy policy = {.max_ttl_ms = 60000};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ok(policy_node_timeout_ms(&policy, cases[i].ttl_ms) == cases[i].timeout_ms,
           "a ttl of %u ms: the node time-out is %u ms", cases[i].ttl_ms, cases[i].timeout_ms);
    policy.node_timeout_ms = 250;
    is_int(policy_node_timeout_ms(&policy, 100), 250, "or what the configuration says");
}

int main(void) {
    test_peers();
    test_actions();
    test_max_ttl();
    test_reload();
    test_units();
    test_groups();
    test_node_timeout();
    test_patterns();
    test_hostile_name();
    test_order();
    test_hold();
    return done_testing();
}
