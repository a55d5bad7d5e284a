/* Recovery: a new process of the agent goes on with the leases, waiting requests and observations of the
 * former one, as its ledger has them. */
#pragma once

#include "local/recovery/ledger.h"
#include "local/registry.h"

struct front_state;
struct session;

/* The former process. */
struct recovery_past {
    struct ledger_reader reader;
    struct session *(*session)(void *userdata, uint64_t id); /* NULL: the connection is not here */
    bool (*whole)(void *userdata, uint64_t id);              /* the ledger knows what its client has read */
    bool (*dead)(void *userdata, pid_t pid);                 /* surely */
    void *userdata;
    uint32_t *order; /* memory for as many zeros as the registry has slots */
};

struct recovery_result {
    unsigned held; /* leases of sessions that are here */
    instant_ns
        lost_until_ns; /* by then all leases have ended that could not be restored, and all cooldowns */
};

/* Restores what the sessions hold, wait for and observe, and what clients without a session may consider
 * valid. Before the registry gets any other request. */
struct recovery_result recovery_run(struct front_state *front, const struct recovery_past *past,
                                    instant_ns now_ns);
