/* Leases that were released: their keys are deleted, and not set again. */
#pragma once

#include "view.h"

void released_reset(void);
void released_note(const struct view *view); /* its client has got the reply */
void released_look(void);                    /* at a look of the calm */

/* The node has set a missing key of the lease, by a request that this agent sent at that instant. */
void released_set_again(unsigned agent, unsigned node, const struct sim_request *request,
                        int64_t true_sent_ns);
