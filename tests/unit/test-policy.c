/* Which rule a name falls under, and what it says. */

#include "local/policy.h"

#include <string.h>

#include "core/limits.h"
#include "tap.h"

static bool falls_under(const char *pattern, const char *name) {
    char copied[64];
    (void) snprintf(copied, sizeof(copied), "%s", pattern);
    const struct policy_rule rule = {.pattern = copied, .terms = {.max_hold_ms = 7}};
    const struct policy policy = {.rules = &rule, .n_rules = 1};

    return policy_limits_of(&policy, name, strlen(name)).max_hold_ms == 7;
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
    ok(!policy_limits_of(&policy, name, NAME_BYTES_MAX).fencing, "a name that almost matches many stars");
}

static void test_order(void) {
    char first[] = "a*", second[] = "*";
    const struct policy_rule rules[] = {{first, {.default_ttl_ms = 1}}, {second, {.default_ttl_ms = 2}}};
    struct policy policy = {.terms = {.default_ttl_ms = 3}, .rules = rules, .n_rules = 2};

    is_int(policy_limits_of(&policy, "ab", 2).default_ttl_ms, 1, "the first rule that matches counts");
    is_int(policy_limits_of(&policy, "ba", 2).default_ttl_ms, 2, "then the next");
    policy.n_rules = 1;
    is_int(policy_limits_of(&policy, "ba", 2).default_ttl_ms, 3, "without one what holds for all");
    is_int(policy_limits_of(&policy, "abc", 0).default_ttl_ms, 3, "only the name's own bytes count");
}

static void test_hold(void) {
    is_int(policy_hold_ms(0, 0), 0, "no bound of either: none");
    is_int(policy_hold_ms(5, 0), 5, "one bound holds");
    is_int(policy_hold_ms(0, 6), 6, "whosever it is");
    is_int(policy_hold_ms(5, 6), 5, "of two the smaller one");
    is_int(policy_hold_ms(7, 6), 6, "either way");
}

int main(void) {
    test_patterns();
    test_hostile_name();
    test_order();
    test_hold();
    return done_testing();
}
