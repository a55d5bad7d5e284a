#include "local/policy.h"

#include "core/limits.h"

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

struct policy_limits policy_limits_of(const struct policy *policy, const char *name, size_t length) {
    for (unsigned i = 0; i < policy->n_rules; i++)
        if (matches(policy->rules[i].pattern, name, length))
            return policy->rules[i].terms;
    return policy->terms;
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
