/* The rules of an agent's configuration. */
#pragma once

#include "sim.h"

struct sim_agent;

/* What redlockd.conf(5) says of a client and a name. */
struct sim_rule {
    unsigned number; /* 0: no rule */
    bool may_acquire, may_resume, may_leader;
    uint32_t default_ttl_ms, max_ttl_ms;
    uint32_t max_hold_ms; /* 0: no bound */
    bool fencing;
    unsigned max_leases, max_waiters; /* of the client's user under this rule; 0: no bound */
};

void rules_choose(struct sim_agent *agent);
void rules_apply(struct sim_agent *agent); /* to a process that starts */
struct sim_rule rules_of(const struct sim_agent *agent, unsigned client, unsigned name);
