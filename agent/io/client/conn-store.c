#include "io/client/conn-store.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { STORE_AFTER_MS = 1000 /* most connections without a lease are closed before */ };

void conn_store_init(struct conn *conn) {
    conn->stored = (struct fd_store_session){.id = conn->id};
    conn->own_page_fd = -1;
    list_init(&conn->unstored_link);
}

void conn_store_deinit(struct conn *conn) {
    list_unlink(&conn->unstored_link);
    if (conn->own_page_fd >= 0)
        (void) close(conn->own_page_fd);
    conn->own_page_fd = -1;
}

void conn_store_add(struct conn *conn, instant_ns now_ns) {
    if (!conn->table->store)
        return;
    conn->store_due_ns = now_ns + STORE_AFTER_MS * NS_PER_MS;
    list_append(&conn->table->unstored, &conn->unstored_link);
}

static void move_to_front(struct conn *conn) {
    conn->store_due_ns = 0;
    list_unlink(&conn->unstored_link);
    list_prepend(&conn->table->unstored, &conn->unstored_link);
}

static bool has_state(const struct conn *conn) {
    return !list_is_empty(&conn->session.requester.requests) || conn->session.n_observations > 0 ||
           conn->session.requester.page;
}

void conn_store_urge(struct conn *conn) {
    if (!list_is_empty(&conn->unstored_link) && conn->store_due_ns != 0 && has_state(conn))
        move_to_front(conn);
}

void conn_store_adopt(struct conn *conn, const struct fd_store_session *stored) {
    list_unlink(&conn->unstored_link);
    conn->stored.long_name = stored->long_name;
    conn->stored.count = stored->count;
}

void conn_store_add_page(struct conn *conn, int page_fd) {
    conn->own_page_fd = page_fd;
    move_to_front(conn);
}

bool conn_store_remove(struct conn *conn) {
    bool stored = conn->stored.count > 0;

    list_unlink(&conn->unstored_link);
    if (stored)
        fd_store_drop(conn->table->store, &conn->stored);
    return stored;
}

void conn_store_replace(struct conn *conn) {
    (void) conn_store_remove(conn);
    move_to_front(conn);
}

/* 0 when the manager has the socket and the page, or a negative errno of fd_store_put(). */
static int put(struct conn *conn) {
    int r = conn->stored.count > 0 ? 0 : fd_store_put(conn->table->store, &conn->stored, conn->fd);

    if (r < 0 || conn->own_page_fd < 0)
        return r;
    r = fd_store_put(conn->table->store, &conn->stored, conn->own_page_fd);
    if (r < 0)
        return r;
    (void) close(conn->own_page_fd);
    conn->own_page_fd = -1;
    return 0;
}

/* While the manager takes nothing, the queue stays as it is. */
static void try_store(struct conn *conn, instant_ns now_ns) {
    struct conn_table *table = conn->table;

    if (list_is_empty(&conn->unstored_link) || conn->fd < 0 || now_ns < table->store_retry_ns)
        return;
    int r = put(conn);
    if (r == -EAGAIN) {
        table->store_retry_ns = now_ns + FD_STORE_RETRY_MS * NS_PER_MS;
        return;
    }
    if (r < 0)
        log_limit_write(&table->logs[CONN_LOG_STORE], now_ns,
                        "session of process %ld: can't store it: %s; it ends with this agent",
                        (long) conn->session.pid, r == -E2BIG ? "the store is full" : strerror(-r));
    if (r == -E2BIG || r == -ETOOMANYREFS || r == -ECONNREFUSED || r == -ENOENT)
        table->store_retry_ns = now_ns + FD_STORE_RETRY_LATER_MS * NS_PER_MS;
    else
        list_unlink(&conn->unstored_link);
}

void conn_store_before_reply(struct conn *conn, instant_ns now_ns) {
    if (has_state(conn))
        try_store(conn, now_ns);
}

instant_ns conn_store_tick(struct conn_table *table, instant_ns now_ns) {
    if (!table->store)
        return INSTANT_NEVER;
    instant_ns due_ns = fd_store_settle(table->store, now_ns);
    list_for_each_safe(node, &table->unstored) {
        struct conn *conn = list_entry(node, struct conn, unstored_link);
        if (now_ns < conn->store_due_ns)
            return instant_min(due_ns, conn->store_due_ns);
        try_store(conn, now_ns);
        if (!list_is_empty(&conn->unstored_link))
            return instant_min(due_ns, table->store_retry_ns);
    }
    return due_ns;
}
