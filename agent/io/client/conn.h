/* A client's connection: bytes in, bytes out, and the process behind it. Owned by the front. An idle one
 * holds no buffers. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/pool.h"
#include "io/loop/multi-write.h"
#include "io/loop/heap-trim.h"
#include "io/client/lingering-close.h"
#include "io/loop/log-limit.h"
#include "io/loop/poller.h"
#include "io/restart/fd-store.h"
#include "local/session.h"

struct conn;

/* Kinds of log lines that clients can cause. */
enum conn_log {
    CONN_LOG_ENDED,   /* a session, by us */
    CONN_LOG_REFUSED, /* a connection */
    CONN_LOG_PAGE,    /* that can't be passed */
    CONN_LOG_STORE,   /* that does not take a session */
    CONN_LOG_WATCH,   /* that failed */
    CONN_LOGS,
};

struct conn_host {
    struct poller *poller;
    struct front_state *service;
    struct list conns;      /* open ones */
    struct list expelled;   /* closed by us: their process is watched as long as it may believe in a lease */
    struct list ready;      /* may have input to work on */
    struct list unsent;     /* have output */
    struct list unhurried;  /* have output that may wait for more, the oldest first */
    char *scratch;          /* CONN_SCRATCH_BYTES for reading */
    struct list closed;     /* to be freed at the end of the turn */
    struct list unstored;   /* the manager has not got them yet, oldest first */
    struct fd_store *store; /* NULL: nothing is kept for a successor */
    instant_ns store_again_ns; /* it takes nothing before */
    uint32_t generation;       /* ids of sessions are above that of any former process's */
    bool paused;               /* no requests are taken until conn_serve() */
    struct pool slots;         /* struct conn_slot: a session's id is its slot and its generation */
    unsigned open;
    struct multi_write burst; /* to several clients */
    struct heap_trim trim;
    struct lingering_close closer;
    struct log_limit logs[CONN_LOGS];
    bool told_no_pidfd;
};

enum { CONN_SCRATCH_BYTES = 64 * 1024 };

/* `scratch` of CONN_SCRATCH_BYTES and `slots_memory` of conn_slots_bytes() zeroed bytes stay the caller's.
 */
void conn_host_init(struct conn_host *host, struct poller *poller, struct front_state *service,
                    char *scratch, void *slots_memory, uint32_t slots);
size_t conn_slots_bytes(uint32_t slots);

/* Takes the descriptor over in any case. 0, -EUSERS when all slots are taken, or another negative errno. */
int conn_new(struct conn_host *host, int fd);

/* Gives the manager what has been here for long enough, and tells when there is more to give; INSTANT_NEVER
 * without a store. */
instant_ns conn_store(struct conn_host *host, instant_ns now_ns);

/* Takes over a session of a former process: its socket in any case; its page, if it has one, is mapped. NULL
 * when that can't be. */
struct session *conn_adopt(struct conn_host *host, int fd, int page_fd,
                           const struct ledger_session_view *view);

/* All that an adopted session has is in the ledger again: its successor may go on from here. `page_bytes`:
 * how much of its page was ever written. */
void conn_adopted(struct session *session, size_t page_bytes);

/* The manager is to get an adopted session's socket anew. */
void conn_store_again(struct session *session);

/* Ends the pause: those who asked first are served first. */
void conn_serve(struct conn_host *host);

/* Works on what is ready, a bounded amount for each connection; true when something is left to do. */
bool conn_work(struct conn_host *host, instant_ns now_ns);

/* Sends what is unsent, as far as the sockets take it. */
void conn_flush(struct conn_host *host, instant_ns now_ns);

/* When conn_flush() has more to send. */
instant_ns conn_due_ns(const struct conn_host *host);

/* The session may ask for more again. */
void conn_ready(struct session *session);

/* The service's way out: appends to the output. */
void conn_write(struct session *session, const char *bytes, size_t length);

/* Whether the client has read what it was told up to here: what session->written was then. */
bool conn_has_read(struct session *session, uint32_t told_at);

/* The service's page hook: makes the session's page; its descriptor goes with the next byte written. 0 or a
 * negative errno. */
int conn_make_page(struct session *session);

/* Frees connections that are closed and watch no process any more. */
void conn_sweep(struct conn_host *host, instant_ns now_ns);

/* Ends what has lingered, tells how many log lines were left out; when to call next. */
instant_ns conn_settle(struct conn_host *host, instant_ns now_ns);

/* Says why a connection is refused, and ends it. Takes the descriptor over. */
void conn_refuse(struct conn_host *host, int fd, const char *error);

/* The session with this id, or NULL. */
struct session *conn_find(struct conn_host *host, uint64_t id);

/* Calls for each open session. */
void conn_for_each(struct conn_host *host, void (*function)(struct session *session, void *userdata),
                   void *userdata);

/* Closes and frees all, telling the registry nothing: the agent ends. */
void conn_free_all(struct conn_host *host);
