/* The calls of a keeper: their grouping, their way to a node, and the answers. */
#pragma once

#include "core/lease.h"
#include "sim.h"

struct event;
struct sim_keeper;
struct sim_connection;

void calls_reset(struct sim_keeper *keeper);
void calls_add(struct sim_keeper *keeper, const struct send *send);
bool calls_pending(const struct sim_keeper *keeper);
void calls_send(struct sim_keeper *keeper);               /* all requests that were added */
bool calls_is_dropped(struct sim_connection *connection); /* a request that is sent now */
/* To a node that is connected, and nothing is in its way. */
void calls_transmit(struct sim_keeper *keeper, unsigned node, struct event *event);
void calls_bounce(struct sim_keeper *keeper);             /* calls that could not be sent */
void calls_cut(struct sim_keeper *keeper, unsigned node); /* calls under way */
/* The call is answered for all of its names alike. */
void calls_end(struct sim_keeper *keeper, unsigned node, const struct sim_tickets *tickets,
               enum vote_kind kind);
struct sim_tickets calls_next_outstanding(struct sim_connection *connection);
void calls_answered(struct sim_keeper *keeper, const struct event *event);
