/* The trust in nodes: when a node may vote, and what agents may ask it. */
#pragma once

#include "agent.h"
#include "events.h"

void trust_reset(void);
void trust_word_arrives(const struct sim_keeper *keeper, unsigned node); /* by a BLESS, call before */
void trust_voted(unsigned agent, unsigned node, int64_t true_sent_ns);   /* and has set a key */
void trust_lost(unsigned node); /* call after the loss of its data */
void trust_restarted(unsigned node);
void trust_examined(unsigned node, const struct event *probe);   /* by a probe */
void trust_taken(unsigned node, const struct event *blessing);   /* it has the data of another fleet */
void trust_blessed(unsigned node, const struct event *blessing); /* by this, after a quarantine */
void trust_shortened(unsigned node);                             /* its epoch is for shorter leases now */
void trust_clock_set(unsigned node);

/* What a keeper sees: answers to probes and their times, answers to calls, each before and after it has read
 * them, and broken connections. */
void trust_arrives(const struct sim_keeper *keeper, unsigned node, const struct probe *answer);
void trust_probed(const struct sim_keeper *keeper, unsigned node, const struct probe *answer);
void trust_time_arrives(const struct sim_keeper *keeper, unsigned node, const struct event *answer);
void trust_timed(const struct sim_keeper *keeper, unsigned node, const struct event *answer); /* to a call */
void trust_outlived(const struct sim_keeper *keeper); /* it ends a lease, since clocks were set */
void trust_unseen(const struct sim_keeper *keeper, unsigned node);
void trust_asks(const struct sim_keeper *keeper, enum operation operation, node_set nodes);
