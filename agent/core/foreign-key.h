/* Others' values under our keys. Some are orphans: a former process of this agent was killed between setting
 * them and telling a client. What its clients do believe in is in the ledger, and stands in this agent's
 * lines. So a key that an attempt meets here, with the former process's identity in its value, is nobody's:
 * it is deleted, rather than waited for.
 *
 * Only the very value that was seen is deleted: a lease that was resumed at another agent since has another.
 */
#pragma once

#include <stdbool.h>

#include "base/instant.h"
#include "core/event.h"

struct shard;
struct lease;

/* An attempt has met this value. True when it was an orphan, which is being deleted. */
bool foreign_key_is_orphan(struct shard *shard, const struct lease *lease, unsigned node,
                           const struct vote *vote, instant_ns now_ns);

/* A node's answer about a held lease: an orphan is deleted, and of another's value the front is told. */
void foreign_key_seen(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
                      instant_ns now_ns);
