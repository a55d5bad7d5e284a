/* A client's connection from the inside: for conn.c, and conn-adopt.c beside it. */
#pragma once

#include "io/client/conn.h"
#include "io/client/send-buffer.h"
#include "local/recovery/ledger.h"

struct conn {
    struct session session; /* first: the service hands it back */
    struct conn_host *host;
    uint64_t id; /* the session's, also when it has ended */
    uint32_t slot;
    int fd;     /* -1 once closed; then only the process is watched */
    int pid_fd; /* -1 when the kernel has none to give */
    struct poller_target target;
    struct poller_target pid_target;
    bool readable;    /* edge-triggered: until read() says otherwise */
    bool half_closed; /* nothing will come any more */
    bool hung_up;     /* and nobody reads any more */
    int send_error;   /* nothing can be sent any more, by this errno; 0: all is well */
    bool blocked;     /* the socket is full, EPOLLOUT is awaited */
    char *input;      /* what was read and not yet parsed; NULL when nothing */
    size_t input_used;
    size_t input_length;
    struct resp_skip skip; /* of the request under way, which is over a limit */
    bool skipping;
    size_t skipped; /* bytes of it */
    struct send_buffer output;
    int own_page_fd;               /* the manager has yet to get it; -1: no */
    bool only_last;                /* what is unsent was written at once */
    instant_ns unhurried_until_ns; /* its output waits until then for more; 0: it does not */
    struct list link;              /* host->conns, or host->closed */
    struct list ready_link;
    struct list unsent_link;
    bool stored; /* the manager has it too */
    struct list unstored_link;
    instant_ns opened_ns;
    uint64_t received, parsed; /* how far we are in the stream of requests */
    uint64_t request_at;       /* where the last request that was taken begins */
};

struct conn_slot {
    uint32_t pool_link;
    uint32_t generation;
    struct conn *conn; /* NULL while free */
};

static inline struct conn *conn_of(struct session *session) {
    return (struct conn *) (void *) session;
}

/* A connection in the slot with this index, which is taken already. 0 or a negative errno. */
int conn_make(struct conn_host *host, int fd, uint32_t index, uint32_t generation, struct conn **ret);

/* Keeps what was read and not parsed. */
void conn_keep_input(struct conn *conn, const char *bytes, size_t length);

/* Requests that were held back may be taken. */
void conn_wake(struct conn *conn);

/* What the client knows once all of the output is sent. */
struct ledger_state conn_state(const struct conn *conn);
