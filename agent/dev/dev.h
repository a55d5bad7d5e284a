/* The nodes of --dev: private redis-server processes, children of the agent, on Unix sockets in a directory
 * of their own. */
#pragma once

#include <sys/types.h>

#include "config/config.h"

struct dev;

/* Makes the directory, starts `n_nodes` nodes (named a, b, c ...), waits until each accepts connections, and
 * adds them to `config`. Takes away what agents that were killed have left behind. Waits up to 5 s.
 *
 * The nodes die with the calling *thread*: call it from one that lives until the end, before others are
 * started. 0 or a negative errno, which the log has explained; `config` may have gained nodes then, and is
 * of no use. */
int dev_start(unsigned n_nodes, struct config *config, struct dev **ret);

/* The process of node `i`, -1 when there is no such node. */
pid_t dev_node_pid(const struct dev *dev, unsigned i);

/* Holds NAME.sock and NAME.log of each node. */
const char *dev_directory(const struct dev *dev);

/* Stops the nodes and removes the directory. NULL is fine. Returns NULL. */
struct dev *dev_stop(struct dev *dev);
