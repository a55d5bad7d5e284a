/* The embedded nodes of --dev: private Redis servers that live and die with this process. */
#pragma once

#include <sys/types.h>

#include "config.h"

struct dev;

/* Starts `n_nodes` servers on Unix sockets in a private directory and adds them to `config`. They end with the thread that calls
 * this, even when it is killed. 0 or a negative errno, told. */
int dev_start(unsigned n_nodes, struct config *config, struct dev **ret);

pid_t dev_node_pid(const struct dev *dev, unsigned node);
const char *dev_directory(const struct dev *dev);

/* Ends the servers and removes the directory. NULL is fine. Returns NULL. */
struct dev *dev_stop(struct dev *dev);
