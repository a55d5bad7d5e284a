#include "io/client/conn-output.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>

#include "io/client/socket-queue.h"
#include "io/loop/clock.h"
#include "io/restart/logged-io.h"

/* Without the delay each waiter wakes twice: 8 processes reach 0.78 of the hand-offs, on one core 0.81. */
enum { DELAY_NS = 1000 * 1000 };

void conn_output_init(struct conn *conn) {
    send_buffer_init(&conn->output);
    list_init(&conn->unsent_link);
}

void conn_output_deinit(struct conn *conn) {
    list_unlink(&conn->unsent_link);
    heap_trim_note(&conn->table->trim, conn->output.room);
    send_buffer_deinit(&conn->output);
}

size_t conn_output_unsent_bytes(const struct conn *conn) {
    return send_buffer_unsent(&conn->output);
}

/* Sends the output at the end of this turn. */
static void queue(struct conn *conn) {
    conn->session.unhurried = false;
    if (conn->delayed_until_ns != 0)
        list_unlink(&conn->unsent_link);
    conn->delayed_until_ns = 0;
    if (list_is_empty(&conn->unsent_link))
        list_append(&conn->table->unsent, &conn->unsent_link);
}

void conn_output_write(struct session *session, const char *bytes, size_t length) {
    struct conn *conn = conn_of(session);

    if (conn->fd < 0 || conn->send_error != 0)
        return;
    conn->one_write = conn_output_unsent_bytes(conn) == 0;
    if (send_buffer_append(&conn->output, bytes, length) < 0) {
        conn_output_fail(conn, ENOMEM);
        return;
    }
    queue(conn);
    if (session_ready(session))
        conn_wake(conn);
}

static void delay(struct conn *conn, instant_ns now_ns) {
    conn->session.unhurried = false;
    conn->delayed_until_ns = now_ns + DELAY_NS;
    list_unlink(&conn->unsent_link);
    list_append(&conn->table->delayed, &conn->unsent_link);
}

bool conn_output_delay(struct conn *conn, instant_ns now_ns) {
    if (!conn->session.unhurried || !conn->one_write || conn->session.state == SESSION_QUITTING)
        return false;
    delay(conn, now_ns);
    return true;
}

instant_ns conn_output_due_ns(const struct conn_table *table) {
    if (list_is_empty(&table->delayed))
        return INSTANT_NEVER;
    return list_entry(table->delayed.next, const struct conn, unsent_link)->delayed_until_ns;
}

void conn_output_end_delays(struct conn_table *table, instant_ns now_ns) {
    while (conn_output_due_ns(table) <= now_ns)
        queue(list_entry(table->delayed.next, struct conn, unsent_link));
}

enum registry_reading conn_output_reading(struct session *session, uint32_t written) {
    const struct conn *conn = conn_of(session);
    size_t later = (uint32_t) (session->written - written);

    if (conn->fd < 0 || conn->send_error != 0 || conn_output_unsent_bytes(conn) > later)
        return GRANT_UNREAD;
    if (socket_queue_is_read(conn->fd))
        return GRANT_READ;
    return later > 0 ? GRANT_COUNTS_AS_READ : GRANT_UNREAD;
}

struct ledger_state conn_output_state(const struct conn *conn) {
    const struct session *session = &conn->session;
    bool answered = session_ready(session) || session->state == SESSION_QUITTING;

    return (struct ledger_state){.answered = answered ? conn->parsed : conn->session.request_at,
                                 .protocol = (uint8_t) session->protocol,
                                 .pushes = session->pushes,
                                 .page = session->requester.page != NULL};
}

/* --- sending --- */

static void set_blocked(struct conn *conn, bool blocked) {
    if (conn->blocked == blocked)
        return;
    conn->blocked = blocked;
    int r =
        poller_modify(conn->table->poller, conn->fd,
                      EPOLLIN | EPOLLRDHUP | EPOLLET | (blocked ? (uint32_t) EPOLLOUT : 0u), &conn->target);
    if (r < 0)
        log_limit_write(&conn->table->logs[CONN_LOG_WATCH], clock_now_ns(),
                        "connection of process %ld: can't be watched: %s", (long) conn->session.pid,
                        strerror(-r));
}

void conn_output_unblock(struct conn *conn) {
    set_blocked(conn, false);
    if (conn_output_unsent_bytes(conn) > 0 && list_is_empty(&conn->unsent_link))
        list_append(&conn->table->unsent, &conn->unsent_link);
}

/* One system call. How many bytes were sent, or -1 and errno. */
static ssize_t send_part(struct conn *conn, const struct ledger_state *state) {
    struct ledger *ledger = conn->table->local->registry.ledger;
    const struct send_buffer_part part = send_buffer_part(&conn->output);
    struct logged_io io = {
        .socket = conn->fd, .bytes = part.bytes, .length = part.length, .passed_fd = part.fd};

    if (ledger && part.whole)
        logged_io_record(&io, ledger, conn->slot, state);
    else if (ledger)
        ledger_tear(ledger, conn->slot);
    ssize_t n = logged_io_send(&io);
    if (n > 0)
        send_buffer_advance(&conn->output, (size_t) n);
    return n;
}

static bool is_disconnect(int error) {
    return error == EPIPE || error == ECONNRESET || error == ENOTCONN;
}

/* The kernel has no memory for a message now: a later attempt succeeds. */
static bool is_shortage(int error) {
    return error == ENOBUFS || error == ENOMEM;
}

/* The kernel doesn't pass the descriptor (too many are in flight, for example): sends the reply without it,
 * because later bytes must not wait for other clients to read. */
static bool drop_descriptor(struct conn *conn, int error) {
    if (is_disconnect(error) || !send_buffer_detach(&conn->output))
        return false;
    log_limit_write(&conn->table->logs[CONN_LOG_PAGE], clock_now_ns(),
                    "session of process %ld: can't pass the deadline page: %s; the client works without",
                    (long) conn->session.pid, strerror(error));
    return true;
}

/* After a disconnect, requests that were sent before are still served. */
void conn_output_fail(struct conn *conn, int error) {
    conn->send_error = error;
    send_buffer_clear(&conn->output);
    if (conn->table->local->registry.ledger)
        ledger_tear(conn->table->local->registry.ledger, conn->slot);
    if (!is_disconnect(error)) {
        queue(conn); /* conn_output_failure() has the reason for the end */
        return;
    }
    conn->hung_up = true;
    conn_queue(conn);
}

void conn_output_flush(struct conn *conn) {
    struct ledger *ledger = conn->table->local->registry.ledger;
    const struct ledger_state state = conn_output_state(conn);

    while (conn_output_unsent_bytes(conn) > 0) {
        ssize_t n = send_part(conn, &state);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            set_blocked(conn, true);
            return;
        }
        if (n < 0 && is_shortage(errno)) {
            delay(conn, clock_now_ns()); /* the socket is not full: no event follows */
            return;
        }
        if (n < 0 && drop_descriptor(conn, errno))
            continue;
        if (n < 0) {
            conn_output_fail(conn, errno);
            break;
        }
        if (ledger && conn_output_unsent_bytes(conn) == 0)
            ledger_sent(ledger, conn->slot, &state);
    }
    set_blocked(conn, false);
    send_buffer_clear(&conn->output);
}

const char *conn_output_failure(const struct conn *conn) {
    if (conn->send_error == ENOMEM)
        return "the agent has no memory for it";
    if (conn->send_error != 0 && !is_disconnect(conn->send_error))
        return "replies can't be sent";
    return conn_output_unsent_bytes(conn) > SESSION_OUTPUT_BYTES_MAX + REPLY_BYTES_MAX
               ? "the client reads too slowly"
               : NULL;
}
