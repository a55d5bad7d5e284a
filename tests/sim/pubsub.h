/* Messages between agents, by the nodes. */
#pragma once

#include "sim.h"

struct event;
struct sim_agent;
struct sim_keeper;
struct sim_node;

void pubsub_init(struct sim_keeper *keeper);
void pubsub_cut(struct sim_keeper *keeper, unsigned node); /* breaks a connection */
void pubsub_event(struct sim_keeper *keeper, const struct event *event);
void pubsub_deliver(const struct event *event); /* the node executes it */

/* The node publishes that the name's key is deleted. */
void pubsub_publish(const struct sim_node *node, unsigned name);

void pubsub_reset(void);
void pubsub_check(void);
extern int64_t sim_keyed_ns[SIM_NAMES]; /* a node's key was last set or removed */

bool pubsub_is_delayed(const struct sim_agent *agent); /* something is in the way to a node */
bool pubsub_is_disturbed(void);                        /* a fault from before the calm continues */
