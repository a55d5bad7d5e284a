#include "io/client/conn-adopt.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "io/client/conn-input.h"
#include "io/client/conn-output.h"
#include "io/client/conn-store.h"
#include "io/client/conn.h"
#include "io/client/page-memory.h"
#include "io/client/peer-cred.h"
#include "io/client/socket-queue.h"
#include "io/loop/clock.h"
#include "local/recovery/recovery.h"

static void restore_state(struct conn *conn, const struct ledger_reader_session_view *view) {
    struct ledger *ledger = conn->table->local->registry.ledger;
    struct session *session = &conn->session;

    session->protocol = view->state.protocol;
    session->pushes = view->state.pushes;
    session->asked_ns = view->asked_ns;
    session->accepted_at = view->accepted;
    memcpy(session->name, view->name, sizeof(session->name));
    session->name[sizeof(session->name) - 1] = '\0';
    conn->received = conn->parsed = session->request_at = view->state.answered;
    ledger_set_name(ledger, conn->slot, view->name);
    ledger_sent(ledger, conn->slot, &view->state);
}

/* The unanswered requests, as if they were received now. */
static void restore_input(struct conn *conn, const struct ledger_reader_session_view *view) {
    struct ledger *ledger = conn->table->local->registry.ledger;
    char *scratch = (char *) ledger->header->scratch;
    instant_ns asked_ns = view->asked_ns > 0 ? view->asked_ns : clock_now_ns();
    size_t length = 0;

    (void) ledger_receive(ledger, conn->slot, conn->received);
    for (unsigned i = 0; i < 2; i++) {
        if (view->unanswered[i].length > 0)
            memcpy(scratch + length, view->unanswered[i].bytes, view->unanswered[i].length);
        length += view->unanswered[i].length;
    }
    ledger_received(ledger, conn->slot, conn->received, length, asked_ns);
    if (view->accepted != 0)
        ledger_accepted(ledger, conn->slot, view->accepted - 1, asked_ns);
    conn->received += length;
    if (conn_input_keep(conn, scratch, length) < 0)
        conn_output_fail(conn, ENOMEM);
}

/* Without room for it the session goes on: its leases must not be lost. */
static void open_process(struct conn_table *table, int fd, const struct ucred *peer, int *ret) {
    int r = peer_cred_open(fd, peer->pid, &table->pidfd_failure_logged, ret);

    if (r < 0)
        log_limit_write(
            &table->logs[CONN_LOG_WATCH], clock_now_ns(),
            "process %ld can't be watched: %s; its leases are released when its connection closes",
            (long) peer->pid, strerror(-r));
}

bool conn_adopt(struct conn_table *table, struct inherited_fds_session *fds,
                const struct ledger_reader_session_view *view) {
    uint32_t index = (uint32_t) (view->id & LEDGER_SLOT_MASK);
    uint32_t generation = (uint32_t) (view->id >> SESSION_SLOT_BITS);
    size_t input_bytes = view->unanswered[0].length + view->unanswered[1].length;
    struct deadline_page *page = NULL;
    _cleanup_close_ int pid_fd = -1;
    struct ucred peer; /* the process that connected; another one may still have the socket */
    struct conn *conn;

    if (!view->whole || input_bytes > LEDGER_LOG_BYTES_MAX || peer_cred_identify(fds->fd, &peer) < 0)
        return false;
    bool dead = peer_cred_is_dead(peer.pid);
    if (dead && input_bytes == 0 && socket_queue_is_empty(fds->fd))
        return false; /* its leases need no session to end */
    open_process(table, fds->fd, &peer, &pid_fd);
    dead = dead || (pid_fd < 0 && peer_cred_is_dead(peer.pid)); /* since */
    if ((view->state.page && page_memory_adopt(fds->page_fd, &page) < 0) ||
        !pool_claim(&table->slots, index) ||
        conn_make(table, cleanup_steal_fd(&fds->fd), cleanup_steal_fd(&pid_fd), &peer, index, generation,
                  &conn) < 0) {
        (void) page_memory_free(page);
        return false;
    }
    if (dead)
        conn_note_process_end(conn);
    conn->session.requester.page = page;
    conn_store_adopt(conn, &fds->stored);
    if (!page && fds->page_fd >= 0)
        conn_store_replace(conn); /* the client never received the page: another one may follow */
    restore_state(conn, view);
    if (input_bytes > 0)
        restore_input(conn, view);
    return true;
}

static void finish(struct session *session, void *userdata) {
    struct conn *conn = conn_of(session);
    const struct ledger_state state = conn_output_state(conn);

    (void) userdata;
    if (session->requester.page)
        deadline_page_clean(session->requester.page);
    ledger_sent(conn->table->local->registry.ledger, conn->slot, &state);
    recovery_end_left_out(session);
}

void conn_adopt_finish(struct conn_table *table) {
    conn_for_each(table, finish, NULL);
}
