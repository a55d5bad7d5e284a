/* Sentences for error replies, composed from the state of a shard. */
#pragma once

#include <stddef.h>

#include "core/event.h"

struct lease;
struct shard;

enum { ERROR_TEXT_BYTES = 1024 };

/* The reason why the name is busy: "held by web1:7c1f09ab:4321, 8123 ms left". Returns the length. */
size_t error_text_busy(const struct lease *lease, char buffer[ERROR_TEXT_BYTES]);

/* The reason why there is no quorum: "2 of 5 nodes voted, 3 are needed; a: connection refused; …", with the
 * troubles of the nodes in neither set. Returns the length. */
size_t error_text_no_quorum(const struct shard *shard, node_set voted, node_set open,
                            char buffer[ERROR_TEXT_BYTES]);

/* The reason why a resume failed: "the lease has ended: 2 of 3 nodes no longer have its key". Returns the
 * length. */
size_t error_text_ended(const struct shard *shard, node_set gone, char buffer[ERROR_TEXT_BYTES]);
