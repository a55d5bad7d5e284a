/* Faults, until the calm. */
#pragma once

#include "sim.h"

extern struct sim_faults {
    bool kills;           /* agents are killed more often */
    bool losses;          /* nodes lose their memory */
    bool far_clocks;      /* the nodes' clocks are far apart */
    bool deaf_agents;     /* agents lose messages in the calm */
    bool bad_starts;      /* a restarted agent's searches are late, and it is often killed again */
    bool slow_starts;     /* its uplink is down at first; holders send heartbeats meanwhile */
    int64_t gap_ms;       /* the longest pause between faults */
    unsigned next_killed; /* 1 + the agent that fault_last() has chosen; 0: none */
} sim_faults;             /* of this run */

void fault(void);      /* and the next one later */
void fault_last(void); /* before the calm */
