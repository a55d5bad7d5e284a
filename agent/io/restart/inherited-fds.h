/* The descriptors that systemd passes at the start (sd_listen_fds_with_names(3)): the listening socket of
 * redlockd.socket, and what a former process of the service has left in the store (io/restart/fd-store.h).
 * */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "io/restart/fd-store.h"

struct inherited_fds_session {
    struct fd_store_session stored;
    int fd, page_fd; /* -1: none */
};

struct inherited_fds_ledger {
    uint64_t sequence;
    int fd;
};

struct inherited_fds {
    int listen_fd; /* -1: none */
    unsigned n_listen;
    struct inherited_fds_session *sessions;
    size_t n_sessions;
    struct inherited_fds_ledger ledgers[4];
    size_t n_ledgers;
};

/* Once per process. 0 or a negative errno. */
int inherited_fds_take(struct inherited_fds *ret);

/* Removes the inherited ledgers from the store: call this when a newer ledger is stored. */
void inherited_fds_drop_ledgers(const struct inherited_fds *inherited);

/* Removes all sessions and ledgers from the store: no process continues them. */
void inherited_fds_drop(const struct inherited_fds *inherited);

/* Closes all that nobody took, but listen_fd, which is the caller's. Idempotent. */
void inherited_fds_close(struct inherited_fds *inherited);
