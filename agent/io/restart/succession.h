/* One process of the agent after another: makes the ledger that the next one goes on from, and goes on from
 * the last one's. Owned by the front. */
#pragma once

#include "io/client/conn.h"
#include "io/restart/fd-store.h"
#include "local/recovery/ledger.h"

struct succession {
    struct fd_store *store;
    struct ledger ledger;
    void *memory;
    size_t bytes;
    int fd;
    struct shard_predecessor predecessor; /* for the keepers */
};

/* Makes a ledger for so many sessions, tells host and service of it, and brings back the sessions and leases
 * of the newest ledger in the inheritance, which stays the caller's. What can't be brought back is dropped
 * from the manager's store. The host is paused: conn_serve() is the caller's. The keepers must run. 0 or a
 * negative errno; -ENOTCONN: there is no manager to keep anything. */
int succession_begin(struct succession *succession, struct conn_table *table, struct front_state *service,
                     const struct fd_store_inherited *inheritance, uint32_t sessions_max);

/* What is in the manager's store stays there. Fine for all zeroes. */
void succession_end(struct succession *succession);
