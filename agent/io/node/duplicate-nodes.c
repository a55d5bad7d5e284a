#include "io/node/duplicate-nodes.h"

#include <string.h>

#include "io/node/redis.h"

void duplicate_nodes_init(struct duplicate_nodes *duplicates, struct redis *const *nodes, unsigned n) {
    *duplicates = (struct duplicate_nodes){.nodes = nodes, .n = n};
}

static bool is_ready(const struct duplicate_nodes *duplicates, unsigned node) {
    return duplicates->nodes[node] && redis_state(duplicates->nodes[node]) == REDIS_READY;
}

static bool is_rejected(const struct duplicate_nodes *duplicates, unsigned node) {
    return duplicates->rejected & node_set_of(node);
}

static bool have_one_process(const struct duplicate_nodes *duplicates, unsigned a, unsigned b) {
    return strcmp(redis_server_info(duplicates->nodes[a])->run_id,
                  redis_server_info(duplicates->nodes[b])->run_id) == 0;
}

/* Another node that votes with the process of this one, or that may be ready with it soon. */
static bool find(const struct duplicate_nodes *duplicates, unsigned node, unsigned *ret) {
    unsigned former = duplicates->votes_as[node];

    for (unsigned i = 0; i < duplicates->n; i++) {
        if (i == node || !is_ready(duplicates, i) || is_rejected(duplicates, i) ||
            !have_one_process(duplicates, node, i))
            continue;
        *ret = i;
        return true;
    }
    if (!is_rejected(duplicates, node) ||
        (is_ready(duplicates, former) && !have_one_process(duplicates, node, former)))
        return false;
    *ret = former;
    return true;
}

bool duplicate_nodes_reject(struct duplicate_nodes *duplicates, unsigned node, unsigned *ret) {
    bool is_duplicate = find(duplicates, node, ret);

    duplicates->rejected &= (node_set) ~node_set_of(node);
    if (is_duplicate) {
        duplicates->rejected |= node_set_of(node);
        duplicates->votes_as[node] = (uint8_t) *ret;
    }
    return is_duplicate;
}

node_set duplicate_nodes_part(struct duplicate_nodes *duplicates, unsigned node) {
    node_set parted = 0;
    unsigned other;

    for (unsigned i = 0; i < duplicates->n; i++)
        if (i != node && is_ready(duplicates, i) && is_rejected(duplicates, i) &&
            !duplicate_nodes_reject(duplicates, i, &other))
            parted |= node_set_of(i);
    return parted;
}
