/* The configuration: what /etc/redlockd.conf says, validated. Immutable once read; a reload reads a new one.
 *
 * Reading reports every mistake it finds, each with file, line and what was expected, and gives nothing when
 * there was one. */
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
    char *tls_ca;   /* path; NULL: whom the system trusts */
    char *tls_cert; /* path; NULL: the server needs none of us */
    char *tls_key;
    char *tls_name; /* whom its certificate names; NULL: the host */
    bool durable;   /* what it has answered is on its disk: a restart loses nothing */
};

struct config {
    struct config_node nodes[NODES_MAX];
    unsigned n_nodes;
    bool has_password; /* a node's, in the file itself */
    unsigned keepers;
    int64_t default_ttl_ms;
    int64_t max_ttl_ms;
    int64_t node_timeout_ms;      /* 0: ttl/20 within NODE_TIMEOUT_MS_MIN..MAX */
    int64_t max_hold_ms;          /* 0: no bound */
    bool fencing;                 /* each grant gets a fencing token */
    int64_t fence_skew_ms;        /* how far a token may be from a node's clock */
    int64_t fence_retention_ms;   /* how long a node keeps a name's token after its last use */
    bool quarantine;              /* nodes that lost their memory rest before they vote */
    struct rule rules[RULES_MAX]; /* in the order of the file; what they don't say is as above */
    unsigned n_rules;
    char *key_prefix; /* key_format around "{name}" */
    char *key_suffix;
    char *host; /* in lock values, for people: default the host name */
    char *socket_path;
    mode_t socket_mode;
    gid_t socket_group; /* (gid_t) -1: leave as created */
    unsigned max_sessions;
    unsigned max_leases; /* held and waiting, in all */
};

/* Reads and validates `path`. `to_use`: not just to be checked, so credentials must be there. Mistakes go to
 * `errors`, one a line: "FILE:LINE: what is wrong, what was expected". Returns 0 and a configuration to free
 * with config_free(), -EINVAL when it has mistakes (told), or another negative errno when the file could not
 * be read (told as well). */
int config_read(const char *path, bool to_use, FILE *errors, struct config **ret);

/* The configuration without a file: the defaults, no nodes. 0 or -ENOMEM. */
int config_new_default(struct config **ret);

/* Appends a node on a Unix socket. 0, -ENOMEM, or -ENOSPC beyond NODES_MAX. For --dev. */
int config_add_unix_node(struct config *config, const char *name, const char *unix_path);

/* Frees it, passwords wiped. NULL is fine. Returns NULL. */
struct config *config_free(struct config *config);

/* What differs between the two that a running agent cannot take over, as a sentence fragment such as
 * "node, keepers"; empty when a reload can apply everything. Returns the length that it needed, like
 * snprintf. */
int config_restart_needed(const struct config *running, const struct config *fresh, char *buffer,
                          size_t size);
