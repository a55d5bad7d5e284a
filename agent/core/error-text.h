/* Sentences about the state of a shard, for error replies. */
#pragma once

#include <stddef.h>

#include "core/event.h"

struct lease;
struct shard;

enum { ERROR_TEXT_BYTES = 1024 };

/* "held by web1:7c1f09ab:4321, 8123 ms left", or that the key is no lock. Returns the length. */
size_t error_text_busy(const struct lease *lease, char buffer[ERROR_TEXT_BYTES]);

/* "2 of 5 nodes voted, 3 are needed; a: connection refused; …". Who is in neither set is told with its
 * trouble. Returns the length. */
size_t error_text_no_quorum(const struct shard *shard, node_set voted, node_set open,
                            char buffer[ERROR_TEXT_BYTES]);

/* "it has ended: 2 of 3 nodes have its key no more". Returns the length. */
size_t error_text_ended(const struct shard *shard, node_set gone, char buffer[ERROR_TEXT_BYTES]);
