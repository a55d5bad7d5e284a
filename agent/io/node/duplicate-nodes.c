#include "io/node/duplicate-nodes.h"

#include <string.h>

#include "io/node/redis.h"

void duplicate_nodes_init(struct duplicate_nodes *duplicates, struct redis *const *nodes, unsigned n) {
    *duplicates = (struct duplicate_nodes){.nodes = nodes, .n = n};
}

bool duplicate_nodes_are_twins(const struct duplicate_nodes *duplicates, unsigned node, unsigned other) {
    const struct redis *a = duplicates->nodes[node], *b = duplicates->nodes[other];

    return a && b && redis_server_info(a)->run_id[0] != '\0' &&
           strcmp(redis_server_info(a)->run_id, redis_server_info(b)->run_id) == 0;
}

bool duplicate_nodes_find(const struct duplicate_nodes *duplicates, unsigned node, unsigned *ret) {
    for (unsigned i = 0; i < duplicates->n; i++) {
        const struct redis *other = duplicates->nodes[i];
        if (i == node || !other || redis_state(other) != REDIS_READY ||
            ((duplicates->rejected | duplicates->misnamed) & node_set_of(i)) ||
            !duplicate_nodes_are_twins(duplicates, node, i))
            continue;
        *ret = i;
        return true;
    }
    return false;
}

void duplicate_nodes_reject(struct duplicate_nodes *duplicates, unsigned node) {
    duplicates->rejected |= node_set_of(node);
}

/* Rejected nodes without another one that may vote are rejected no more. Returns those that are ready. */
static node_set accept_only_ones(struct duplicate_nodes *duplicates) {
    node_set only = 0;
    unsigned other;

    for (unsigned i = 0; i < duplicates->n; i++) {
        if (!(duplicates->rejected & node_set_of(i)) || duplicate_nodes_find(duplicates, i, &other))
            continue;
        duplicates->rejected &= (node_set) ~node_set_of(i);
        if (redis_state(duplicates->nodes[i]) == REDIS_READY)
            only |= node_set_of(i);
    }
    return only;
}

node_set duplicate_nodes_name(struct duplicate_nodes *duplicates, unsigned node, bool misnamed) {
    duplicates->misnamed &= (node_set) ~node_set_of(node);
    if (!misnamed)
        return 0;
    duplicates->misnamed |= node_set_of(node);
    return accept_only_ones(duplicates);
}

node_set duplicate_nodes_gone(struct duplicate_nodes *duplicates, unsigned node) {
    duplicates->rejected &= (node_set) ~node_set_of(node);
    duplicates->misnamed &= (node_set) ~node_set_of(node);
    return accept_only_ones(duplicates);
}
