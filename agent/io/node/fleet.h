/* The settings that all agents of a fleet must share, and the detection of differences.
 *
 * A fleet is a set of nodes: their names, and fence_skew, which bounds tokens. Each node's epoch contains
 * its fleet and the node's name there; agents of another fleet get no votes (core/node-epoch.h). Addresses
 * are not part of a fleet, since hosts may reach a node in different ways. But each agent notes on the nodes
 * the addresses of those that have an epoch, so that an agent with another server under a node's name
 * notices.
 *
 * Other differences are reported to people: each agent leaves its settings on the nodes for a few minutes at
 * a time, and logs the differences of another agent's. */
#pragma once

#include "config/config.h"
#include "io/node/epoch.h"

enum {
    FLEET_TEXT_BYTES = 640, /* "a of a, b, c with fence_skew 60s" */
    SETTINGS_BYTES = 416,
    DIFFERENCE_BYTES = 224,
    NODE_ADDRESS_BYTES = 280,
};

/* A fleet from the view of one node. */
struct fleet {
    const struct config *config;
    char id[FLEET_BYTES];
    char text[FLEET_TEXT_BYTES];   /* the same for people */
    char settings[SETTINGS_BYTES]; /* "version=0.4.0 keys=5 max_ttl=60s …" */
};

void fleet_init(struct fleet *fleet, const struct config *config, unsigned node);

/* Why a node does not vote whose epoch, or a mark, is of another fleet: `others` is that fleet's text, "" if
 * unknown. */
void fleet_explain(const struct fleet *fleet, const char *others, bool blessed, char *buffer, size_t size);

/* The differences of another agent's settings: "max_ttl = 2s at another agent, 60s here; …"; "" without. */
void fleet_difference(const struct fleet *fleet, const char *others, char buffer[static DIFFERENCE_BYTES]);

/* The node's address in this agent's configuration. */
void fleet_address(const struct config_node *node, char buffer[static NODE_ADDRESS_BYTES]);
