/* The nodes of --dev: private redis-server processes on Unix sockets in a directory of their own. They are
 * children of the agent and die with it (PR_SET_PDEATHSIG). */
#pragma once

#include <sys/types.h>

#include "config/config.h"

struct dev;

/* Creates the directory, starts `n_nodes` nodes (named a, b, c ...), waits up to 5 s until each accepts
 * connections, and adds them to `config`. Removes directories of agents that were killed.
 *
 * The nodes die with the calling *thread*: the caller must be the main thread, before others start. 0 or a
 * negative errno, which is logged; then `config` is unusable. */
int dev_start(unsigned n_nodes, struct config *config, struct dev **ret);

/* The process of node `i`, or -1. */
pid_t dev_node_pid(const struct dev *dev, unsigned i);

/* The directory, with NAME.sock and NAME.log of each node. */
const char *dev_directory(const struct dev *dev);

/* Stops the nodes and removes the directory. NULL is fine. Returns NULL. */
struct dev *dev_stop(struct dev *dev);
