/* Connections of a former process that go on here, with what it had read and not answered. */

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "io/loop/clock.h"
#include "io/client/conn-internal.h"
#include "io/client/page-memory.h"

struct session *conn_adopt(struct conn_host *host, int fd, int page_fd,
                           const struct ledger_session_view *view) {
    _cleanup_close_ int owned = fd;
    struct ledger *ledger = host->service->ledger;
    uint32_t index = (uint32_t) (view->id & LEDGER_SLOT_MASK);
    size_t length = view->unanswered[0].length + view->unanswered[1].length;
    struct deadline_page *page = NULL;
    struct conn *conn;

    if (view->state.page && page_memory_adopt(page_fd, &page) < 0)
        return NULL;
    if (length > LEDGER_LOG_BYTES_MAX || !pool_claim(&host->slots, index) ||
        conn_make(host, cleanup_steal_fd(&owned), index, (uint32_t) (view->id >> SESSION_SLOT_BITS), &conn) <
            0) {
        (void) page_memory_free(page);
        return NULL;
    }
    conn->session.page = page;
    conn->session.protocol = view->state.protocol;
    conn->session.pushes = view->state.pushes;
    memcpy(conn->session.name, view->name, sizeof(conn->session.name));
    conn->session.name[sizeof(conn->session.name) - 1] = '\0';
    list_unlink(&conn->unstored_link);
    conn->stored = true;
    conn->received = conn->parsed = conn->request_at = view->state.answered;
    ledger_set_name(ledger, index, view->name);
    ledger_sent(ledger, index, &view->state);
    if (length > 0) {
        char *scratch = (char *) ledger->header->scratch;
        (void) ledger_receive(ledger, index, conn->received);
        size_t at = 0;
        for (unsigned i = 0; i < 2; i++) {
            if (view->unanswered[i].length > 0)
                memcpy(scratch + at, view->unanswered[i].bytes, view->unanswered[i].length);
            at += view->unanswered[i].length;
        }
        ledger_received(ledger, index, conn->received, length,
                        view->asked_ns > 0 ? view->asked_ns : clock_now_ns());
        conn->received += length;
        conn_keep_input(conn, scratch, length);
    }
    conn->session.asked_ns = view->asked_ns; /* of what is to be read again */
    return &conn->session;
}

void conn_adopted(struct session *session, size_t page_bytes) {
    struct conn *conn = conn_of(session);
    const struct ledger_state state = conn_state(conn);

    if (session->page)
        deadline_page_clean(session->page, page_bytes);
    ledger_sent(conn->host->service->ledger, conn->slot, &state);
}

void conn_store_again(struct session *session) {
    struct conn *conn = conn_of(session);

    conn->stored = false;
    conn->opened_ns = 0;
    if (list_is_empty(&conn->unstored_link))
        list_prepend(&conn->host->unstored, &conn->unstored_link);
}

static int by_age(const void *a, const void *b) {
    const struct conn *one = *(struct conn *const *) a, *other = *(struct conn *const *) b;

    return one->session.asked_ns < other->session.asked_ns ? -1
                                                           : one->session.asked_ns > other->session.asked_ns;
}

void conn_serve(struct conn_host *host) {
    struct conn **conns = host->open > 0 ? malloc(host->open * sizeof(conns[0])) : NULL;
    size_t n = 0;

    host->paused = false;
    list_for_each_safe(node, &host->conns) {
        struct conn *conn = list_entry(node, struct conn, link);
        if (conns && n < host->open)
            conns[n++] = conn;
        list_unlink(&conn->ready_link);
    }
    if (n > 0)
        qsort(conns, n, sizeof(conns[0]), by_age);
    for (size_t i = 0; i < n; i++)
        conn_wake(conns[i]);
    free(conns);
}
