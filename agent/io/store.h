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

struct store;

enum { STORE_RETRY_MS = 20, STORE_RETRY_LATER_MS = 1000 };

/* 0, or a negative errno: -ENOTCONN when no manager listens. */
int store_new(struct store **ret);

/* NULL is fine. Returns NULL. What is in the store stays there. */
struct store *store_free(struct store *store);

/* Gives the manager a copy of a session's descriptor: its socket or its page. 0, or a negative errno:
 * -EAGAIN when the manager is slow; -ETOOMANYREFS, -ECONNREFUSED or -ENOENT when later tries may succeed;
 * others stay. */
int store_put(struct store *store, uint64_t session, int fd);

/* The session is over: the manager closes all of its copies. */
void store_drop(struct store *store, uint64_t session);

/* Says again what the manager has not taken; when to call next, INSTANT_NEVER: nothing is left. */
instant_ns store_settle(struct store *store, instant_ns now_ns);

/* The same for the ledger, by its number; these wait for the manager, and are for the start. */
int store_put_ledger(struct store *store, uint64_t sequence, int fd);
int store_drop_ledger(struct store *store, uint64_t sequence);

/* What a former process has put there. */
struct inherited_session {
    uint64_t id;
    int fd, page_fd; /* -1: it is not there */
};

struct inheritance {
    int listen_fd; /* what a socket unit passed; -1: none */
    unsigned n_listen;
    struct inherited_session *sessions; /* by id */
    size_t n_sessions;
    struct inherited_ledger {
        uint64_t sequence;
        int fd;
    } ledgers[4];
    size_t n_ledgers;
};

/* Takes what systemd passed, once per process. 0 or a negative errno. */
int inheritance_take(struct inheritance *ret);

/* Tells the manager to drop all of it but the listening socket: nobody goes on with it. */
void inheritance_drop(const struct inheritance *inheritance);

/* Closes what is in it; but listen_fd is the caller's. Idempotent. */
void inheritance_close(struct inheritance *inheritance);
