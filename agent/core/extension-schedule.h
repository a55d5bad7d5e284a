/* The schedule of extensions: after three eighths of the ttl, or somewhat earlier; with a fencing token
 * after TOKEN_REFRESH_MS at the latest (key-refresh.h).
 *
 * A script call for many names costs hardly more than one for a single name, and a turn of the loop costs
 * more than both. So a call that is sent is filled with leases whose extension is due soon. The leases of
 * one turn have the same next time, and stay together. Few leases take one turn, with full calls. Many are
 * spread over the whole interval, a few calls a turn, so that other requests do not wait long behind them at
 * a node, even if all leases began at once. */
#pragma once

#include <stdint.h>

#include "base/instant.h"
#include "core/limits.h"

struct lease;
struct shard;

/* When a new lease is extended first. */
instant_ns extension_schedule_first_ns(struct shard *shard, const struct lease *lease);

/* When a lease that is extended now is extended next. */
instant_ns extension_schedule_next_ns(struct shard *shard, const struct lease *lease, instant_ns now_ns);

/* Begins a turn. */
void extension_schedule_begin(struct shard *shard);

/* Chooses leases that are due soon to share the calls of this turn's due extensions. Their slots go to
 * `ret_slots`. Returns how many. */
uint32_t extension_schedule_fill(const struct shard *shard, uint32_t ret_slots[EXTENSION_TURN_NAMES],
                                 instant_ns now_ns);
