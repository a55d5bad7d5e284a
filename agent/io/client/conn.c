#include "io/client/conn.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/generation.h"
#include "io/loop/clock.h"
#include "io/client/conn-internal.h"
#include "io/client/peer-cred.h"
#include "io/client/page-memory.h"
#include "io/restart/logged-io.h"

enum {
    TURN_REQUESTS_MAX = 1024, /* of all connections: then the keepers' news are read */
    REQUESTS_PER_TURN = 64,   /* of one connection, before the others get their turn */
    STORE_AFTER_MS = 1000,    /* connections without a lease: short ones are not worth the manager's while */
    LOG_ROOM_BYTES_MIN = 256,
    UNHURRIED_NS = 1000 * 1000,
    TOGETHER_MIN = 3, /* for two, the call costs as much as it saves */
    OUTPUT_PAUSE_BYTES =
        SESSION_OUTPUT_BYTES_MAX / 2, /* unread replies beyond which no more requests are taken */
};

static_assert((int) CONN_SCRATCH_BYTES == (int) LEDGER_SCRATCH_BYTES, "either is read into");

void conn_host_init(struct conn_host *host, struct poller *poller, struct front_state *service,
                    char *scratch, void *slots_memory, uint32_t slots) {
    static const struct log_limit logs[CONN_LOGS] = {
        [CONN_LOG_ENDED] = {.kind = "sessions that were ended", .level = LOG_LEVEL_NOTICE},
        [CONN_LOG_REFUSED] = {.kind = "refused connections", .level = LOG_LEVEL_WARNING},
        [CONN_LOG_PAGE] = {.kind = "pages that can't be passed", .level = LOG_LEVEL_WARNING},
        [CONN_LOG_STORE] = {.kind = "sessions that can't be stored", .level = LOG_LEVEL_WARNING},
        [CONN_LOG_WATCH] = {.kind = "connections that can't be watched", .level = LOG_LEVEL_ERROR},
    };

    assert(slots < 1u << SESSION_SLOT_BITS);

    *host = (struct conn_host){.poller = poller, .service = service, .scratch = scratch};
    host->generation = generation_first(clock_now_ns());
    multi_write_init(&host->burst);
    lingering_close_init(&host->closer, poller);
    list_init(&host->conns);
    list_init(&host->ready);
    heap_trim_init(&host->trim);
    list_init(&host->unsent);
    list_init(&host->unhurried);
    list_init(&host->expelled);
    list_init(&host->closed);
    list_init(&host->unstored);
    pool_init(&host->slots, slots_memory, sizeof(struct conn_slot), slots);
    memcpy(host->logs, logs, sizeof(logs));
}

instant_ns conn_settle(struct conn_host *host, instant_ns now_ns) {
    instant_ns due_ns = lingering_close_tick(&host->closer, now_ns);

    for (unsigned i = 0; i < CONN_LOGS; i++)
        due_ns = instant_min(due_ns, log_limit_settle(&host->logs[i], now_ns));
    return due_ns;
}

size_t conn_slots_bytes(uint32_t slots) {
    return (size_t) slots * sizeof(struct conn_slot);
}

struct session *conn_find(struct conn_host *host, uint64_t id) {
    uint32_t index = (uint32_t) (id & ((1u << SESSION_SLOT_BITS) - 1));

    if (index >= host->slots.touched)
        return NULL;
    const struct conn_slot *slot = pool_at(&host->slots, index);
    return slot->conn && slot->conn->session.id == id ? &slot->conn->session : NULL;
}

/* --- the end --- */

static void drop_socket(struct conn *conn) {
    if (conn->fd >= 0) {
        poller_remove(conn->host->poller, conn->fd);
        (void) close(conn->fd);
        conn->host->open--;
    }
    conn->fd = -1;
    if (conn->own_page_fd >= 0)
        (void) close(conn->own_page_fd);
    conn->own_page_fd = -1;
    list_unlink(&conn->ready_link);
    list_unlink(&conn->unsent_link);
    heap_trim_note(&conn->host->trim, conn->output.room + conn->input_length);
    send_buffer_deinit(&conn->output);
    free(conn->input);
    conn->input = NULL;
    conn->input_length = 0;
}

/* Its client is to read what was said last, if anybody can. */
static void end_socket(struct conn *conn, instant_ns now_ns) {
    struct conn_host *host = conn->host;

    list_unlink(&conn->unstored_link);
    if (conn->stored)
        fd_store_drop(host->store, conn->id);
    if (conn->fd >= 0 && conn->send_error == 0 && !conn->hung_up) {
        poller_remove(host->poller, conn->fd);
        lingering_close_take(&host->closer, conn->fd, &conn->output, now_ns);
        conn->fd = -1;
        host->open--;
    } else if (conn->stored) {
        (void) shutdown(conn->fd, SHUT_RDWR); /* the manager's copy would keep the connection open */
    }
    conn->stored = false;
    drop_socket(conn);
}

void conn_refuse(struct conn_host *host, int fd, const char *error) {
    struct send_buffer output;

    send_buffer_init(&output);
    send_buffer_append(&output, error, strlen(error));
    lingering_close_take(&host->closer, fd, &output, clock_now_ns());
    send_buffer_deinit(&output);
}

/* The caller must not touch the session afterwards, but may within this turn. */
static void conn_close(struct conn *conn, instant_ns now_ns) {
    session_end(&conn->session, conn->host->service, now_ns);
    if (conn->host->service->ledger)
        ledger_close(conn->host->service->ledger, conn->slot);
    end_socket(conn, now_ns);
    list_unlink(&conn->link);
    list_append(&conn->host->closed, &conn->link);
}

static void conn_free(struct conn *conn) {
    struct conn_slot *slot = pool_at(&conn->host->slots, conn->slot);

    list_unlink(&conn->unstored_link);
    drop_socket(conn);
    if (conn->pid_fd >= 0) {
        poller_remove(conn->host->poller, conn->pid_fd);
        (void) close(conn->pid_fd);
    }
    list_unlink(&conn->link);
    conn->session.page = page_memory_free(conn->session.page);
    slot->conn = NULL;
    pool_give(&conn->host->slots, conn->slot);
    free(conn);
}

void conn_sweep(struct conn_host *host, instant_ns now_ns) {
    list_for_each_safe(expelled, &host->expelled) {
        struct conn *conn = list_entry(expelled, struct conn, link);
        if (list_is_empty(&conn->session.requester.requests))
            conn_close(conn, now_ns);
    }
    list_for_each_safe(node, &host->closed) conn_free(list_entry(node, struct conn, link));
}

void conn_free_all(struct conn_host *host) {
    struct list *const lists[] = {&host->conns, &host->expelled, &host->closed};

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        list_for_each_safe(node, lists[i]) conn_free(list_entry(node, struct conn, link));
    multi_write_deinit(&host->burst);
    lingering_close_deinit(&host->closer);
}

static void flush(struct conn *conn);

/* We end the session, not the client: it is told, and its keys stay while its process may believe in them.
 */
static void conn_expel(struct conn *conn, const char *why, instant_ns now_ns) {
    bool stays = session_expel(&conn->session, conn->host->service, why, now_ns);

    if (conn->fd >= 0)
        flush(conn);
    if (!stays) {
        conn_close(conn, now_ns);
        return;
    }
    if (conn->host->service->ledger)
        ledger_tear(conn->host->service->ledger, conn->slot); /* a successor leaves its leases alone too */
    end_socket(conn, now_ns);
    list_unlink(&conn->link);
    list_append(&conn->host->expelled, &conn->link);
    log_limit_write(
        &conn->host->logs[CONN_LOG_ENDED], now_ns,
        "session of process %ld ended: %s. Its leases end by their deadlines, or with the process",
        (long) conn->session.pid, why);
}

/* --- output --- */

void conn_wake(struct conn *conn) {
    if (conn->fd >= 0 && (conn->input_length > 0 || conn->readable) && list_is_empty(&conn->ready_link))
        list_append(&conn->host->ready, &conn->ready_link);
}

void conn_ready(struct session *session) {
    conn_wake(conn_of(session));
}

/* Its output is sent at the end of this turn. */
static void hurry(struct conn *conn) {
    conn->session.unhurried = false;
    if (conn->unhurried_until_ns != 0)
        list_unlink(&conn->unsent_link);
    conn->unhurried_until_ns = 0;
    if (list_is_empty(&conn->unsent_link))
        list_append(&conn->host->unsent, &conn->unsent_link);
}

void conn_write(struct session *session, const char *bytes, size_t length) {
    struct conn *conn = conn_of(session);

    if (conn->fd < 0 || conn->send_error != 0)
        return;
    conn->only_last = send_buffer_unsent(&conn->output) == 0;
    send_buffer_append(&conn->output, bytes, length);
    hurry(conn);
    if (session_ready(session))
        conn_wake(conn);
}

static void set_blocked(struct conn *conn, bool blocked) {
    if (conn->blocked == blocked)
        return;
    conn->blocked = blocked;
    int r =
        poller_modify(conn->host->poller, conn->fd,
                      EPOLLIN | EPOLLRDHUP | EPOLLET | (blocked ? (uint32_t) EPOLLOUT : 0u), &conn->target);
    if (r < 0)
        log_limit_write(&conn->host->logs[CONN_LOG_WATCH], clock_now_ns(),
                        "can't watch the connection of process %ld: %s", (long) conn->session.pid,
                        strerror(-r));
}

int conn_make_page(struct session *session) {
    struct conn *conn = conn_of(session);
    _cleanup_close_ int own_fd = -1;
    int client_fd = -1;

    assert(!session->page);
    if (conn->fd < 0 || conn->send_error != 0)
        return -ENOTCONN;
    int r = page_memory_new(&session->page, &own_fd, &client_fd);
    if (r < 0)
        return r;
    send_buffer_attach(&conn->output, client_fd);
    if (!conn->host->store)
        return 0;
    conn->own_page_fd = cleanup_steal_fd(&own_fd);
    conn->opened_ns = 0;
    if (list_is_empty(&conn->unstored_link))
        list_prepend(&conn->host->unstored, &conn->unstored_link);
    return 0;
}

struct ledger_state conn_state(const struct conn *conn) {
    const struct session *session = &conn->session;
    bool answered = session_ready(session) || session->state == SESSION_QUITTING;

    return (struct ledger_state){.answered = answered ? conn->parsed : conn->request_at,
                                 .protocol = (uint8_t) session->protocol,
                                 .pushes = session->pushes,
                                 .page = session->page != NULL};
}

/* Sends what goes by one call; noted in the ledger. */
static ssize_t send_some(struct conn *conn, const struct ledger_state *state) {
    struct ledger *ledger = conn->host->service->ledger;
    const struct send_buffer_part part = send_buffer_part(&conn->output);
    struct logged_io transfer = {
        .socket = conn->fd, .bytes = part.bytes, .length = part.length, .passed_fd = part.fd};

    if (ledger && part.whole)
        logged_io_note_whole(&transfer, ledger, conn->slot, state);
    else if (ledger)
        ledger_tear(ledger, conn->slot);
    ssize_t n = logged_io_send(&transfer);
    if (n > 0)
        send_buffer_advance(&conn->output, (size_t) n);
    return n;
}

static bool is_gone(int error) {
    return error == EPIPE || error == ECONNRESET || error == ENOTCONN;
}

/* The kernel does not take the descriptor, as when too many are in flight: the reply goes without it, for
 * the bytes behind it must not wait until some other client reads. */
static bool keep_descriptor(struct conn *conn, int error) {
    if (is_gone(error) || !send_buffer_detach(&conn->output))
        return false;
    log_limit_write(&conn->host->logs[CONN_LOG_PAGE], clock_now_ns(),
                    "can't pass the page to process %ld, which does without: %s", (long) conn->session.pid,
                    strerror(error));
    return true;
}

/* Nothing more can be sent, and what is unsent is lost. Where nobody reads any more, the requests that were
 * sent before are still worked on. */
static void break_off(struct conn *conn, int error) {
    conn->send_error = error;
    send_buffer_clear(&conn->output);
    if (conn->host->service->ledger)
        ledger_tear(conn->host->service->ledger, conn->slot);
    if (!is_gone(error))
        return; /* after_flush() ends it */
    conn->hung_up = true;
    if (list_is_empty(&conn->ready_link))
        list_append(&conn->host->ready, &conn->ready_link);
}

static void flush(struct conn *conn) {
    struct ledger *ledger = conn->host->service->ledger;
    const struct ledger_state state = conn_state(conn);

    while (send_buffer_unsent(&conn->output) > 0) {
        ssize_t n = send_some(conn, &state);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            set_blocked(conn, true);
            return;
        }
        if (n < 0 && keep_descriptor(conn, errno))
            continue;
        if (n < 0) {
            break_off(conn, errno);
            break;
        }
        if (ledger && send_buffer_unsent(&conn->output) == 0)
            ledger_sent(ledger, conn->slot, &state);
    }
    set_blocked(conn, false);
    send_buffer_clear(&conn->output);
}

static size_t unsent_bytes(const struct conn *conn) {
    return send_buffer_unsent(&conn->output);
}

/* The kernel says how much of the output is unread, with an overhead of its own. Behind more output the
 * grant may be read or not: then the client has the benefit of the doubt, since a client that works may
 * leave pushes unread. */
bool conn_has_read(struct session *session, uint32_t told_at) {
    const struct conn *conn = conn_of(session);
    size_t behind = (uint32_t) (session->written - told_at);
    int unread = 0;

    if (conn->fd < 0 || conn->send_error != 0 || unsent_bytes(conn) > behind)
        return false;
    if (behind > 0 || ioctl(conn->fd, SIOCOUTQ, &unread) < 0)
        return true;
    return unread <= 1;
}

/* --- the manager's store --- */

/* It would lose something with its connection. */
static bool has_stake(const struct conn *conn) {
    return !list_is_empty(&conn->session.requester.requests) || conn->session.n_observations > 0 ||
           conn->session.page;
}

static int put_into_store(struct conn *conn) {
    int r = conn->stored ? 0 : fd_store_put(conn->host->store, conn->id, conn->fd);

    conn->stored |= r == 0;
    if (r < 0 || conn->own_page_fd < 0)
        return r;
    r = fd_store_put(conn->host->store, conn->id, conn->own_page_fd);
    if (r < 0)
        return r;
    (void) close(conn->own_page_fd);
    conn->own_page_fd = -1;
    return 0;
}

/* While the manager does not take it, it stays in line, and so do those behind it. */
static void give_to_store(struct conn *conn, instant_ns now_ns) {
    struct conn_host *host = conn->host;

    if (list_is_empty(&conn->unstored_link) || conn->fd < 0 || now_ns < host->store_again_ns)
        return;
    int r = put_into_store(conn);
    if (r == -EAGAIN) {
        host->store_again_ns = now_ns + STORE_RETRY_MS * NS_PER_MS;
        return;
    }
    if (r < 0)
        log_limit_write(&host->logs[CONN_LOG_STORE], now_ns,
                        "can't store the session of process %ld, which would end with this agent: %s",
                        (long) conn->session.pid, strerror(-r));
    if (r == -ETOOMANYREFS || r == -ECONNREFUSED || r == -ENOENT)
        host->store_again_ns = now_ns + STORE_RETRY_LATER_MS * NS_PER_MS;
    else
        list_unlink(&conn->unstored_link);
}

/* It is next, once the keepers have got their work. */
static void hurry_to_store(struct conn *conn) {
    if (list_is_empty(&conn->unstored_link) || conn->opened_ns == 0)
        return;
    conn->opened_ns = 0;
    list_unlink(&conn->unstored_link);
    list_prepend(&conn->host->unstored, &conn->unstored_link);
}

instant_ns conn_store(struct conn_host *host, instant_ns now_ns) {
    if (!host->store)
        return INSTANT_NEVER;
    instant_ns due_ns = fd_store_settle(host->store, now_ns);
    list_for_each_safe(node, &host->unstored) {
        struct conn *conn = list_entry(node, struct conn, unstored_link);
        instant_ns at_ns = conn->opened_ns + STORE_AFTER_MS * NS_PER_MS;
        if (now_ns < at_ns)
            return instant_min(due_ns, at_ns);
        give_to_store(conn, now_ns);
        if (!list_is_empty(&conn->unstored_link))
            return instant_min(due_ns, host->store_again_ns);
    }
    return due_ns;
}

/* A client is not woken for the news that it waits, if the grant comes at once. */
static bool waits_for_more(struct conn *conn, instant_ns now_ns) {
    if (!conn->session.unhurried || !conn->only_last || conn->session.state == SESSION_QUITTING)
        return false;
    conn->session.unhurried = false;
    conn->unhurried_until_ns = now_ns + UNHURRIED_NS;
    list_append(&conn->host->unhurried, &conn->unsent_link);
    return true;
}

instant_ns conn_due_ns(const struct conn_host *host) {
    if (list_is_empty(&host->unhurried))
        return INSTANT_NEVER;
    return list_entry(host->unhurried.next, const struct conn, unsent_link)->unhurried_until_ns;
}

/* Its output was sent, as far as that went. */
static void after_flush(struct conn *conn, instant_ns now_ns) {
    if (conn->send_error != 0 && !is_gone(conn->send_error))
        conn_expel(conn, "its answers can't be sent", now_ns);
    else if (unsent_bytes(conn) > SESSION_OUTPUT_BYTES_MAX + REPLY_BYTES_MAX)
        conn_expel(conn, "it leaves too much unread", now_ns);
    else if (conn->session.state == SESSION_QUITTING && unsent_bytes(conn) == 0)
        conn_close(conn, now_ns);
    else if (unsent_bytes(conn) == 0)
        conn_wake(conn);
}

/* Sends to several by one call: else the first one that it wakes may take the core before the next has its
 * answer. What did not go that way, flush() sends: also what is noted, or has a descriptor with it. */
static void send_together(struct conn_host *host, struct conn *const conns[], size_t n) {
    struct multi_write_write writes[MULTI_WRITE_MAX];
    struct iovec pieces[MULTI_WRITE_MAX];
    struct conn *served[MULTI_WRITE_MAX];
    size_t n_writes = 0;

    for (size_t i = 0; i < n && !host->service->ledger; i++) {
        if (conns[i]->blocked || conns[i]->output.fd >= 0 || unsent_bytes(conns[i]) == 0)
            continue;
        const struct send_buffer_part part = send_buffer_part(&conns[i]->output);
        served[n_writes] = conns[i];
        pieces[n_writes] =
            (struct iovec){.iov_base = (char *) (uintptr_t) part.bytes, .iov_len = part.length};
        writes[n_writes] =
            (struct multi_write_write){.socket = conns[i]->fd, .pieces = &pieces[n_writes], .n_pieces = 1};
        n_writes++;
    }
    if (n_writes < TOGETHER_MIN || multi_write_write(&host->burst, writes, n_writes) < 0)
        return;
    for (size_t i = 0; i < n_writes; i++)
        if (writes[i].done > 0)
            send_buffer_advance(&served[i]->output, (size_t) writes[i].done);
}

/* Nobody is written to between the choice and the sending, so none is among them twice. */
static void flush_together(struct conn_host *host, struct conn *const conns[], size_t n, instant_ns now_ns) {
    send_together(host, conns, n);
    for (size_t i = 0; i < n; i++) {
        if (!conns[i]->blocked)
            flush(conns[i]);
        after_flush(conns[i], now_ns);
    }
}

void conn_flush(struct conn_host *host, instant_ns now_ns) {
    struct conn *together[MULTI_WRITE_MAX];
    struct list *node;
    size_t n = 0;

    while (conn_due_ns(host) <= now_ns)
        hurry(list_entry(host->unhurried.next, struct conn, unsent_link));
    /* Who is closed here may leave a lease to another, who is told in this turn too. */
    while ((node = list_first(&host->unsent))) {
        struct conn *conn = list_entry(node, struct conn, unsent_link);
        list_unlink(node);
        bool waits = !host->store && waits_for_more(conn, now_ns);
        if (!waits && has_stake(conn))
            give_to_store(conn, now_ns); /* before it is told what it would lose */
        if (!waits)
            together[n++] = conn;
        if (n == MULTI_WRITE_MAX || list_is_empty(&host->unsent)) {
            flush_together(host, together, n, now_ns);
            n = 0;
        }
    }
}

/* --- input --- */

void conn_keep_input(struct conn *conn, const char *bytes, size_t length) {
    if (length == 0)
        return;
    char *larger = realloc(conn->input, conn->input_length + length);
    if (!larger)
        abort();
    memcpy(larger + conn->input_length, bytes, length);
    conn->input = larger;
    conn->input_length += length;
}

static void drop_parsed_input(struct conn *conn) {
    if (conn->input_used < conn->input_length) {
        memmove(conn->input, conn->input + conn->input_used, conn->input_length - conn->input_used);
        conn->input_length -= conn->input_used;
    } else {
        heap_trim_note(&conn->host->trim, conn->input_length);
        free(conn->input);
        conn->input = NULL;
        conn->input_length = 0;
    }
    conn->input_used = 0;
}

static bool may_take_requests(struct conn *conn) {
    return conn->fd >= 0 && session_ready(&conn->session) && unsent_bytes(conn) <= OUTPUT_PAUSE_BYTES &&
           session_may_ask(&conn->session, conn->host->service);
}

static void end_malformed(struct conn *conn, const char *why, instant_ns now_ns) {
    session_error(&conn->session, conn->host->service, "ERR", "protocol: %s", why);
    conn_expel(conn, "it sent a malformed request", now_ns);
}

static void begin_skipping(struct conn *conn) {
    resp_skip_begin(&conn->skip, REQUEST_SKIPPED_BYTES_MAX);
    conn->skipping = true;
    conn->skipped = 0;
    conn->request_at = conn->parsed;
}

/* Passes over a request that is over a limit, and answers it at its end. Until then the ledger has it as one
 * that was not taken. How many bytes were passed over, or a negative outcome of resp_skip(). */
static long skip_request(struct conn *conn, const char *bytes, size_t length) {
    bool done;
    long n = resp_skip(&conn->skip, bytes, length, &done);

    if (n < 0)
        return n;
    conn->skipped += (size_t) n;
    if (!done)
        return n;
    conn->skipping = false;
    conn->parsed += conn->skipped;
    session_error(&conn->session, conn->host->service, "BADARG",
                  "a request has at most %d items of at most %d bytes each, a line as many: this one was "
                  "passed over",
                  REQUEST_ITEMS_MAX, REQUEST_ITEM_BYTES_MAX);
    return n;
}

/* Takes requests off the front of the bytes while the session is ready for them. Returns how many bytes were
 * taken, or -1 when the session was ended for a malformed request. */
static ssize_t take_requests(struct conn *conn, const char *bytes, size_t length, unsigned *budget,
                             instant_ns now_ns) {
    static const struct resp_limits limits = {
        .bulk_bytes_max = REQUEST_ITEM_BYTES_MAX, .tokens_max = REQUEST_ITEMS_MAX, .depth_max = 1};
    struct resp_token tokens[REQUEST_ITEMS_MAX];
    size_t used = 0, n_tokens;

    while (used<length && * budget> 0 && may_take_requests(conn)) {
        bool skipping = conn->skipping;
        long n = skipping ? skip_request(conn, bytes + used, length - used)
                          : resp_parse_request(bytes + used, length - used, &limits, tokens, &n_tokens);
        if (!skipping && n == RESP_TOO_LARGE) {
            begin_skipping(conn);
            continue;
        }
        if (n == RESP_INCOMPLETE)
            break;
        if (n < 0) {
            end_malformed(conn,
                          n == RESP_TOO_LARGE ? "a request has at most 32 items of at most 4096 bytes"
                                              : "expected an array of bulk strings, or a line of words",
                          now_ns);
            return -1;
        }
        used += (size_t) n;
        if (skipping) {
            *budget -= !conn->skipping;
            continue;
        }
        conn->request_at = conn->parsed;
        conn->parsed += (size_t) n;
        --*budget;
        if (n_tokens > 0)
            session_request(&conn->session, conn->host->service, tokens, n_tokens, now_ns);
    }
    return (ssize_t) used;
}

/* How much to receive at a time: no more than the ledger can keep until it is answered. 0: not before the
 * answers so far are sent. */
static size_t receive_room(const struct conn *conn) {
    const struct ledger *ledger = conn->host->service->ledger;
    size_t room = ledger ? ledger_log_room(ledger, conn->slot) : CONN_SCRATCH_BYTES;

    if (room >= LOG_ROOM_BYTES_MIN)
        return room;
    return unsent_bytes(conn) > 0 ? 0 : CONN_SCRATCH_BYTES;
}

/* Receives into the scratch. What has left the socket is in the ledger, wherever we are stopped. */
static ssize_t receive(struct conn *conn, size_t room, instant_ns now_ns) {
    struct ledger *ledger = conn->host->service->ledger;

    if (!ledger)
        return recv(conn->fd, conn->host->scratch, room, MSG_DONTWAIT);
    ssize_t n = logged_io_receive(conn->fd, room, ledger, conn->slot, conn->received, now_ns);
    if (n > 0)
        conn->received += (size_t) n;
    return n;
}

/* Works on kept input, then on the socket's. False when the connection is closed. */
static bool take_input(struct conn *conn, unsigned *budget, instant_ns now_ns) {
    struct conn_host *host = conn->host;

    if (conn->input_length > 0) {
        ssize_t used = take_requests(conn, conn->input, conn->input_length, budget, now_ns);
        if (used < 0)
            return false;
        conn->input_used += (size_t) used;
        drop_parsed_input(conn);
    }
    while (conn->readable && *budget > 0 && may_take_requests(conn)) {
        size_t room = receive_room(conn);
        if (room == 0)
            return true; /* when they are sent it goes on */
        ssize_t n = receive(conn, room, now_ns);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            conn->readable = false;
            return true;
        }
        if (n <= 0) {
            if (n == 0 && !conn->blocked)
                flush(conn); /* who closed only its sending side reads on */
            conn_close(conn, now_ns);
            return false;
        }
        if ((size_t) n < room && !conn->half_closed)
            conn->readable = false; /* the next byte makes a new edge */
        now_ns = clock_now_ns();    /* no validity counts from before its question was sent */
        if (conn->input_length > 0) {
            conn_keep_input(conn, host->scratch, (size_t) n);
            ssize_t used = take_requests(conn, conn->input, conn->input_length, budget, now_ns);
            if (used < 0)
                return false;
            conn->input_used = (size_t) used;
            drop_parsed_input(conn);
        } else {
            ssize_t used = take_requests(conn, host->scratch, (size_t) n, budget, now_ns);
            if (used < 0)
                return false;
            conn_keep_input(conn, host->scratch + used, (size_t) (n - used));
        }
    }
    return true;
}

/* A client that can't send any more can't release either: it is not given a lease to begin with. A question
 * is answered as long as somebody may read the answer. */
static bool is_abandoned_by_peer(const struct conn *conn) {
    enum session_state state = conn->session.state;

    if (conn->hung_up)
        return state != SESSION_READY || !conn->readable;
    return conn->half_closed && (state == SESSION_ACQUIRING || state == SESSION_RELEASING);
}

/* Those that had no turn come first in the next one. */
static void put_back(struct conn_host *host, struct list *batch) {
    while (!list_is_empty(batch)) {
        struct list *last = batch->previous;
        list_unlink(last);
        list_prepend(&host->ready, last);
    }
}

bool conn_work(struct conn_host *host, instant_ns now_ns) {
    /* What a former process has left unanswered is taken within a few turns, however much it is. */
    unsigned left = host->service->registry.restoring ? UINT_MAX : TURN_REQUESTS_MAX;
    struct list batch;

    if (host->paused || list_is_empty(&host->ready))
        return false;
    /* Those who become ready while we work get their turn in the next round. */
    list_init(&batch);
    list_for_each_safe(node, &host->ready) {
        list_unlink(node);
        list_append(&batch, node);
    }
    while (!list_is_empty(&batch) && left >= REQUESTS_PER_TURN) {
        struct conn *conn = list_entry(batch.next, struct conn, ready_link);
        unsigned budget = REQUESTS_PER_TURN;
        list_unlink(&conn->ready_link);
        bool open = conn->fd >= 0 && take_input(conn, &budget, now_ns);
        left -= REQUESTS_PER_TURN - budget;
        if (!open)
            continue;
        if (has_stake(conn))
            hurry_to_store(conn);
        if (is_abandoned_by_peer(conn))
            conn_close(conn, now_ns);
        else if (may_take_requests(conn) && ((conn->readable && receive_room(conn) > 0) || budget == 0) &&
                 list_is_empty(&conn->ready_link))
            list_append(&host->ready, &conn->ready_link);
    }
    put_back(host, &batch);
    return !list_is_empty(&host->ready);
}

/* --- the loop's calls --- */

static void on_socket(struct poller_target *target, uint32_t revents) {
    struct conn *conn = list_entry(target, struct conn, target);

    if (conn->fd < 0)
        return;
    if (revents & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP))
        conn->readable = true;
    if (revents & (EPOLLHUP | EPOLLERR | EPOLLRDHUP))
        conn->half_closed = true;
    if (revents & (EPOLLHUP | EPOLLERR))
        conn->hung_up = true;
    if (revents & EPOLLOUT) {
        set_blocked(conn, false);
        if (unsent_bytes(conn) > 0 && list_is_empty(&conn->unsent_link))
            list_append(&conn->host->unsent, &conn->unsent_link);
    }
    if (list_is_empty(&conn->ready_link))
        list_append(&conn->host->ready, &conn->ready_link);
}

static void on_process_end(struct poller_target *target, uint32_t revents) {
    (void) revents;
    conn_close(list_entry(target, struct conn, pid_target), clock_now_ns());
}

static int watch(struct conn *conn) {
    conn->target.on_events = on_socket;
    conn->pid_target.on_events = on_process_end;
    int r = poller_add(conn->host->poller, conn->fd, EPOLLIN | EPOLLRDHUP | EPOLLET, &conn->target);
    if (r < 0 || conn->pid_fd < 0)
        return r;
    return poller_add(conn->host->poller, conn->pid_fd, EPOLLIN | EPOLLET, &conn->pid_target);
}

int conn_make(struct conn_host *host, int fd, uint32_t index, uint32_t generation, struct conn **ret) {
    _cleanup_close_ int owned = fd;
    struct ucred peer;
    struct conn *conn = calloc(1, sizeof(*conn));
    int r = conn ? 0 : -ENOMEM;

    if (r == 0)
        r = peer_cred_identify(fd, &peer);
    if (r < 0) {
        free(conn);
        pool_give(&host->slots, index);
        return r;
    }
    struct conn_slot *slot = pool_at(&host->slots, index);
    slot->conn = conn;
    slot->generation = generation;
    conn->host = host;
    conn->id = (uint64_t) generation << SESSION_SLOT_BITS | index;
    conn->slot = index;
    conn->fd = cleanup_steal_fd(&owned);
    conn->own_page_fd = -1;
    send_buffer_init(&conn->output);
    conn->pid_fd = peer_cred_open(fd, peer.pid, &host->told_no_pidfd);
    conn->opened_ns = clock_now_ns();
    host->open++;
    list_init(&conn->link);
    list_init(&conn->ready_link);
    list_init(&conn->unsent_link);
    list_init(&conn->unstored_link);
    session_init(&conn->session, host->service, conn->id, peer.pid, peer.uid);
    r = watch(conn);
    if (r < 0) {
        session_end(&conn->session, host->service, clock_now_ns());
        conn_free(conn);
        return r;
    }
    list_append(&host->conns, &conn->link);
    if (host->service->ledger)
        ledger_open(host->service->ledger, index, conn->id);
    if (host->store)
        list_append(&host->unstored, &conn->unstored_link);
    *ret = conn;
    return 0;
}

int conn_new(struct conn_host *host, int fd) {
    uint32_t index = pool_take(&host->slots);
    struct conn *conn;

    if (index == POOL_NONE) {
        (void) close(fd);
        return -EUSERS;
    }
    uint32_t before = ((struct conn_slot *) pool_at(&host->slots, index))->generation;
    uint32_t generation = generation_latest(before, host->generation);
    return conn_make(host, fd, index, generation_next(generation), &conn);
}

void conn_for_each(struct conn_host *host, void (*function)(struct session *session, void *userdata),
                   void *userdata) {
    list_for_each_safe(node, &host->conns) {
        struct conn *conn = list_entry(node, struct conn, link);
        if (conn->fd >= 0)
            function(&conn->session, userdata);
    }
}
