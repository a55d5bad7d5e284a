/* A lease that waits for a holder, in a shard with given votes and messages. */
#pragma once

#include "shard-harness.h"

extern const struct vote held; /* by an agent */

/* The current attempt meets the same holder on all nodes. */
void meet_holder(void);

/* A node's subscription begins; its message arrives. */
void listening(unsigned node, instant_ns since_ns);
void freed(unsigned node);

/* Waits for a holder, with subscriptions on all nodes. */
void wait_covered(unsigned nodes);

/* Passes the time; true if an attempt has started. */
bool tries_within_ms(int64_t ms);
