/* The service manager's descriptor store, see sd_notify(3), FDSTORE=1, and FileDescriptorStoreMax= in
 * systemd.service(5). The next process of the service inherits its descriptors (io/restart/inherited-fds.h),
 * however this process ends.
 *
 * Session descriptors are stored and removed without waiting, so that a slow manager can't delay the front.
 * What the manager doesn't take is tried again: after FD_STORE_RETRY_MS when the manager is slow, after
 * FD_STORE_RETRY_LATER_MS when too many descriptors are in flight (other programs can cause that) or the
 * manager is away. The manager removes a socket by itself when the peer closes it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/instant.h"

/* Names in the store: the prefix and 16 hex digits. A session's socket and page have one name. */
#define FD_STORE_SESSION "session-"
#define FD_STORE_LEDGER "ledger-"

enum { FD_STORE_RETRY_MS = 20, FD_STORE_RETRY_LATER_MS = 1000 };

struct fd_store;

/* 0, -ENOTCONN without a service manager, or another negative errno. */
int fd_store_new(struct fd_store **ret);

/* The store keeps its descriptors. NULL is fine. Returns NULL. */
struct fd_store *fd_store_free(struct fd_store *store);

/* Copies a session's socket or page into the store. 0; -EAGAIN: the manager is slow; -ETOOMANYREFS,
 * -ECONNREFUSED or -ENOENT: a later try may succeed; or another negative errno. */
int fd_store_put(struct fd_store *store, uint64_t session, int fd);

/* Removes a session's socket and page, now or by fd_store_settle(). The socket is shut down: without
 * memory for the removal, the manager drops it by itself, and the next agent removes the page. */
void fd_store_drop(struct fd_store *store, uint64_t session);

/* Sends the removals that the manager has not taken. When to call next, INSTANT_NEVER: none is left. */
instant_ns fd_store_settle(struct fd_store *store, instant_ns now_ns);

/* The same for a ledger, by its sequence number. These wait for the manager: only for the agent's start. */
int fd_store_put_ledger(uint64_t sequence, int fd);
int fd_store_drop_ledger(uint64_t sequence);
