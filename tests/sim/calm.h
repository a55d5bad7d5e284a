/* The calm at the end of a run, without faults: since when names are free and agents untroubled. */
#pragma once

#include "sim.h"

void calm_reset(void);
void calm_granted(unsigned name);

/* After an event of the calm. True: the instants below are those of now. */
bool calm_look(void);

/* Since when the name is free, and nothing keeps the agent from a quorum; 0: not now. */
int64_t calm_since_ns(unsigned name, unsigned agent);

/* Nothing has kept the agent from a quorum since then; false where the agents' sets of nodes differ. */
bool calm_is_untroubled_since(unsigned agent, int64_t true_ns);
