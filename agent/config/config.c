#include "config/config.h"

#include "base/cleanup.h"
#include "io/loop/secret-memory.h"

static void node_deinit(struct config_node *node) {
    char *strings[] = {node->name,   node->address,  node->unix_path, node->host,    node->user,
                       node->tls_ca, node->tls_cert, node->tls_key,   node->tls_name};

    secret_memory_free_text(node->password);
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++)
        free(strings[i]);
}

static void rule_deinit(struct policy_rule *rule) {
    for (unsigned i = 0; i < rule->n_units; i++)
        free(rule->units[i]);
    free(rule->units);
    free(rule->users);
    free(rule->groups);
    free(rule->pattern);
}

struct config *config_free(struct config *config) {
    if (!config)
        return NULL;
    for (unsigned i = 0; i < config->n_nodes; i++)
        node_deinit(&config->nodes[i]);
    for (unsigned i = 0; i < config->n_rules; i++)
        rule_deinit(&config->rules[i]);
    free(config->key_prefix);
    free(config->key_suffix);
    free(config->host);
    free(config->socket_path);
    free(config);
    return NULL;
}
