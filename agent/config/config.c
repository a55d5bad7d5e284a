/* The configuration in memory: its defaults, its end, and what tells two apart. config-read.c makes one from
 * a file. */
#include "config/config.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/cleanup.h"
#include "config/value.h"

#define SOCKET_PATH_DEFAULT "/run/redlockd/redlockd.sock"

int config_new_default(struct config **ret) {
    char host[HOST_NAME_MAX + 1] = "", label[HOST_LABEL_BYTES_MAX + 1];
    struct config *config;

    config = malloc(sizeof *config);
    if (!config)
        return -ENOMEM;
    (void) gethostname(host, sizeof host - 1);
    host_label_from(host, label);
    *config = (struct config){
        .keepers = 1,
        .quarantine = true,
        .fencing = true,
        .fence_skew_ms = 60 * 1000,
        .fence_retention_ms = 60 * 60 * 1000,
        .default_ttl_ms = 10 * 1000,
        .max_ttl_ms = 60 * 1000,
        .key_prefix = strdup(""),
        .key_suffix = strdup(""),
        .host = strdup(label),
        .socket_path = strdup(SOCKET_PATH_DEFAULT),
        .socket_mode = 0660,
        .socket_group = (gid_t) -1,
        .max_sessions = 10000,
        .max_leases = 131072,
    };
    if (!config->key_prefix || !config->key_suffix || !config->host || !config->socket_path) {
        config_free(config);
        return -ENOMEM;
    }
    *ret = config;
    return 0;
}

static void node_deinit(struct config_node *node) {
    free(node->name);
    free(node->address);
    free(node->unix_path);
    free(node->host);
    free(node->user);
    free(node->tls_ca);
    free(node->tls_cert);
    free(node->tls_key);
    free(node->tls_name);
    if (node->password)
        explicit_bzero(node->password, strlen(node->password));
    free(node->password);
}

int config_add_unix_node(struct config *config, const char *name, const char *unix_path) {
    struct config_node node = {0};

    if (config->n_nodes == NODES_MAX)
        return -ENOSPC;
    node.name = strdup(name);
    node.unix_path = strdup(unix_path);
    if (asprintf(&node.address, "unix:%s", unix_path) < 0)
        node.address = NULL;
    if (!node.name || !node.unix_path || !node.address) {
        node_deinit(&node);
        return -ENOMEM;
    }
    config->nodes[config->n_nodes++] = node;
    return 0;
}

struct config *config_free(struct config *config) {
    if (!config)
        return NULL;
    for (unsigned i = 0; i < config->n_nodes; i++)
        node_deinit(&config->nodes[i]);
    for (unsigned i = 0; i < config->n_rules; i++)
        free(config->rules[i].pattern);
    free(config->key_prefix);
    free(config->key_suffix);
    free(config->host);
    free(config->socket_path);
    free(config);
    return NULL;
}

/* Both may be missing. */
static bool same(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_nodes(const struct config *a, const struct config *b) {
    if (a->n_nodes != b->n_nodes)
        return false;
    for (unsigned i = 0; i < a->n_nodes; i++) {
        const struct config_node *x = &a->nodes[i], *y = &b->nodes[i];

        if (!same(x->name, y->name) || !same(x->unix_path, y->unix_path) || !same(x->host, y->host) ||
            x->port != y->port || !same(x->user, y->user) || !same(x->password, y->password) ||
            x->database != y->database || x->durable != y->durable || x->tls != y->tls ||
            !same(x->tls_ca, y->tls_ca) || !same(x->tls_cert, y->tls_cert) ||
            !same(x->tls_key, y->tls_key) || !same(x->tls_name, y->tls_name))
            return false;
    }
    return true;
}

int config_restart_needed(const struct config *running, const struct config *fresh, char *buffer,
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
        {"key_format",
         same(running->key_prefix, fresh->key_prefix) && same(running->key_suffix, fresh->key_suffix)},
        {"host", same(running->host, fresh->host)},
        {"socket path", same(running->socket_path, fresh->socket_path)},
        {"max_leases", running->max_leases == fresh->max_leases},
    };
    size_t length = 0;

    if (size > 0)
        buffer[0] = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].same)
            continue;
        length +=
            (size_t) snprintf(length < size ? buffer + length : NULL, length < size ? size - length : 0,
                              "%s%s", length > 0 ? ", " : "", parts[i].name);
    }
    return (int) length;
}
