/* The policy: what the configuration says about requests, and its rules for some names. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For the leases of one name. */
struct policy_limits {
    int64_t default_ttl_ms;
    int64_t max_hold_ms; /* 0: no bound */
    bool fencing;        /* each grant gets a fencing token */
    bool legacy_setnx;   /* clients of the SETNX and GETSET pattern want these names, too */
};

/* For the names that match `pattern`: '*' matches any bytes, also none; every other byte itself. */
struct policy_rule {
    char *pattern;
    struct policy_limits terms;
};

/* May change on reload. */
struct policy {
    struct policy_limits terms; /* of names without a rule */
    uint32_t max_ttl_ms;
    uint32_t node_timeout_ms;        /* 0: ttl/20 within bounds */
    const struct policy_rule *rules; /* the configuration's */
    unsigned n_rules;
};

/* The limits for this name: those of the first rule that matches. */
struct policy_limits policy_limits_of(const struct policy *policy, const char *name, size_t length);

/* The earlier of two bounds on holding; 0: no bound. */
int64_t policy_hold_ms(int64_t one_ms, int64_t other_ms);

/* The node time-out for this ttl. */
uint32_t policy_node_timeout_ms(const struct policy *policy, uint32_t ttl_ms);
