/* Leases that linger: they last as long as was asked, and not longer. */
#pragma once

#include "agent.h"
#include "view.h"

void lingering_reset(void);
void lingering_begin(unsigned client); /* its session ended */

/* The client asks this agent to resume a lease. That may succeed, but not for the one that lingers there. */
void lingering_resumed(unsigned client, unsigned agent);

/* A process continues: for it, what came without a process comes now. */
void lingering_restarted(const struct sim_agent *agent);

/* Processes that the holder of a lingering lease has started may still run when another client gets the
 * name. */
void lingering_check_granted(const struct view *granted);

/* The agent sends an extension of the lease with this value. */
void lingering_check_extended(const struct sim_agent *agent, unsigned name,
                              const uint8_t secret[SECRET_BYTES]);

/* A lease lingers, of whichever agent: no other client may get its name yet. */
bool lingering_lasts(void);

/* A lease of the agent lingers, or has lingered: the name may be taken. */
bool lingering_may_have(const struct sim_agent *agent, unsigned name);

/* Call before a node deletes a key with this value. */
void lingering_check_deleted(unsigned name, const uint8_t secret[SECRET_BYTES]);
