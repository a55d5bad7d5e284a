/* Sets of nodes. */
#pragma once

#include <assert.h>
#include <stdint.h>

#include "core/limits.h"

/* Bit i for node i. */
typedef uint16_t node_set;

static_assert(NODES_MAX < 16, "a node set has a bit for each node");

static inline unsigned node_set_count(node_set set) {
    return (unsigned) __builtin_popcount(set);
}

static inline node_set node_set_of(unsigned node) {
    return (node_set) (1u << node);
}
