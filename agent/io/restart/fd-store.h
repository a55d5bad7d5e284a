/* The service manager's descriptor store: what is put there comes back to the next process of the service,
 * however this one ends. See sd_notify(3), FDSTORE=1, and FileDescriptorStoreMax= in systemd.service(5).
 *
 * Sessions are put and dropped without waiting: a manager that is slow must not hold the front up, so what
 * it does not take now is tried again: soon when it is only slow, seldom when the kernel lets no more
 * descriptors be in flight (which other programs' clients may cause) or no manager is there. The manager
 * drops a socket by itself when its peer has closed it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/instant.h"

struct fd_store;

enum { STORE_RETRY_MS = 20, STORE_RETRY_LATER_MS = 1000 };

/* 0, or a negative errno: -ENOTCONN when no manager listens. */
int fd_store_new(struct fd_store **ret);

/* NULL is fine. Returns NULL. What is in the store stays there. */
struct fd_store *fd_store_free(struct fd_store *store);

/* Gives the manager a copy of a session's descriptor: its socket or its page. 0, or a negative errno:
 * -EAGAIN when the manager is slow; -ETOOMANYREFS, -ECONNREFUSED or -ENOENT when later tries may succeed;
 * others stay. */
int fd_store_put(struct fd_store *store, uint64_t session, int fd);

/* The session is over: the manager closes all of its copies. */
void fd_store_drop(struct fd_store *store, uint64_t session);

/* Says again what the manager has not taken; when to call next, INSTANT_NEVER: nothing is left. */
instant_ns fd_store_settle(struct fd_store *store, instant_ns now_ns);

/* The same for the ledger, by its number; these wait for the manager, and are for the start. */
int fd_store_put_ledger(struct fd_store *store, uint64_t sequence, int fd);
int fd_store_drop_ledger(struct fd_store *store, uint64_t sequence);

/* What a former process has put there. */
struct fd_store_inherited_session {
    uint64_t id;
    int fd, page_fd; /* -1: it is not there */
};

struct fd_store_inherited {
    int listen_fd; /* what a socket unit passed; -1: none */
    unsigned n_listen;
    struct fd_store_inherited_session *sessions; /* by id */
    size_t n_sessions;
    struct fd_store_inherited_ledger {
        uint64_t sequence;
        int fd;
    } ledgers[4];
    size_t n_ledgers;
};

/* Takes what systemd passed, once per process. 0 or a negative errno. */
int fd_store_inherited_take(struct fd_store_inherited *ret);

/* Tells the manager to drop all of it but the listening socket: nobody goes on with it. */
void fd_store_inherited_drop(const struct fd_store_inherited *inheritance);

/* Closes what is in it; but listen_fd is the caller's. Idempotent. */
void fd_store_inherited_close(struct fd_store_inherited *inheritance);
