/* The thread that talks to the clients: listener, sessions, registry. It never talks to Redis and never
 * waits. */
#pragma once

#include "config/config.h"
#include "io/restart/fd-store.h"

struct front;

struct front_config {
    const struct config *config; /* the one the agent started with; outlives the front */
    const char *config_path;     /* for reloads; NULL: there is no file */
    const char *agent_id;
    int listen_fd;                                /* taken over */
    const struct fd_store_inherited *inheritance; /* sessions are handed on to the next process, and these
                                              are of the last one; NULL: they end with the process */
};

/* Sets up the loop and starts the keepers. The process's signals must be blocked already. 0 or a negative
 * errno. */
int front_new(const struct front_config *config, struct front **ret);

/* Serves until SIGTERM or SIGINT, then tells the clients and returns 0; or a negative errno. */
int front_run(struct front *front);

/* Closes the connections and stops the keepers. NULL is fine. Returns NULL. */
struct front *front_free(struct front *front);
