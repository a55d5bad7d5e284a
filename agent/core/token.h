/* Fencing tokens: which number to propose for a new holder.
 *
 * A node accepts a number only if it is larger than every one that it accepted before for the name, only
 * while the lock is the proposer's, and only near its own clock. A holder's token is a number that a
 * majority has accepted for it: so two majorities share a node that saw the smaller number first. Which
 * number is proposed decides how soon a majority agrees, and nothing else: a time is larger than all before,
 * mostly. */
#pragma once

#include <stdbool.h>

#include "base/instant.h"

struct shard;

/* A first proposal: by the median of the nodes' clocks, beyond the floors of their blessings and this
 * shard's own tokens. */
int64_t token_propose(const struct shard *shard, instant_ns now_ns);

/* How far the node's clock is ahead of the median of all; 0 when it is not known. */
int64_t token_clock_ahead_us(const struct shard *shard, unsigned node, instant_ns now_ns);

/* Whether a token that a node has accepted leaves room for a larger one that most nodes would accept. One
 * whose clock is far ahead may be beyond it. */
bool token_is_near(const struct shard *shard, int64_t token, instant_ns now_ns);
