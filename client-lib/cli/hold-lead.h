/* `redlock hold` while this host leads: hooks, the led unit, and stepping down in time. */
#pragma once

#include <stdbool.h>

struct hold;

/* Reports to the service manager that this host leads. False: the service manager does not accept the
 * report. */
bool hold_lead_announce(struct hold *hold);

/* Leads until the lease is lost or can't be kept, or a signal has arrived. */
void hold_lead(struct hold *hold);

/* Stops the led service. `ends`: this process ends afterwards. One hook runs at a time: the leader's has
 * half of the grace to end. A further signal kills the hook that runs; the follower's runs all the same. */
void hold_lead_step_down(struct hold *hold, bool ends);

/* After a loss, when this process ends: releases a lease that was extended after all. */
void hold_lead_give_up(struct hold *hold);

/* Releases the lease. The service manager stops the led service before this process, unless the unit's
 * definition is gone: then the guard ends the service. */
void hold_lead_end(struct hold *hold);
