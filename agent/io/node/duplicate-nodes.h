/* Nodes that are one server under several names: such a server votes once. */
#pragma once

#include <stdbool.h>

#include "core/node-set.h"

struct redis;

struct duplicate_nodes {
    struct redis *const *nodes;
    unsigned n;
    node_set rejected; /* votes as another node does */
};

/* `nodes`: the connections, which must outlive it; NULL: not made yet. */
void duplicate_nodes_init(struct duplicate_nodes *duplicates, struct redis *const *nodes, unsigned n);

/* The node is ready. True: it is the server of node *ret, and rejected. */
bool duplicate_nodes_reject(struct duplicate_nodes *duplicates, unsigned node, unsigned *ret);

/* The node is not ready. Returns rejected nodes that are ready, and now the only ones of their servers. */
node_set duplicate_nodes_gone(struct duplicate_nodes *duplicates, unsigned node);
