/* The validated configuration. Immutable; a reload reads a new one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "config/config-node.h"
#include "core/limits.h"
#include "local/policy.h"

struct config {
    struct config_node nodes[NODES_MAX];
    unsigned n_nodes;
    unsigned keepers;
    int64_t max_ttl_ms;
    int64_t node_timeout_ms;             /* 0: ttl/20 within NODE_TIMEOUT_MS_MIN..MAX */
    struct policy_limits terms;          /* of names without a rule */
    int64_t fence_skew_ms;               /* the longest distance of a token from a node's clock */
    int64_t fence_retention_ms;          /* of a name's token at a node, after its last use */
    bool quarantine;                     /* of nodes that may have lost data */
    struct policy_rule rules[RULES_MAX]; /* in the order of the file; what a rule lacks is as in `terms` */
    unsigned n_rules;
    char *key_prefix, *key_suffix; /* key_format around "{name}" */
    char *host;                    /* in lock values, for operators; default: the host name */
    char *socket_path;
    bool socket_is_given; /* that path is systemd's, or of --socket, not the file's */
    mode_t socket_mode;
    gid_t socket_group; /* (gid_t) -1: the process's own */
    unsigned max_sessions;
    unsigned max_leases;     /* held and waiting together */
    unsigned max_extensions; /* theirs, a minute */
    unsigned max_buffered_bytes;
    unsigned max_work; /* units a second of a user while others ask: local/work-share.h */
};

/* CHECK: credentials need not exist. START: users and groups that are given by name need not exist, since an
 * account that was deleted, or a directory of accounts that does not answer, must not prevent a restart. */
enum config_use { CONFIG_CHECK, CONFIG_START, CONFIG_RELOAD };

/* Reads and validates the file; a NULL path gives the defaults, without nodes. Errors and warnings go to
 * `errors`, one a line: "FILE:LINE: the mistake: what is expected". 0 and a configuration to free; -EINVAL
 * for mistakes in the file; -EIO if only other files that it names can't be used; or another negative errno,
 * also written to `errors`, when the file can't be read. */
int config_read(const char *path, enum config_use use, FILE *errors, struct config **ret);

/* Wipes passwords. NULL is fine. Returns NULL. */
struct config *config_free(struct config *config);
