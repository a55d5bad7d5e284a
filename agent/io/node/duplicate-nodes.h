/* Nodes that are one server under several names: such a server votes once. */
#pragma once

#include <stdbool.h>

#include "core/node-set.h"

struct redis;

struct duplicate_nodes {
    struct redis *const *nodes;
    unsigned n;
    node_set rejected; /* votes as another node does */
    node_set misnamed; /* the server's epoch has the name of another node of ours */
};

/* `nodes`: the connections, which must outlive it; NULL: not made yet. */
void duplicate_nodes_init(struct duplicate_nodes *duplicates, struct redis *const *nodes, unsigned n);

/* Both are one server, as far as is known of the one that is not ready. */
bool duplicate_nodes_are_twins(const struct duplicate_nodes *duplicates, unsigned node, unsigned other);

/* True: the node is the server of another one that is ready and may vote, *ret. One of the two is to be
 * rejected. */
bool duplicate_nodes_find(const struct duplicate_nodes *duplicates, unsigned node, unsigned *ret);
void duplicate_nodes_reject(struct duplicate_nodes *duplicates, unsigned node);

/* Whether the server's epoch has the name of a twin: the server votes as the node of that name, since the
 * epoch would look like another fleet's under another one. Returns as duplicate_nodes_gone(). */
node_set duplicate_nodes_name(struct duplicate_nodes *duplicates, unsigned node, bool misnamed);

/* The node is not ready. Returns rejected nodes that are ready, and now the only ones of their servers. */
node_set duplicate_nodes_gone(struct duplicate_nodes *duplicates, unsigned node);
