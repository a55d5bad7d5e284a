/* The thread that serves the clients: listener, connections, registry. The thread sends nothing to Redis and
 * never blocks. */
#pragma once

#include "config/config.h"
#include "io/restart/inherited-fds.h"

struct front;

struct front_config {
    const struct config *config; /* of the start; outlives the front */
    const char *config_path;     /* for reloads; NULL: no file */
    const char *agent_id;
    int listen_fd;                         /* owned from front_new() on */
    bool socket_is_inherited;              /* the service manager made it */
    const struct inherited_fds *inherited; /* sessions to continue, and a store for this process's own; NULL:
                                              sessions end with the process */
};

/* Sets up the loop and starts the keepers. The caller has blocked the process's signals. 0 or a negative
 * errno. */
int front_new(const struct front_config *config, struct front **ret);

/* Serves until SIGTERM or SIGINT. 0 or a negative errno. */
int front_run(struct front *front);

/* Closes the connections and stops the keepers. NULL is fine. Returns NULL. */
struct front *front_free(struct front *front);
