/* Foreign keys: keys of our leases that have another's value.
 *
 * Some are orphans: a former process of this agent was killed after it set them, and before it sent the
 * grant. The leases of granted clients are in the ledger, and the new process has them. So an
 * attempt that meets a key with a former process's identity deletes it, instead of waiting for its ttl.
 * Several processes may be killed within a ttl, each before it has met the orphans of the one before.
 *
 * Only the very value that was met is deleted: a lease that was resumed at another agent has another. A
 * client's RESUME that a former process sent may reach a node late, after the client has resumed the lease
 * elsewhere with the same resume token: then the key of a valid lease has that process's value. So the keys
 * of a process that ever sent a RESUME are left to their ttl, and so are those of processes whose leases the
 * ledger had no room for (`spared`). A node that was out of reach since the restart may have the former
 * value of a lease that was lost here since, and whose holder may rely on the lease yet: so no orphan is
 * deleted before the deadline of a lost lease, or of one that was not found after the restart while another
 * agent may have resumed it at some nodes (core/resume.c). */
#pragma once

#include <stdbool.h>

#include "base/instant.h"
#include "core/event.h"

struct shard;
struct lease;

/* An attempt met this value. True: it is an orphan, whose deletion has begun. */
bool foreign_key_is_orphan(struct shard *shard, const struct lease *lease, unsigned node,
                           const struct vote *vote, instant_ns now_ns);

/* The node has deleted an ended lock of the SETNX and GETSET pattern (acquire.lua). */
bool foreign_key_was_deleted(const struct vote *vote);

/* A node's answer to an extension: reports a foreign value that the node had at the extension before, too,
 * once for each node until the node says yes again. Where the holder's key is missing, as on the minority
 * that an attempt did not win, each attempt of a contender sets its own key for milliseconds, each time with
 * another value. The lease watches one node's values at a time. An orphan is left to its ttl, since it may
 * be this lease's key: a late request of the former process gives the key its former value again, and the
 * key still keeps others from a majority. */
void foreign_key_seen(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
                      instant_ns now_ns);
