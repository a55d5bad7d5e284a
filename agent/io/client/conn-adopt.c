#include "io/client/conn-adopt.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "io/client/conn-input.h"
#include "io/client/conn-output.h"
#include "io/client/conn-store.h"
#include "io/client/conn.h"
#include "io/client/page-memory.h"
#include "io/client/peer-cred.h"
#include "io/loop/clock.h"
#include "io/restart/fd-store.h"

static void restore_state(struct conn *conn, const struct ledger_reader_session_view *view) {
    struct ledger *ledger = conn->table->local->registry.ledger;
    struct session *session = &conn->session;

    session->protocol = view->state.protocol;
    session->pushes = view->state.pushes;
    session->asked_ns = view->asked_ns;
    memcpy(session->name, view->name, sizeof(session->name));
    session->name[sizeof(session->name) - 1] = '\0';
    conn->received = conn->parsed = conn->request_at = view->state.answered;
    ledger_set_name(ledger, conn->slot, view->name);
    ledger_sent(ledger, conn->slot, &view->state);
}

/* The unanswered requests, as if they were received now. */
static void restore_input(struct conn *conn, const struct ledger_reader_session_view *view) {
    struct ledger *ledger = conn->table->local->registry.ledger;
    char *scratch = (char *) ledger->header->scratch;
    size_t length = 0;

    (void) ledger_receive(ledger, conn->slot, conn->received);
    for (unsigned i = 0; i < 2; i++) {
        if (view->unanswered[i].length > 0)
            memcpy(scratch + length, view->unanswered[i].bytes, view->unanswered[i].length);
        length += view->unanswered[i].length;
    }
    ledger_received(ledger, conn->slot, conn->received, length,
                    view->asked_ns > 0 ? view->asked_ns : clock_now_ns());
    conn->received += length;
    if (conn_input_keep(conn, scratch, length) < 0)
        conn_output_fail(conn, ENOMEM);
}

/* The process that connected; another one may still have the socket. */
static bool client_is_dead(int fd) {
    struct ucred peer;

    return peer_cred_identify(fd, &peer) == 0 && peer_cred_is_dead(peer.pid);
}

/* Makes the session's connection from its slot. Owns `fd` in any case. */
static bool make(struct conn_table *table, int fd, const struct ledger_reader_session_view *view,
                 struct conn **ret) {
    uint32_t index = (uint32_t) (view->id & LEDGER_SLOT_MASK);
    uint32_t generation = (uint32_t) (view->id >> SESSION_SLOT_BITS);
    _cleanup_close_ int owned = fd;

    return fd >= 0 && pool_claim(&table->slots, index) &&
           conn_make(table, cleanup_steal_fd(&owned), index, generation, ret) >= 0;
}

bool conn_adopt(struct conn_table *table, const struct inherited_fds_session *fds,
                const struct ledger_reader_session_view *view) {
    size_t input_bytes = view->unanswered[0].length + view->unanswered[1].length;
    struct deadline_page *page = NULL;
    struct conn *conn;

    if (!fds || fds->fd < 0 || !view->whole || input_bytes > LEDGER_LOG_BYTES_MAX || client_is_dead(fds->fd))
        return false;
    if (view->state.page && page_memory_adopt(fds->page_fd, &page) < 0)
        return false;
    if (!make(table, fcntl(fds->fd, F_DUPFD_CLOEXEC, 0), view, &conn)) {
        (void) page_memory_free(page);
        return false;
    }
    conn->session.requester.page = page;
    conn_store_adopt(conn);
    restore_state(conn, view);
    if (input_bytes > 0)
        restore_input(conn, view);
    return true;
}

static void finish(struct session *session, int page_fd) {
    struct conn *conn = conn_of(session);
    const struct ledger_state state = conn_output_state(conn);

    if (session->requester.page)
        deadline_page_clean(session->requester.page, page_memory_used_bytes(page_fd));
    ledger_sent(conn->table->local->registry.ledger, conn->slot, &state);
    if (!session->requester.page && page_fd >= 0)
        conn_store_replace(conn);
}

void conn_adopt_finish(struct conn_table *table, const struct inherited_fds *inherited) {
    for (size_t i = 0; i < inherited->n_sessions; i++) {
        struct session *session = conn_find(table, inherited->sessions[i].id);
        if (session)
            finish(session, inherited->sessions[i].page_fd);
        else
            fd_store_drop(table->store, inherited->sessions[i].id);
    }
}
