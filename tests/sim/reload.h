/* Nodes that have lost the scripts: calls that they refuse, and that are sent once more. The order is the
 * agent's own (core/reload-queue.h). */
#pragma once

#include <stdbool.h>

struct event;
struct sim_connection;
struct sim_keeper;

void reload_reset(void);

/* True if the call waits until the scripts are loaded. */
bool reload_holds(struct sim_connection *connection, const struct event *call);

void reload_refused(struct sim_keeper *keeper, const struct event *call); /* by NOSCRIPT */
void reload_overtaken(struct sim_keeper *keeper, unsigned node);          /* by a call that was executed */
void reload_done(struct sim_keeper *keeper, unsigned node);
void reload_cut(struct sim_keeper *keeper, unsigned node); /* the connection broke */
