/* A client connection from the inside: for conn.c and its children conn-*.c. */
#pragma once

#include "io/client/conn.h"
#include "io/client/send-buffer.h"
#include "resp.h"

struct conn {
    struct session session; /* first: see conn_of() */
    struct conn_table *table;
    uint64_t id; /* the session's, also when the session has ended */
    uint32_t slot;
    int fd;     /* -1 once closed */
    int pid_fd; /* -1: the kernel has no pidfd */
    struct poller_target target;
    struct poller_target pid_target;
    bool readable;    /* edge-triggered: until recv(2) has nothing more */
    bool half_closed; /* the client sends nothing more */
    bool hung_up;     /* the client reads nothing more either */
    struct list link; /* of table->open, expelled or closed */
    struct list ready_link;

    /* conn-input.c */
    char *input; /* bytes read and not parsed; NULL: none */
    size_t input_used, input_length;
    bool skipping; /* a request over a limit */
    struct resp_skip skip;
    size_t skipped_bytes;
    uint64_t received, parsed; /* positions in the stream of requests */
    uint64_t request_at;       /* position of the last request taken */

    /* conn-output.c */
    struct send_buffer output;
    int send_error;              /* errno that ended sending; 0: none */
    bool blocked;                /* the socket is full: EPOLLOUT is awaited */
    bool one_write;              /* the unsent output comes from one conn_output_write() */
    instant_ns delayed_until_ns; /* 0: not delayed */
    struct list unsent_link;

    /* conn-store.c */
    bool stored;     /* the service manager has a copy of the socket */
    int own_page_fd; /* to be stored; -1: none */
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

/* Creates a connection in a slot that is taken already; the slot is given back on failure. Owns the
 * descriptor in any case. 0 or a negative errno. */
int conn_make(struct conn_table *table, int fd, uint32_t index, uint32_t generation, struct conn **ret);

/* Queues the connection for conn_work(), whatever input there is. */
static inline void conn_queue(struct conn *conn) {
    if (list_is_empty(&conn->ready_link))
        list_append(&conn->table->ready, &conn->ready_link);
}

/* The same, if there is input. */
static inline void conn_wake(struct conn *conn) {
    if (conn->fd >= 0 && (conn->input_length > 0 || conn->readable))
        conn_queue(conn);
}
