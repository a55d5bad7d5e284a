/* What all agents of a fleet have to have in common, and how they hear that they don't.
 *
 * A fleet is a set of nodes: their names, and fence_skew, by which tokens are bounded. Each node's epoch
 * says of which fleet it is, and by which of its names it is called there; agents of another one get no
 * votes (core/node.h). An address is no part of that, since hosts may reach a node in different ways. But
 * each agent notes on the nodes by which addresses it reaches those that have an epoch: so one that finds
 * another server under a node's name is told.
 *
 * The rest of what should be the same is told to people: each agent leaves its settings on the nodes, for a
 * few minutes at a time, and says what another one has differently. */
#pragma once

#include "config/config.h"
#include "io/node/epoch.h"

enum {
    FLEET_TEXT_BYTES = 640, /* "a of a, b, c with fence_skew 60s" */
    SETTINGS_BYTES = 416,
    DIFFERENCE_BYTES = 224,
    NODE_ADDRESS_BYTES = 280,
};

/* As one node has it. */
struct fleet {
    const struct config *config;
    char id[FLEET_BYTES];
    char text[FLEET_TEXT_BYTES];   /* the same for people */
    char settings[SETTINGS_BYTES]; /* "version=0.2.0 keys=2 max_ttl=60s …" */
};

void fleet_init(struct fleet *fleet, const struct config *config, unsigned node);

/* What is to be said of a node whose epoch, or a mark, is of another fleet: `others` is its text there, ""
 * if it is not known. */
void fleet_explain(const struct fleet *fleet, const char *others, bool blessed, char *buffer, size_t size);

/* How another agent's settings differ: "max_ttl = 2s at another agent, 60s here; …"; "" if they don't. */
void fleet_difference(const struct fleet *fleet, const char *others, char buffer[static DIFFERENCE_BYTES]);

/* By which address we reach it. */
void fleet_address(const struct config_node *node, char buffer[static NODE_ADDRESS_BYTES]);
