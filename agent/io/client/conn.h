/* Client connections: sockets, sessions, and the processes behind them. Owned by the front thread. The owner
 * of conn-input (requests), conn-output (replies) and conn-store (descriptors kept for a restart). An idle
 * connection holds no buffers. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/pool.h"
#include "io/client/lingering-close.h"
#include "io/loop/heap-trim.h"
#include "io/loop/log-limit.h"
#include "io/loop/multi-write.h"
#include "io/loop/poller.h"
#include "io/restart/fd-store.h"
#include "local/session.h"

/* Kinds of log lines that clients can cause. */
enum conn_log {
    CONN_LOG_ENDED,    /* sessions that the agent ends */
    CONN_LOG_REJECTED, /* connections */
    CONN_LOG_PAGE,     /* pages that can't be passed */
    CONN_LOG_STORE,    /* sessions that the service manager doesn't store */
    CONN_LOG_WATCH,    /* connections that can't be watched */
    CONN_LOGS,
};

struct conn_table {
    struct poller *poller;
    struct front_state *local;
    struct pool slots;         /* struct conn_slot: a session's id is its slot and a generation */
    uint32_t generation;       /* of new sessions, at least: above those of former processes */
    unsigned n_open;           /* connections with a socket */
    struct list open;          /* connections with a session */
    struct list expelled;      /* without a socket; watched until their processes or leases end */
    struct list closed;        /* freed by conn_sweep() */
    struct list ready;         /* may have input */
    struct list unsent;        /* have output */
    struct list delayed;       /* have output that may wait for more, the oldest first */
    struct list unstored;      /* not yet in the store, the next one first */
    struct fd_store *store;    /* NULL: connections end with the process */
    instant_ns store_retry_ns; /* the store takes nothing before */
    bool paused;               /* no requests are taken before conn_serve() */
    char *scratch;             /* CONN_SCRATCH_BYTES for reading */
    struct multi_write multi_write;
    struct heap_trim trim;
    struct lingering_close closer;
    struct log_limit logs[CONN_LOGS];
    bool pidfd_failure_logged;
};

enum { CONN_SCRATCH_BYTES = 64 * 1024 };

/* The lists alone, all empty: enough for conn_free_all(). */
void conn_table_clear(struct conn_table *table);

/* `scratch` (CONN_SCRATCH_BYTES) and `slots_memory` (conn_slots_bytes() zeroed bytes) stay the caller's. */
void conn_table_init(struct conn_table *table, struct poller *poller, struct front_state *local,
                     char *scratch, void *slots_memory, uint32_t slots);
size_t conn_slots_bytes(uint32_t slots);

/* Owns the descriptor in any case. 0, -EUSERS when all slots are taken, or another negative errno. */
int conn_new(struct conn_table *table, int fd);

/* Replies with an error and closes the connection. Owns the descriptor. */
void conn_reject(struct conn_table *table, int fd, const char *error);

/* The session with this id, or NULL. */
struct session *conn_find(struct conn_table *table, uint64_t id);

/* Calls the function for each session with a socket. */
void conn_for_each(struct conn_table *table, void (*function)(struct session *session, void *userdata),
                   void *userdata);

/* Makes the session's deadline page, and attaches the client's descriptor to the next byte of output. 0 or a
 * negative errno. */
int conn_make_page(struct session *session);

/* The session may send requests again. */
void conn_ready(struct session *session);

/* Ends the pause: the oldest requests are served first. */
void conn_serve(struct conn_table *table);

/* Takes requests from ready connections, a bounded number from each. True when more are left. */
bool conn_work(struct conn_table *table, instant_ns now_ns);

/* Sends unsent output, as far as the sockets take it, and ends sessions that can't be replied to. */
void conn_flush(struct conn_table *table, instant_ns now_ns);

/* Frees closed connections, and closes expelled ones whose leases have ended. */
void conn_sweep(struct conn_table *table, instant_ns now_ns);

/* Closes lingering sockets and logs suppressed lines that are due. When to call next. */
instant_ns conn_tick(struct conn_table *table, instant_ns now_ns);

/* Closes and frees all without ending the sessions: the agent stops. */
void conn_free_all(struct conn_table *table);
