/* The calls of a keeper: their grouping, their way to a node, and the answers. */
#pragma once

#include "sim.h"

struct event;
struct sim_keeper;
struct sim_connection;

void calls_reset(struct sim_keeper *keeper);
void calls_add(struct sim_keeper *keeper, const struct send *send);
bool calls_pending(const struct sim_keeper *keeper);
void calls_send(struct sim_keeper *keeper);               /* all requests that were added */
bool calls_is_dropped(struct sim_connection *connection); /* a request that is sent now */
void calls_bounce(struct sim_keeper *keeper);             /* calls that could not be sent */
void calls_cut(struct sim_keeper *keeper, unsigned node); /* calls under way */
void calls_answered(struct sim_keeper *keeper, const struct event *event);
