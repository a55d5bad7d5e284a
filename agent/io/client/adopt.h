/* Restarts without a break: a process continues the sessions and leases of the former process, and keeps a
 * ledger (local/recovery/ledger.h) for the next one. Owned by the front thread. */
#pragma once

#include "io/client/conn.h"
#include "io/client/keeper-set.h"
#include "io/restart/fd-store.h"
#include "io/restart/inherited-fds.h"
#include "io/restart/ledger-memory.h"

struct adopt {
    struct fd_store *store;
    struct ledger ledger;
    struct ledger_memory memory;
    struct ledger_memory former; /* of the former process, and its reader; until adopt_begin() */
    struct ledger_reader reader;
};

struct adopt_slots {
    uint32_t requests, sessions;
};

/* Finds the newest inherited ledger; adopt_begin() follows. Returns the slots that its requests and sessions
 * need, which may be more than the configuration allows now; zeros: there is none. */
struct adopt_slots adopt_find(struct adopt *adopt, const struct inherited_fds *inherited);

struct adopt_limits {
    uint32_t sessions;          /* in the ledger */
    unsigned spare_descriptors; /* that sessions leave to connections to the nodes, without which all leases
                                   end */
};

/* Makes a ledger, gives ledger and store to table and registry, and restores the sessions and leases of the
 * ledger that adopt_find() has found. The keepers search for these leases. What can't be restored is removed
 * from the store. The table is paused until conn_serve(). The keepers must run; `inherited` stays the
 * caller's, but for the sockets of the restored sessions.
 *
 * 0 or a negative errno; -ENOTCONN without a service manager: then table and registry are as before. */
int adopt_begin(struct adopt *adopt, struct conn_table *table, struct front_state *local,
                struct keeper_set *keepers, const struct inherited_fds *inherited,
                const struct adopt_limits *limits);

/* Frees the memory; the store keeps its descriptors. Fine for all zeroes. */
void adopt_end(struct adopt *adopt);
