/* Leases that were released: their keys are not set again. */
#pragma once

#include "sim.h"

struct sim_request;

void released_reset(void);
void released_note(unsigned agent, const uint8_t secret[SECRET_BYTES]); /* released at this agent */

/* The node has set a missing key of the lease, by a request that this agent sent at that instant. */
void released_set_again(unsigned agent, unsigned node, const struct sim_request *request,
                        int64_t true_sent_ns);
