/* A keeper's log lines about nodes, and about keys there: each trouble once, until it changes.
 *
 * A node that votes and cuts the connection again and again has a new state each time. So the states of each
 * node are limited, and the last one follows the count of those that were suppressed: the log ends with the
 * state that the node stays in. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/event.h"
#include "core/node.h"
#include "io/loop/log-limit.h"

enum { NODE_LOG_DIFFERENCES = 16 };

/* A state whose line was suppressed. */
struct node_log_state {
    bool due; /* the line is to follow */
    enum node_state node_state;
    char text[NODE_TROUBLE_BYTES];
};

struct node_log {
    const char *const *node_names;
    bool is_first;                               /* of the agent's keepers: logs what all of them see */
    char trouble[NODES_MAX][NODE_TROUBLE_BYTES]; /* the last one logged; "" when there is none */
    bool lacks_rights[NODES_MAX];                /* logged */
    uint64_t differences[NODE_LOG_DIFFERENCES];  /* hashes of those logged, the last seen first */
    struct log_limit foreign_values;
    struct log_limit state_lines[NODES_MAX];
    struct node_log_state suppressed[NODES_MAX];
    instant_ns due_ns; /* when a suppressed state is due; INSTANT_NEVER: none is suppressed */
};

/* `node_names` must outlive the log. Nothing is to be freed. */
void node_log_init(struct node_log *log, const char *const *node_names, bool is_first);

/* A REPORT_NODE or REPORT_FOREIGN; others are ignored. (The front logs losses.) */
void node_log_report(struct node_log *log, const struct report *report);

/* The node's user may not subscribe to releases, for the reason in `missing`. */
void node_log_missing_rights(struct node_log *log, unsigned node, const char *missing);

/* Another agent of the fleet is configured differently; "": none is known. Nodes may show different agents:
 * each of the last NODE_LOG_DIFFERENCES texts is logged once. */
void node_log_difference(struct node_log *log, const char *difference);

/* Writes the counts of suppressed lines that are due, and the last states. Call at `due_ns` at the latest.
 * */
void node_log_settle(struct node_log *log, instant_ns now_ns);
