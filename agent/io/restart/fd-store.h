/* The service manager's descriptor store, see sd_notify(3), FDSTORE=1, and FileDescriptorStoreMax= in
 * systemd.service(5). The next process of the service inherits its descriptors (io/restart/inherited-fds.h),
 * however this process ends.
 *
 * Session descriptors are stored and removed without waiting, so that a slow manager can't delay the front.
 * What the manager doesn't take is tried again: after FD_STORE_RETRY_MS when the manager is slow, after
 * FD_STORE_RETRY_LATER_MS when too many descriptors are in flight (other programs can cause that) or the
 * manager is away.
 *
 * The manager keeps a socket (FDPOLL=0) also when its peer has closed it: the peer may have sent requests
 * before, which the next process executes if there is no agent then. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/instant.h"

/* The next process gets all names in one string of its environment, $LISTEN_FDNAMES, with a colon behind
 * each. Linux executes no process with a string of more than 131,072 bytes. So the name of a session, which
 * its socket and page share, is short: the low 24 bits of its id, which are its slot and 4 bits of the
 * generation, in 4 letters. The rest of the string is for the names of ledgers and of the listening socket.
 *
 * Former versions stored sessions as "session-" and 16 hex digits: such a session keeps this name. */
enum { FD_STORE_ID_BITS = 24, FD_STORE_NAMES_BYTES_MAX = 124 * 1024 };

/* The prefix of a ledger's name; 16 hex digits follow. */
#define FD_STORE_LEDGER "ledger-"

enum { FD_STORE_RETRY_MS = 20, FD_STORE_RETRY_LATER_MS = 1000 };

/* What the store has of a session. */
struct fd_store_session {
    uint64_t id;
    bool long_name; /* of a former version */
    unsigned count; /* descriptors, all under one name */
};

/* The session of a name: its id, or the low FD_STORE_ID_BITS of it. False: it is not a session's. */
bool fd_store_parse_name(const char *name, struct fd_store_session *ret);

/* Whether the store has something of the session with this id. */
static inline bool fd_store_is_of(const struct fd_store_session *session, uint64_t id) {
    uint64_t difference = session->id ^ id;

    return (session->long_name ? difference : difference & ((1u << FD_STORE_ID_BITS) - 1)) == 0;
}

struct fd_store;

/* `inherited`: how many sessions fd_store_inherit() will get at most. 0, -ENOTCONN without a service
 * manager, or another negative errno. */
int fd_store_new(size_t inherited, struct fd_store **ret);

/* The store keeps its descriptors. NULL is fine. Returns NULL. */
struct fd_store *fd_store_free(struct fd_store *store);

/* The store has this session's descriptors from a former process. */
void fd_store_inherit(struct fd_store *store, const struct fd_store_session *session);

/* Copies a session's socket or page into the store, and counts it. 0; -EAGAIN: the manager is slow; -E2BIG:
 * there is no room for its name; -ETOOMANYREFS, -ECONNREFUSED or -ENOENT: a later try may succeed, as after
 * -E2BIG; or another negative errno. */
int fd_store_put(struct fd_store *store, struct fd_store_session *session, int fd);

/* Removes a session's socket and page, now or by fd_store_settle(). A session that an earlier build of the
 * agent stored under a long name has a short one from then on. */
void fd_store_drop(struct fd_store *store, struct fd_store_session *session);

/* Whether the manager has not yet taken the removal of a session with the same short name. A session with
 * this id must not begin: the next process could not distinguish the two. */
bool fd_store_is_dropping(const struct fd_store *store, uint64_t id);

/* Sends the removals that the manager has not taken. When to call next, INSTANT_NEVER: none is left. */
instant_ns fd_store_settle(struct fd_store *store, instant_ns now_ns);

/* The same for a ledger, by its sequence number, and for a session that no process continues. These wait for
 * the manager: only for the agent's start. */
int fd_store_put_ledger(uint64_t sequence, int fd); /* 0 or a negative errno */
void fd_store_drop_ledger(uint64_t sequence);
void fd_store_drop_inherited(const struct fd_store_session *session);
