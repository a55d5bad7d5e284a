#include "io/node/duplicate-nodes.h"

#include <string.h>

#include "io/node/redis.h"

void duplicate_nodes_init(struct duplicate_nodes *duplicates, struct redis *const *nodes, unsigned n) {
    *duplicates = (struct duplicate_nodes){.nodes = nodes, .n = n};
}

/* Another node with the process of this one, which is not rejected. */
static bool find(const struct duplicate_nodes *duplicates, unsigned node, unsigned *ret) {
    const char *run_id = redis_server_info(duplicates->nodes[node])->run_id;

    for (unsigned i = 0; i < duplicates->n; i++) {
        const struct redis *other = duplicates->nodes[i];
        if (i == node || !other || redis_state(other) != REDIS_READY ||
            (duplicates->rejected & node_set_of(i)) || strcmp(redis_server_info(other)->run_id, run_id) != 0)
            continue;
        *ret = i;
        return true;
    }
    return false;
}

bool duplicate_nodes_reject(struct duplicate_nodes *duplicates, unsigned node, unsigned *ret) {
    bool is_duplicate = find(duplicates, node, ret);

    if (is_duplicate)
        duplicates->rejected |= node_set_of(node);
    return is_duplicate;
}

node_set duplicate_nodes_gone(struct duplicate_nodes *duplicates, unsigned node) {
    node_set only = 0;
    unsigned other;

    duplicates->rejected &= (node_set) ~node_set_of(node);
    for (unsigned i = 0; i < duplicates->n; i++) {
        if (!(duplicates->rejected & node_set_of(i)) || find(duplicates, i, &other))
            continue;
        duplicates->rejected &= (node_set) ~node_set_of(i);
        if (redis_state(duplicates->nodes[i]) == REDIS_READY)
            only |= node_set_of(i);
    }
    return only;
}
