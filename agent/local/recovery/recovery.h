/* Recovery: a new process continues the leases, waiting requests and observations in the ledger of the
 * former process. */
#pragma once

#include "core/shard.h"
#include "local/recovery/ledger-reader.h"
#include "local/registry.h"

struct front_state;
struct session;

/* The former process. */
struct recovery_past {
    struct ledger_reader reader;
    struct session *(*session)(void *userdata, uint64_t id); /* NULL: not restored */
    bool (*whole)(void *userdata, uint64_t id);              /* the ledger is complete for it */
    bool (*dead)(void *userdata, pid_t pid);                 /* false: alive or unknown */
    void *userdata;
    uint32_t *order; /* memory for as many zeros as the registry has slots */
};

struct recovery_result {
    unsigned held;            /* leases of restored sessions, */
    unsigned too_long;        /* and of these the ones with a ttl above max_ttl, which are not extended */
    unsigned moved;           /* and the ones with keys of a former key_format, which are not either */
    unsigned left_out;        /* leases and waiting requests of restored sessions that were not restored */
    instant_ns lost_until_ns; /* by then all leases that were not restored, and all cooldowns, have ended */
    struct shard_predecessors predecessors; /* for the keepers, before restore_start() */
};

/* The number of slots of a registry that has a place for each request of the ledger: a request keeps its id,
 * which has its slot. */
uint32_t recovery_slots(const struct ledger_reader *reader);

/* Restores the leases, requests and observations of restored sessions, and lingering leases. The registry
 * must be empty. The session of a lease or request that finds no place, or whose entry is damaged, gets
 * `lost` or `failed`, see recovery_end_left_out(). The caller publishes the new ledger, then starts the
 * requests with restore_start(). */
struct recovery_result recovery_run(struct front_state *front, const struct recovery_past *past,
                                    instant_ns now_ns);

/* Pushes these outcomes, when the ledger of the new process has the session's state: until they are sent, a
 * further process leaves the entries out again. */
void recovery_end_left_out(struct session *session);
