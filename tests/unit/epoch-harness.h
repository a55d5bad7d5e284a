/* A shard whose nodes have epochs and marks, as the test says. The agent under test has a max_ttl of a
 * minute. */
#pragma once

#include "shard-harness.h"

enum { MINUTE_MS = 60000, SECOND_MS = 1000, DAY_MS = 86400000 };

/* What a probe finds: an epoch; or a mark of agents with leases of at most so many ms. */
struct probe epoch_of(uint32_t max_ttl_ms, uint32_t generation);
struct probe mark_of(uint32_t longest_ms);
void probed(unsigned node, struct probe probe);

/* A request finds that the node has no epoch. The agent leaves its mark there. */
void lose_data(unsigned node);

bool votes(unsigned node);

/* The node's quarantine since the mark; -1: without end. */
int64_t quarantine_ms(unsigned node);

/* The quarantine for leases of at most `max_ttl_ms`. */
int64_t quarantine_for(int64_t max_ttl_ms);

/* The agent starts with a max_ttl of a second and finds no epoch on any node. */
void begin_without_epochs(unsigned nodes);

/* The next probe finds this. */
void epoch_changes(unsigned node, struct probe to);
