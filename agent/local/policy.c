#include "local/policy.h"

#include <assert.h>
#include <string.h>

#include "core/limits.h"

static_assert(RULES_MAX <= 64, "a set of rules is a number of 64 bits");

/* Backtracks to the last '*' only: what an earlier one has matched need never change. So a match takes at
 * most pattern times name steps, whatever name a client sends. */
static bool matches(const char *pattern, const char *name, size_t length) {
    const char *after_star = NULL;
    size_t i = 0, tried = 0; /* in the name: compared so far; end of the last star's match */

    while (i < length) {
        if (*pattern == '*') {
            after_star = ++pattern;
            tried = i;
        } else if (*pattern != 0 && *pattern == name[i]) {
            pattern++;
            i++;
        } else if (after_star) {
            pattern = after_star;
            i = ++tried;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == 0;
}

static bool has_id(const struct policy_ids *ids, uint32_t id) {
    for (unsigned i = 0; i < ids->n; i++)
        if (ids->all[i] == id)
            return true;
    return false;
}

static bool is_for_peer(const struct policy_rule *rule, const struct policy_peer *peer) {
    if (rule->users.n + rule->groups.n + rule->n_units == 0)
        return true;
    if (has_id(&rule->users, peer->uid))
        return true;
    if (peer->gid != (gid_t) -1 && has_id(&rule->groups, peer->gid)) /* -1: not known */
        return true;
    for (size_t i = 0; i < peer->n_groups; i++)
        if (has_id(&rule->groups, peer->groups[i]))
            return true;
    for (unsigned i = 0; peer->unit && i < rule->n_units; i++)
        if (matches(rule->units[i], peer->unit, strlen(peer->unit)))
            return true;
    return false;
}

policy_rules policy_rules_of(const struct policy *policy, const struct policy_peer *peer) {
    policy_rules rules = 0;

    for (unsigned i = 0; i < policy->n_rules; i++)
        if (is_for_peer(&policy->rules[i], peer))
            rules |= (policy_rules) 1 << i;
    return rules;
}

policy_rules policy_rules_unknown(const struct policy *policy, const struct policy_peer *peer) {
    policy_rules rules = 0;

    for (unsigned i = 0; i < policy->n_rules; i++) {
        const struct policy_rule *rule = &policy->rules[i];
        bool decides =
            (peer->groups_unknown && rule->groups.n > 0) || (peer->unit_unknown && rule->n_units > 0);
        if (decides && !is_for_peer(rule, peer))
            rules |= (policy_rules) 1 << i;
    }
    return rules;
}

bool policy_has_units(const struct policy *policy) {
    for (unsigned i = 0; i < policy->n_rules; i++)
        if (policy->rules[i].n_units > 0)
            return true;
    return false;
}

bool policy_has_groups(const struct policy *policy) {
    for (unsigned i = 0; i < policy->n_rules; i++)
        if (policy->rules[i].groups.n > 0)
            return true;
    return false;
}

const struct policy_rule *policy_find(const struct policy *policy, policy_rules rules, const char *name,
                                      size_t length) {
    for (unsigned i = 0; i < policy->n_rules; i++)
        if ((rules >> i & 1) && matches(policy->rules[i].pattern, name, length))
            return &policy->rules[i];
    return NULL;
}

const struct policy_limits *policy_limits_of(const struct policy *policy, const struct policy_rule *rule) {
    return rule ? &rule->terms : &policy->terms;
}

unsigned policy_number(const struct policy *policy, const struct policy_rule *rule) {
    return rule ? 1 + (unsigned) (rule - policy->rules) : 0;
}

static bool same_ids(const struct policy_ids *ids, const struct policy_ids *others) {
    return ids->n == others->n &&
           (ids->n == 0 || memcmp(ids->all, others->all, ids->n * sizeof(ids->all[0])) == 0);
}

static bool same_units(const struct policy_rule *one, const struct policy_rule *other) {
    if (one->n_units != other->n_units)
        return false;
    for (unsigned i = 0; i < one->n_units; i++)
        if (strcmp(one->units[i], other->units[i]) != 0)
            return false;
    return true;
}

unsigned policy_number_after(const struct policy *before, unsigned number, const struct policy *after) {
    if (number == 0 || number > before->n_rules)
        return 0;
    const struct policy_rule *one = &before->rules[number - 1];
    for (unsigned i = 0; i < after->n_rules; i++) {
        const struct policy_rule *other = &after->rules[i];
        if (strcmp(one->pattern, other->pattern) == 0 && same_ids(&one->users, &other->users) &&
            same_ids(&one->groups, &other->groups) && same_units(one, other))
            return i + 1;
    }
    return 0;
}

const char *policy_word(enum policy_action action) {
    static const char *const words[] = {
        [POLICY_FREE] = "",           [POLICY_ACQUIRE] = "acquire", [POLICY_RESUME] = "resume",
        [POLICY_OBSERVE] = "observe", [POLICY_LEADER] = "leader",   [POLICY_LIST] = "list",
        [POLICY_HISTORY] = "history", [POLICY_METRICS] = "metrics", [POLICY_BLESS] = "bless",
    };

    static_assert(sizeof(words) / sizeof(words[0]) == POLICY_ACTIONS, "each action has its word");
    return words[action];
}

enum policy_action policy_action_of(const char *word) {
    enum policy_action action = POLICY_ACTIONS;

    while (--action > POLICY_FREE && strcmp(policy_word(action), word) != 0)
        ;
    return action;
}

int64_t policy_max_ttl_ms(const struct policy *policy, const struct policy_limits *limits) {
    if (limits->max_ttl_ms == 0 || limits->max_ttl_ms > policy->max_ttl_ms)
        return policy->max_ttl_ms;
    return limits->max_ttl_ms;
}

int64_t policy_hold_ms(int64_t one_ms, int64_t other_ms) {
    if (one_ms == 0 || other_ms == 0)
        return one_ms + other_ms;
    return one_ms < other_ms ? one_ms : other_ms;
}

uint32_t policy_node_timeout_ms(const struct policy *policy, uint32_t ttl_ms) {
    uint32_t timeout_ms = ttl_ms / 20;

    if (policy->node_timeout_ms != 0)
        return policy->node_timeout_ms;
    if (timeout_ms < NODE_TIMEOUT_MS_MIN)
        return NODE_TIMEOUT_MS_MIN;
    return timeout_ms > NODE_TIMEOUT_MS_MAX ? NODE_TIMEOUT_MS_MAX : timeout_ms;
}
