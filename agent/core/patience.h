/* Patience: how long a round's late answers are awaited before the next round begins.
 *
 * A slow node answers in order: asked anew, it is late for the new round, too, and so on. So while the
 * outstanding answers may decide the round, no other one begins, for a share of the ttl at most. Reports do
 * not wait for it. */
#pragma once

#include <stdbool.h>

#include "base/instant.h"
#include "core/event.h"

struct lease;
struct shard;

/* True if the round is open, and has asked every node that can be asked. The caller knows whether the
 * answers may decide. */
bool patience_lasts(const struct shard *shard, const struct lease *lease, instant_ns now_ns);

/* Waits on. Nodes that refused are asked again in the same round: the slow nodes may never answer. Returns
 * when to look again, since an answer may make another round necessary. */
instant_ns patience_go_on(struct shard *shard, struct lease *lease, enum operation operation,
                          instant_ns now_ns);
