/* A keeper's log lines about nodes and leases: each trouble once, until it changes. */
#pragma once

#include <stdbool.h>

#include "core/event.h"
#include "core/node.h"
#include "io/loop/log-limit.h"
#include "io/node/fleet.h"

struct node_log {
    const char *const *node_names;
    bool is_first;                               /* of the agent's keepers: logs what all of them see */
    char trouble[NODES_MAX][NODE_TROUBLE_BYTES]; /* the last one logged; "" when there is none */
    bool lacks_rights[NODES_MAX];                /* logged */
    char difference[DIFFERENCE_BYTES];           /* the last one logged */
    struct log_limit foreign_values, losses;
};

/* `node_names` must outlive the log. Nothing is to be freed. */
void node_log_init(struct node_log *log, const char *const *node_names, bool is_first);

/* A REPORT_NODE, REPORT_FOREIGN or REPORT_LOST; others are ignored. */
void node_log_report(struct node_log *log, const struct report *report);

/* The node's user may not subscribe to releases. */
void node_log_missing_rights(struct node_log *log, unsigned node, const char *missing);

/* Another agent of the fleet is configured differently; "": none is known. */
void node_log_difference(struct node_log *log, const char *difference);

/* Writes the counts of suppressed lines that are due. */
void node_log_settle(struct node_log *log);
