/* What the configuration file says, validated. Immutable once read; a reload reads a new one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "core/limits.h"
#include "local/policy.h"

struct config_node {
    char *name;
    char *address;   /* as configured, for people */
    char *unix_path; /* or NULL, then: */
    char *host;      /* name or numeric address, without brackets */
    uint16_t port;
    char *user;     /* NULL: AUTH with the password alone */
    char *password; /* NULL: no AUTH */
    int database;
    bool tls;
    char *tls_ca;             /* path; NULL: what the system trusts */
    char *tls_cert, *tls_key; /* paths; NULL: the server wants none of us */
    char *tls_name;           /* in its certificate; NULL: the host */
    bool durable;             /* what it has answered is on its disk: a restart loses nothing */
};

struct config {
    struct config_node nodes[NODES_MAX];
    unsigned n_nodes;
    unsigned keepers;
    int64_t default_ttl_ms, max_ttl_ms;
    int64_t node_timeout_ms;             /* 0: ttl/20 within NODE_TIMEOUT_MS_MIN..MAX */
    int64_t max_hold_ms;                 /* 0: no bound */
    bool fencing;                        /* each grant gets a fencing token */
    int64_t fence_skew_ms;               /* how far a token may be from a node's clock */
    int64_t fence_retention_ms;          /* how long a node keeps a name's token after its last use */
    bool quarantine;                     /* nodes that lost their memory rest before they vote */
    struct policy_rule rules[RULES_MAX]; /* in the order of the file; what they don't say is as above */
    unsigned n_rules;
    char *key_prefix, *key_suffix; /* key_format around "{name}" */
    char *host;                    /* in lock values, for people: default the host name */
    char *socket_path;
    mode_t socket_mode;
    gid_t socket_group; /* (gid_t) -1: leave as created */
    unsigned max_sessions;
    unsigned max_leases; /* held and waiting, in all */
};

/* Reads and validates the file; without a path, gives the defaults and no nodes. `to_use`: not just to be
 * checked, so credentials must be there. What is wrong goes to `errors`, one a line: "FILE:LINE: what, and
 * what was expected". Returns 0 and a configuration to free, -EINVAL when something is wrong with the text,
 * or another negative errno when the file can't be read, which is said too. */
int config_read(const char *path, bool to_use, FILE *errors, struct config **ret);

/* Frees it, passwords wiped. NULL is fine. Returns NULL. */
struct config *config_free(struct config *config);
