/* Memory that the agent can't do without: for messages between threads, and for the calls that extend
 * leases. No request can be rejected instead. The memory of a single client or node does not come from here:
 * without it, that connection ends. */
#pragma once

#include <stddef.h>

/* realloc(3) that waits for memory. After MEMORY_WAIT_MS without any the process ends with a message, since
 * leases can't be extended: the next agent, or the clients' resumption, continues them. */
void *memory_await(void *memory, size_t bytes);

/* The same for zeroed memory. */
void *memory_await_zeroed(size_t bytes);
