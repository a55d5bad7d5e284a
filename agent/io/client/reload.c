#include "io/client/reload.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/secret.h"
#include "io/loop/log.h"

/* NULL equals NULL. */
static bool same(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_nodes(const struct config *a, const struct config *b) {
    if (a->n_nodes != b->n_nodes)
        return false;
    for (unsigned i = 0; i < a->n_nodes; i++) {
        const struct config_node *x = &a->nodes[i], *y = &b->nodes[i];

        if (!same(x->name, y->name) || !same(x->unix_path, y->unix_path) || !same(x->host, y->host) ||
            x->port != y->port || !same(x->user, y->user) || !secret_equal_text(x->password, y->password) ||
            x->database != y->database || x->durable != y->durable || x->tls != y->tls ||
            !same(x->tls_ca, y->tls_ca) || !same(x->tls_cert, y->tls_cert) ||
            !same(x->tls_key, y->tls_key) || !same(x->tls_name, y->tls_name))
            return false;
    }
    return true;
}

/* A value that is valid only with another option's new value needs a restart if that option does. */
static bool timeout_waits(const struct config *running, const struct config *fresh) {
    int64_t ttl_ms = fresh->terms.default_ttl_ms < running->max_ttl_ms ? fresh->terms.default_ttl_ms
                                                                       : running->max_ttl_ms;

    return fresh->node_timeout_ms >= ttl_ms / 2;
}

static bool legacy_waits(const struct config *running, const struct config *fresh) {
    bool legacy = false;

    for (unsigned i = 0; i < fresh->n_rules; i++)
        legacy = legacy || fresh->rules[i].terms.legacy_setnx;
    return legacy && running->n_nodes != 1;
}

int reload_restart_needed(const struct config *running, const struct config *fresh, char *buffer,
                          size_t size) {
    const struct {
        const char *name;
        bool same;
    } parts[] = {
        {"node", same_nodes(running, fresh)},
        {"keepers", running->keepers == fresh->keepers},
        {"quarantine", running->quarantine == fresh->quarantine},
        {"fence_skew", running->fence_skew_ms == fresh->fence_skew_ms},
        {"fence_retention", running->fence_retention_ms == fresh->fence_retention_ms},
        {"a larger max_ttl", running->max_ttl_ms >= fresh->max_ttl_ms},
        {"node_timeout", !timeout_waits(running, fresh)},
        {"legacy_setnx", !legacy_waits(running, fresh)},
        {"a larger max_sessions", running->max_sessions >= fresh->max_sessions},
        {"key_format",
         same(running->key_prefix, fresh->key_prefix) && same(running->key_suffix, fresh->key_suffix)},
        {"host", same(running->host, fresh->host)},
        {"socket path", running->socket_is_given || same(running->socket_path, fresh->socket_path)},
        {"max_leases", running->max_leases == fresh->max_leases},
    };
    size_t length = 0;

    if (size > 0)
        buffer[0] = '\0';
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (parts[i].same)
            continue;
        length +=
            (size_t) snprintf(length < size ? buffer + length : NULL, length < size ? size - length : 0,
                              "%s%s", length > 0 ? ", " : "", parts[i].name);
    }
    return (int) length;
}

/* What a restart alone changes stays as it is; of the options that need one, these are read from the present
 * configuration. The epoch keys of the nodes have the max_ttl of the start: longer leases need a restart. */
static void limit(const struct config *running, struct config *fresh) {
    if (timeout_waits(running, fresh))
        fresh->node_timeout_ms = running->node_timeout_ms;
    if (fresh->max_ttl_ms > running->max_ttl_ms)
        fresh->max_ttl_ms = running->max_ttl_ms;
    if (fresh->terms.default_ttl_ms > fresh->max_ttl_ms)
        fresh->terms.default_ttl_ms = fresh->max_ttl_ms;
    for (unsigned i = 0; i < fresh->n_rules; i++) {
        struct policy_limits *terms = &fresh->rules[i].terms;
        if (terms->default_ttl_ms > fresh->max_ttl_ms)
            terms->default_ttl_ms = fresh->max_ttl_ms;
        terms->legacy_setnx = terms->legacy_setnx && running->n_nodes == 1;
    }
    if (fresh->max_sessions > running->max_sessions)
        fresh->max_sessions = running->max_sessions;
    fresh->max_leases = running->max_leases;
}

static void log_diagnostics(const char *diagnostics, bool failed) {
    for (const char *line = diagnostics, *end; line && (end = strchr(line, '\n')); line = end + 1)
        log_write(failed ? LOG_LEVEL_ERROR : LOG_LEVEL_WARNING, "%.*s", (int) (end - line), line);
}

void reload_refuse(const char *path, int error, const char *diagnostics) {
    const bool of_file = error == -EINVAL || error == -EIO;

    log_diagnostics(diagnostics, true);
    log_event(LOG_LEVEL_ERROR, &(struct log_fields){.event = LOG_EVENT_RELOAD_FAILED},
              "reload: %s %s%s; the agent keeps its configuration", path,
              error == -EINVAL ? "has mistakes"
              : error == -EIO  ? "names files that can't be used"
                               : "can't be read: ",
              of_file ? "" : strerror(-error));
}

void reload_limit(const struct config *running, struct config *fresh, const char *diagnostics) {
    char differences[256];

    log_diagnostics(diagnostics, false);
    if (reload_restart_needed(running, fresh, differences, sizeof(differences)) > 0)
        log_warning("reload: these changes need a restart: %s", differences);
    limit(running, fresh);
}
