/* The policy: what the configuration says about requests, and its rules: who may do what with which names.
 *
 * The first rule counts whose pattern matches the name and whose users, groups or units match the peer.
 * Which rules match a peer is determined once for each session (policy_rules_of); the name is compared with
 * each request. An action that concerns no name (`metrics`, `bless`) counts as one for the empty name, so
 * only patterns such as "*" match it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum policy_action {
    POLICY_FREE, /* needs no right */
    POLICY_ACQUIRE,
    POLICY_RESUME,
    POLICY_OBSERVE,
    POLICY_LEADER,
    POLICY_LIST,    /* other users' leases, waiters and cooling names */
    POLICY_HISTORY, /* of a name */
    POLICY_METRICS,
    POLICY_BLESS,
    POLICY_ACTIONS,
};

/* A set of actions is a bit mask. */
#define POLICY_MAY(action) (1u << (action))

/* For everybody who may connect, unless a rule says otherwise. */
#define POLICY_MAY_DEFAULT                                                                 \
    (POLICY_MAY(POLICY_ACQUIRE) | POLICY_MAY(POLICY_RESUME) | POLICY_MAY(POLICY_OBSERVE) | \
     POLICY_MAY(POLICY_LEADER) | POLICY_MAY(POLICY_METRICS))

/* For the leases of one name. */
struct policy_limits {
    int64_t default_ttl_ms;
    int64_t max_ttl_ms;  /* 0: the agent's */
    int64_t max_hold_ms; /* 0: no bound */
    unsigned may;        /* POLICY_MAY(…) */
    unsigned max_leases; /* of a user under this rule, held or contending; 0: no bound but the quota */
    unsigned max_waiters;
    bool fencing;      /* each grant gets a fencing token */
    bool legacy_setnx; /* clients of the SETNX and GETSET pattern want these names, too */
};

/* For the names that match `pattern`: '*' matches any bytes, also none; every other byte itself. For peers
 * that one of the three lists has; for all peers if the lists are empty. */
struct policy_rule {
    char *pattern;
    struct policy_limits terms;
    unsigned line; /* of the configuration, for messages */
    struct policy_ids {
        uint32_t *all;
        unsigned n;
    } users, groups;
    char **units; /* patterns of names of systemd's system units */
    unsigned n_units;
};

/* May change on reload. */
struct policy {
    struct policy_limits terms; /* of names without a rule */
    uint32_t max_ttl_ms;
    uint32_t max_sessions;
    uint32_t node_timeout_ms;        /* 0: ttl/20 within bounds */
    const struct policy_rule *rules; /* the configuration's */
    unsigned n_rules;
};

/* The process that has connected. */
struct policy_peer {
    uid_t uid;
    gid_t gid;
    const gid_t *groups; /* supplementary ones */
    size_t n_groups;
    const char *unit;                  /* NULL: none, or unknown */
    bool groups_unknown, unit_unknown; /* could not be read */
};

/* A set of rules: bit i is rule i. */
typedef uint64_t policy_rules;
#define POLICY_ALL_RULES (~(policy_rules) 0)

/* The rules that are for this peer. */
policy_rules policy_rules_of(const struct policy *policy, const struct policy_peer *peer);

/* The rules that may be for this peer: a property of the peer that decides could not be read. */
policy_rules policy_rules_unknown(const struct policy *policy, const struct policy_peer *peer);

/* True if some rule has units: only then the peers' units must be known. */
bool policy_has_units(const struct policy *policy);

/* The same of groups. */
bool policy_has_groups(const struct policy *policy);

/* The first of these rules that is for this name, or NULL. */
const struct policy_rule *policy_find(const struct policy *policy, policy_rules rules, const char *name,
                                      size_t length);

/* The terms of that rule, or the terms without a rule (NULL). */
const struct policy_limits *policy_limits_of(const struct policy *policy, const struct policy_rule *rule);

/* 1 + the rule's index; 0 for NULL. */
unsigned policy_number(const struct policy *policy, const struct policy_rule *rule);

/* The same rule in another configuration: 1 + its index, or 0 if it is gone or for other peers. */
unsigned policy_number_after(const struct policy *before, unsigned number, const struct policy *after);

/* The action's word in the configuration and in messages. */
const char *policy_word(enum policy_action action);

/* The action with this word. POLICY_FREE: none. */
enum policy_action policy_action_of(const char *word);

/* The longest ttl that the rule allows. */
int64_t policy_max_ttl_ms(const struct policy *policy, const struct policy_limits *limits);

/* The earlier of two bounds on holding; 0: no bound. */
int64_t policy_hold_ms(int64_t one_ms, int64_t other_ms);

/* The node time-out for this ttl. */
uint32_t policy_node_timeout_ms(const struct policy *policy, uint32_t ttl_ms);
