/* Patience: how long a round's late answers are awaited before the next round begins.
 *
 * A slow node answers in order, so its answer to a new round would be late, too. So while the outstanding
 * answers may decide the round, no other round begins, for a share of the ttl at most. Reports do not wait
 * for late answers. */
#pragma once

#include <stdbool.h>

#include "base/instant.h"
#include "core/event.h"

struct lease;
struct shard;

/* True if the round is open, and has asked every node that can be asked. The caller knows whether the
 * answers may decide. */
bool patience_lasts(const struct shard *shard, const struct lease *lease, instant_ns now_ns);

/* Continues the round: asks the nodes that refused again, since the slow nodes may never answer. Returns
 * when to check again, since an answer may make another round necessary. */
instant_ns patience_go_on(struct shard *shard, struct lease *lease, enum operation operation,
                          instant_ns now_ns);
