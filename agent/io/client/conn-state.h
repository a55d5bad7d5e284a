/* The table of connections, and a connection: the state that conn.c and its children conn-*.c share. */
#pragma once

#include <stdbool.h>

#include "base/list.h"
#include "base/pool.h"
#include "io/client/lingering-close.h"
#include "local/fair-queue.h"
#include "io/client/send-buffer.h"
#include "io/loop/heap-trim.h"
#include "io/loop/log-limit.h"
#include "io/loop/poller.h"
#include "io/restart/fd-store.h"
#include "local/session.h"
#include "resp.h"

/* Kinds of log lines that clients can cause. */
enum conn_log {
    CONN_LOG_ENDED,    /* sessions that the agent ends because of their requests, */
    CONN_LOG_UNREAD,   /* or because of what they do not read */
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
    struct list expelled;      /* without a socket; kept until their processes or leases end */
    instant_ns sweep_ns;       /* when conn_sweep() checks the expelled ones next */
    struct list closed;        /* freed by conn_sweep() */
    struct fair_queue ready;   /* may have input */
    struct list unsent;        /* have output */
    struct list delayed;       /* have output that may wait for more, the oldest first */
    struct list unstored;      /* not yet in the store, the next one first */
    struct fd_store *store;    /* NULL: connections end with the process */
    instant_ns store_retry_ns; /* the store takes nothing before */
    bool paused;               /* no requests are taken before conn_serve() */
    char *scratch;             /* CONN_SCRATCH_BYTES for reading: own_scratch, or the ledger's */
    char *own_scratch;
    void *slots_memory;
    struct heap_trim trim;
    struct lingering_close closer;
    struct log_limit logs[CONN_LOGS];
    bool pidfd_failure_logged;
};

enum { CONN_SCRATCH_BYTES = 64 * 1024 };

enum conn_unit_reading {
    CONN_UNIT_UNREAD,
    CONN_UNIT_READ,    /* `unit` NULL: the process is in none */
    CONN_UNIT_UNKNOWN, /* it can't be read */
};

struct conn {
    struct session session; /* first: see conn_of() */
    struct conn_table *table;
    uint64_t id; /* the session's, also when the session has ended */
    uint32_t slot;
    int fd; /* -1 once closed */
    gid_t gid;
    char *unit;                          /* NULL: unknown, or not needed */
    enum conn_unit_reading unit_reading; /* for the next conn_find_rules() */
    int pid_fd;                          /* -1: none, see peer_cred_open() */
    struct poller_target target;
    struct poller_target pid_target;
    bool readable;    /* edge-triggered: until recv(2) has nothing more */
    bool half_closed; /* the client sends nothing more */
    bool hung_up;     /* the client reads nothing more either */
    bool gone;        /* to be closed: the client reads and asks nothing more, or its process has ended */
    bool dead;        /* its process has ended */
    struct list link; /* of table->open, expelled or closed */
    struct list ready_link;

    /* conn-input.c */
    char *input; /* bytes read and not parsed; NULL: none */
    size_t input_used, input_length;
    size_t uncounted_bytes; /* received, and less than a unit of work */
    bool skipping;          /* a request over a limit */
    struct resp_skip skip;
    size_t skipped_bytes;
    uint64_t received, parsed; /* positions in the stream of requests */

    /* conn-output.c */
    struct send_buffer output;
    int send_error;              /* errno that ended sending; 0: none */
    bool blocked;                /* the socket is full: EPOLLOUT is awaited */
    bool one_write;              /* the unsent output comes from one conn_output_write() */
    instant_ns delayed_until_ns; /* 0: not delayed */
    struct list unsent_link;

    /* conn-bytes.c */
    size_t charged_bytes; /* in the quota */

    /* conn-store.c */
    struct fd_store_session stored; /* count: 0 until the service manager has a copy of the socket */
    int own_page_fd;                /* to be stored; -1: none */
    instant_ns store_due_ns;
    struct list unstored_link;
};

struct conn_slot {
    uint32_t pool_link;
    uint32_t generation;
    struct conn *conn; /* NULL while free */
};

static inline struct conn *conn_of(struct session *session) {
    return (struct conn *) (void *) session;
}

/* The client's process has ended: what it has sent is read, then the connection is closed. */
static inline void conn_note_process_end(struct conn *conn) {
    conn->dead = conn->gone = conn->hung_up = conn->half_closed = conn->readable = true;
}

/* Queues the connection for conn_work(), whatever input there is. */
static inline void conn_queue(struct conn *conn) {
    if (conn->gone)
        fair_queue_add_ended(&conn->table->ready, conn->session.account, &conn->ready_link);
    else
        fair_queue_add(&conn->table->ready, conn->session.account, &conn->ready_link);
}

static inline bool conn_has_input(const struct conn *conn) {
    return conn->fd >= 0 && (conn->input_length > 0 || conn->readable);
}

/* The same, if there is input. */
static inline void conn_wake(struct conn *conn) {
    if (conn_has_input(conn))
        conn_queue(conn);
}
