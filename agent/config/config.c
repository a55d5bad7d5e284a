#include "config/config.h"

#include <string.h>

#include "base/cleanup.h"

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
