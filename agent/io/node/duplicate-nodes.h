/* Nodes that are one server under several names: such a server votes once. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/node-set.h"

struct redis;

struct duplicate_nodes {
    struct redis *const *nodes;
    unsigned n;
    node_set rejected;           /* votes as another node does */
    uint8_t votes_as[NODES_MAX]; /* of a rejected node: that other one */
};

/* `nodes`: the connections, which must outlive it; NULL: not made yet. */
void duplicate_nodes_init(struct duplicate_nodes *duplicates, struct redis *const *nodes, unsigned n);

/* The node is ready. True: the node is the same server as node *ret, and is rejected. It stays rejected,
 * also across reconnects, until both are ready with different processes: the server's epoch has the name of
 * *ret, and would look like another fleet's under this node's name. */
bool duplicate_nodes_reject(struct duplicate_nodes *duplicates, unsigned node, unsigned *ret);

/* Call this next: accepts the rejected nodes that are ready, and no longer the same server as this node or
 * another one. Returns them. */
node_set duplicate_nodes_part(struct duplicate_nodes *duplicates, unsigned node);
