/* When leases are extended: after three eighths of their ttl, or somewhat earlier.
 *
 * A script call for many names costs hardly more than one for a single name, and a turn of the loop costs
 * more than both. So once a call goes out it is filled with leases that would have their turn soon. The
 * names of one turn have one next time and go on together: few leases take one turn, with full calls. Many
 * are spread over the whole period, a few calls a turn, so that nobody waits long behind them at a node,
 * even if all were taken at once. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/instant.h"

struct lease;
struct shard;

/* When a lease that has just been taken is extended, if it began at `started_ns`. */
instant_ns extension_schedule_first_ns(struct shard *shard, const struct lease *lease);

/* The lease is being extended: when it is next. */
instant_ns extension_schedule_next_ns(struct shard *shard, const struct lease *lease, instant_ns now_ns);

/* A turn begins. */
void extension_schedule_begin(struct shard *shard);

/* What is due has been done: extends more that would be due soon. */
void extension_schedule_fill(struct shard *shard, instant_ns now_ns);
