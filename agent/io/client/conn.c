#include "io/client/conn.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/generation.h"
#include "io/client/conn-bytes.h"
#include "io/client/conn-input.h"
#include "io/client/conn-output.h"
#include "io/client/conn-store.h"
#include "io/client/page-memory.h"
#include "io/client/peer-cred.h"
#include "io/client/peer-unit.h"
#include "io/client/socket-queue.h"
#include "io/loop/clock.h"
#include "io/loop/loop.h"
#include "io/loop/pass-descriptor.h"
#include "local/disconnect.h"

/* A turn takes requests for this long; then the keepers' messages are read, and replies sent. A client that
 * asks little waits for a turn with others' requests twice: before its request is taken, and before it gets
 * the reply. */
#define TURN_NS (100 * NS_PER_US)
#define RESTORING_TURN_NS (50 * NS_PER_MS)
/* A turn reads the units of processes for this long: each takes some 20 µs in /proc. */
#define UNITS_NS (200 * NS_PER_US)
/* Expelled sessions are looked at that often: there may be thousands, for as long as a ttl. */
#define SWEEP_NS (50 * NS_PER_MS)

/* --- the table --- */

void conn_table_clear(struct conn_table *table) {
    *table = (struct conn_table){0};
    list_init(&table->open);
    list_init(&table->expelled);
    list_init(&table->closed);
    fair_queue_init(&table->ready, NULL);
    list_init(&table->unsent);
    list_init(&table->delayed);
    list_init(&table->unstored);
    lingering_close_init(&table->closer, NULL);
}

int conn_table_init(struct conn_table *table, struct poller *poller, struct front_state *local,
                    uint32_t slots) {
    static const struct log_limit logs[CONN_LOGS] = {
        [CONN_LOG_ENDED] = {.kind = "ended sessions", .level = LOG_LEVEL_NOTICE},
        [CONN_LOG_UNREAD] = {.kind = "sessions that read too slowly", .level = LOG_LEVEL_NOTICE},
        [CONN_LOG_REJECTED] = {.kind = "rejected connections", .level = LOG_LEVEL_WARNING},
        [CONN_LOG_PAGE] = {.kind = "pages that can't be passed", .level = LOG_LEVEL_WARNING},
        [CONN_LOG_STORE] = {.kind = "sessions that can't be stored", .level = LOG_LEVEL_WARNING},
        [CONN_LOG_WATCH] = {.kind = "connections that can't be watched", .level = LOG_LEVEL_ERROR},
    };

    assert(slots < 1u << SESSION_SLOT_BITS);

    conn_table_clear(table);
    table->poller = poller;
    table->local = local;
    fair_queue_init(&table->ready, &local->work);
    table->slots_memory = calloc(slots, sizeof(struct conn_slot));
    table->scratch = table->own_scratch = loop_reserve(CONN_SCRATCH_BYTES);
    if (!table->slots_memory || !table->own_scratch)
        return -ENOMEM;
    table->generation = generation_first(clock_now_ns());
    pool_init(&table->slots, table->slots_memory, sizeof(struct conn_slot), slots);
    heap_trim_init(&table->trim);
    lingering_close_init(&table->closer, poller);
    memcpy(table->logs, logs, sizeof(logs));
    return 0;
}

struct session *conn_find(struct conn_table *table, uint64_t id) {
    uint32_t index = (uint32_t) (id & ((1u << SESSION_SLOT_BITS) - 1));

    if (index >= table->slots.touched)
        return NULL;
    const struct conn_slot *slot = pool_at(&table->slots, index);
    return slot->conn && slot->conn->session.id == id ? &slot->conn->session : NULL;
}

void conn_for_each(struct conn_table *table, void (*function)(struct session *session, void *userdata),
                   void *userdata) {
    list_for_each_safe(node, &table->open) {
        struct conn *conn = list_entry(node, struct conn, link);
        if (conn->fd >= 0)
            function(&conn->session, userdata);
    }
}

instant_ns conn_tick(struct conn_table *table, instant_ns now_ns) {
    instant_ns due_ns = lingering_close_tick(&table->closer, now_ns);

    for (unsigned i = 0; i < CONN_LOGS; i++)
        due_ns = instant_min(due_ns, log_limit_settle(&table->logs[i], now_ns));
    return list_is_empty(&table->expelled) ? due_ns : instant_min(due_ns, table->sweep_ns);
}

/* --- the end of a connection --- */

/* Closes the socket, unless lingering_close_take() owns it already. */
static void drop_socket(struct conn *conn) {
    if (conn->fd >= 0) {
        poller_remove(conn->table->poller, conn->fd);
        (void) close(conn->fd);
        conn->table->n_open--;
    }
    conn->fd = -1;
    list_unlink(&conn->ready_link);
    conn_bytes_refund(conn);
    conn_store_deinit(conn);
    conn_output_deinit(conn);
    conn_input_deinit(conn);
}

/* Closes the socket, once the client has read the last replies if it can read them at all. */
static void end_socket(struct conn *conn, instant_ns now_ns) {
    struct conn_table *table = conn->table;
    bool stored = conn_store_remove(conn);

    if (conn->fd >= 0 && conn->send_error == 0 && !conn->hung_up) {
        poller_remove(table->poller, conn->fd);
        lingering_close_take(&table->closer, conn->fd, &conn->output, now_ns);
        conn->fd = -1;
        table->n_open--;
    } else if (stored) {
        (void) shutdown(conn->fd, SHUT_RDWR); /* the manager's copy would keep the connection open */
    }
    drop_socket(conn);
}

void conn_reject(struct conn_table *table, int fd, const char *error) {
    struct send_buffer output;

    send_buffer_init(&output);
    (void) send_buffer_append(&output, error, strlen(error)); /* without memory: closed without a word */
    lingering_close_take(&table->closer, fd, &output, clock_now_ns());
    send_buffer_deinit(&output);
}

/* The connection is freed by conn_sweep(), at the end of the turn. */
static void conn_close(struct conn *conn, instant_ns now_ns) {
    struct front_state *local = conn->table->local;

    disconnect_end(&conn->session, now_ns);
    if (local->registry.ledger)
        ledger_close(local->registry.ledger, conn->slot);
    end_socket(conn, now_ns);
    list_unlink(&conn->link);
    list_append(&conn->table->closed, &conn->link);
}

/* Ends a session whose client has not ended it: the client gets `lost`, and the keys stay as long as its
 * process may consider the leases valid. The log has a limit for each `kind` of lines: a flood of wrong
 * requests must not suppress the line about a slow reader. */
static void conn_expel(struct conn *conn, enum conn_log kind, const char *why, instant_ns now_ns) {
    struct conn_table *table = conn->table;
    bool has_leases = disconnect_expel(&conn->session, why, now_ns);

    if (conn->fd >= 0)
        conn_output_flush(conn);
    log_limit_write(&table->logs[kind], now_ns, "session of process %ld, user %u: ended: %s%s",
                    (long) conn->session.pid, conn->session.uid, why,
                    has_leases ? "; its leases end by their deadlines, or with the process" : "");
    if (!has_leases) {
        conn_close(conn, now_ns);
        return;
    }
    if (table->local->registry.ledger)
        ledger_tear(table->local->registry.ledger,
                    conn->slot); /* the next process must not release these leases either */
    end_socket(conn, now_ns);
    list_unlink(&conn->link);
    list_append(&table->expelled, &conn->link);
}

static void conn_free(struct conn *conn) {
    struct conn_slot *slot = pool_at(&conn->table->slots, conn->slot);

    drop_socket(conn);
    if (conn->pid_fd >= 0) {
        poller_remove(conn->table->poller, conn->pid_fd);
        (void) close(conn->pid_fd);
    }
    list_unlink(&conn->link);
    conn->session.requester.page = page_memory_free(conn->session.requester.page);
    free(conn->unit);
    slot->conn = NULL;
    pool_give(&conn->table->slots, conn->slot);
    free(conn);
}

static void close_expelled(struct conn_table *table, instant_ns now_ns) {
    table->sweep_ns = now_ns + SWEEP_NS;
    list_for_each_safe(expelled, &table->expelled) {
        struct conn *conn = list_entry(expelled, struct conn, link);
        if (list_is_empty(&conn->session.requester.requests))
            conn_close(conn, now_ns);
    }
}

void conn_sweep(struct conn_table *table, instant_ns now_ns) {
    if (now_ns >= table->sweep_ns)
        close_expelled(table, now_ns);
    list_for_each_safe(closed, &table->closed) {
        struct conn *conn = list_entry(closed, struct conn, link);
        conn->session.requester.page = page_memory_end(conn->session.requester.page);
        conn_free(conn);
    }
}

bool conn_table_is_full(const struct conn_table *table) {
    return table->slots.taken == table->slots.capacity;
}

void conn_table_deinit(struct conn_table *table) {
    struct list *const lists[] = {&table->open, &table->expelled, &table->closed};

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        list_for_each_safe(node, lists[i]) conn_free(list_entry(node, struct conn, link));
    lingering_close_deinit(&table->closer);
    free(table->slots_memory);
    if (table->own_scratch)
        (void) munmap(table->own_scratch, CONN_SCRATCH_BYTES);
}

/* --- the turn: requests, then replies --- */

void conn_ready(struct session *session) {
    conn_wake(conn_of(session));
}

/* A client that can't send any more can't release a lease either, so it gets none. Other requests are served
 * as long as the client may read the reply. */
static bool is_abandoned(const struct conn *conn) {
    enum session_state state = conn->session.state;

    if (conn->hung_up)
        return state != SESSION_READY || !conn->readable;
    return conn->half_closed && state == SESSION_ACQUIRING;
}

/* The client reads no reply to its RELEASE, so the session does not wait for the reply: the next request may
 * be another RELEASE, without which that lease would linger. */
static void pass_over_release(struct conn *conn) {
    if (conn->hung_up && conn->session.state == SESSION_RELEASING)
        session_proceed(&conn->session);
}

/* Takes some of the client's requests, and ends the connection if the client has closed it. Returns the
 * work. */
static unsigned serve_one(struct conn *conn, instant_ns now_ns) {
    unsigned work = 0;

    if (conn->fd < 0)
        return 0;
    switch (conn_input_take(conn, &work, now_ns)) {
    case CONN_INPUT_OK:
        conn_store_urge(conn);
        pass_over_release(conn);
        if (is_abandoned(conn))
            conn_close(conn, now_ns);
        else if (!conn_bytes_charge(conn))
            conn_expel(conn, CONN_LOG_ENDED, "its user has no buffers left for half a request", now_ns);
        else if (conn_input_has_more(conn, work))
            conn_queue(conn);
        break;
    case CONN_INPUT_END:
        if (!conn->blocked)
            conn_output_flush(conn); /* a client that has only stopped sending still reads */
        conn_close(conn, now_ns);
        break;
    case CONN_INPUT_ERROR:
        conn_close(conn, now_ns);
        break;
    case CONN_INPUT_NO_MEMORY:
        conn_expel(conn, CONN_LOG_ENDED, "the agent has no memory for its requests", now_ns);
        break;
    case CONN_INPUT_MALFORMED:
        conn_expel(conn, CONN_LOG_ENDED, "the client sent a malformed request", now_ns);
        break;
    }
    return work;
}

enum { LAST_WORK_MAX = 128 /* units of work, see local/work-share.h */ };

/* Takes the requests that the process had sent, as far as this is little work; for a user that pauses,
 * as much as in a turn for each process. Without its RELEASE a lease would linger. Other leases end at once.
 * Returns the work. */
static unsigned take_last_requests(struct conn *conn, instant_ns now_ns) {
    const struct work_share *share = &conn->table->local->work;
    bool due = work_share_due_ns(share, conn->session.account, now_ns) <= now_ns;
    unsigned work = 0, most = due ? LAST_WORK_MAX : CONN_INPUT_WORK_MAX;
    enum conn_input_outcome outcome = CONN_INPUT_OK;

    pass_over_release(conn);
    while (outcome == CONN_INPUT_OK && !is_abandoned(conn) && work < most) {
        unsigned part = 0;
        outcome = conn_input_take(conn, &part, now_ns);
        pass_over_release(conn);
        if (part == 0)
            break;
        work += part;
    }
    return work;
}

/* The process has ended. Returns the work. */
static unsigned serve_dead(struct conn *conn, instant_ns now_ns) {
    unsigned work = conn->fd >= 0 ? take_last_requests(conn, now_ns) : 0;

    conn_close(conn, now_ns);
    return work;
}

void conn_work(struct conn_table *table, instant_ns now_ns) {
    /* After a restart, all unanswered requests are taken within a few turns. */
    bool restoring = table->local->registry.restoring;
    instant_ns until_ns = now_ns + (restoring ? RESTORING_TURN_NS : TURN_NS);
    struct list *link;

    while (!table->paused && now_ns < until_ns && (link = fair_queue_next(&table->ready, now_ns))) {
        struct conn *conn = list_entry(link, struct conn, ready_link);
        unsigned work = conn->dead ? serve_dead(conn, now_ns) : serve_one(conn, now_ns);

        now_ns = clock_now_ns();
        session_note_work(&conn->session, work, now_ns);
    }
}

instant_ns conn_work_due_ns(struct conn_table *table, instant_ns now_ns) {
    return table->paused ? INSTANT_NEVER : fair_queue_due_ns(&table->ready, now_ns);
}

static void after_flush(struct conn *conn, instant_ns now_ns) {
    const char *failure = conn_output_failure(conn);

    if (failure)
        conn_expel(conn, CONN_LOG_UNREAD, failure, now_ns);
    else if (!conn_bytes_charge(conn))
        conn_expel(conn, CONN_LOG_UNREAD, "its user has no buffers left for what the client does not read",
                   now_ns);
    else if (conn_output_unsent_bytes(conn) > 0)
        return;
    else if (conn->session.state == SESSION_QUITTING)
        conn_close(conn, now_ns);
    else
        conn_wake(conn);
}

void conn_flush(struct conn_table *table, instant_ns now_ns) {
    struct list *node;

    conn_output_end_delays(table, now_ns);
    /* A connection that is closed here may pass a lease on: the next client gets its reply in this turn. */
    while ((node = list_first(&table->unsent))) {
        struct conn *conn = list_entry(node, struct conn, unsent_link);
        list_unlink(node);
        if (conn->dead)
            continue; /* conn_work() reads what it has sent, and closes it */
        if (!table->store && conn_output_delay(conn, now_ns))
            continue;
        conn_store_before_reply(conn, now_ns);
        if (!conn->blocked)
            conn_output_flush(conn);
        after_flush(conn, now_ns);
    }
}

/* --- events --- */

/* The client has closed the connection, and asks nothing any more. If such sessions waited for their user's
 * share of the work, a client that connects again and again would use up its user's sessions. */
static bool is_gone(const struct conn *conn) {
    return conn->hung_up && conn->input_length == 0 && socket_queue_is_empty(conn->fd);
}

static void on_socket(struct poller_target *target, uint32_t revents) {
    struct conn *conn = list_entry(target, struct conn, target);

    if (conn->fd < 0 || conn->dead)
        return;
    if (revents & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP))
        conn->readable = true;
    if (revents & (EPOLLHUP | EPOLLERR | EPOLLRDHUP))
        conn->half_closed = true;
    if (revents & (EPOLLHUP | EPOLLERR))
        conn->hung_up = true;
    if (revents & EPOLLOUT)
        conn_output_unblock(conn);
    conn->gone = is_gone(conn);
    if (conn->gone)
        list_unlink(&conn->ready_link); /* it need not wait any more */
    conn_queue(conn);
}

/* One process may have thousands of sessions: the work is conn_work()'s, beside that for other users. */
static void on_process_end(struct poller_target *target, uint32_t revents) {
    struct conn *conn = list_entry(target, struct conn, pid_target);

    (void) revents;
    conn_note_process_end(conn);
    list_unlink(&conn->ready_link);
    conn_queue(conn); /* served when the table is not paused any more */
}

static int watch(struct conn *conn) {
    conn->target.on_events = on_socket;
    conn->pid_target.on_events = on_process_end;
    int r = poller_add(conn->table->poller, conn->fd, EPOLLIN | EPOLLRDHUP | EPOLLET, &conn->target);
    if (r < 0 || conn->pid_fd < 0)
        return r;
    return poller_add(conn->table->poller, conn->pid_fd, EPOLLIN | EPOLLET, &conn->pid_target);
}

/* --- the beginning of a connection --- */

static void init(struct conn *conn, struct conn_table *table, int fd, int pid_fd) {
    conn->table = table;
    conn->fd = fd;
    conn->pid_fd = pid_fd;
    list_init(&conn->link);
    list_init(&conn->ready_link);
    conn_output_init(conn);
    conn_store_init(conn);
    table->n_open++;
}

static void read_unit(struct conn *conn) {
    const struct session *session = &conn->session;
    int r = -ESRCH;

    if (conn->pid_fd >= 0)
        r = peer_unit_read(session->pid, session->uid, conn->pid_fd, &conn->unit);
    conn->unit_reading = r < 0 ? CONN_UNIT_UNKNOWN : CONN_UNIT_READ;
}

bool conn_read_units(struct conn_table *table, uint32_t *slot) {
    instant_ns until_ns = clock_now_ns() + UNITS_NS;

    while (*slot < table->slots.touched && clock_now_ns() < until_ns) {
        const struct conn_slot *at = pool_at(&table->slots, (*slot)++);
        if (at->conn && at->conn->fd >= 0 && !at->conn->unit)
            read_unit(at->conn);
    }
    return *slot < table->slots.touched;
}

void conn_find_rules(struct session *session) {
    struct conn *conn = conn_of(session);
    struct policy_peer peer = {.uid = session->uid, .gid = conn->gid, .unit = conn->unit};
    gid_t *groups = NULL;

    if (policy_has_groups(&session->front->policy))
        peer.groups_unknown = conn->fd < 0 || peer_cred_groups(conn->fd, &groups, &peer.n_groups) < 0;
    peer.groups = groups;
    if (!conn->unit && policy_has_units(&session->front->policy)) {
        if (conn->unit_reading == CONN_UNIT_UNREAD)
            read_unit(conn);
        peer.unit_unknown = conn->unit_reading == CONN_UNIT_UNKNOWN;
    }
    conn->unit_reading = CONN_UNIT_UNREAD;
    peer.unit = conn->unit;
    session_set_peer(session, &peer);
    free(groups);
}

static uint64_t make_id(uint32_t index, uint32_t generation) {
    return (uint64_t) generation << SESSION_SLOT_BITS | index;
}

int conn_make(struct conn_table *table, int fd, int pid_fd, const struct ucred *peer, uint32_t index,
              uint32_t generation, struct conn **ret) {
    struct conn_slot *slot = pool_at(&table->slots, index);
    struct front_state *local = table->local;
    struct conn *conn = fd >= 0 ? calloc(1, sizeof(*conn)) : NULL;

    if (!conn) {
        cleanup_close(&fd);
        cleanup_close(&pid_fd);
        pool_give(&table->slots, index);
        return -ENOMEM;
    }
    *slot = (struct conn_slot){.pool_link = slot->pool_link, .generation = generation, .conn = conn};
    conn->id = make_id(index, generation);
    conn->slot = index;
    init(conn, table, fd, pid_fd);
    session_init(&conn->session, local, conn->id, peer->pid, peer->uid);
    conn->gid = peer->gid;
    conn_find_rules(&conn->session);
    pass_descriptor_refuse(fd); /* its client may have connected before this agent, or to an older one */
    int r = watch(conn);
    if (r < 0) {
        disconnect_end(&conn->session, clock_now_ns());
        conn_free(conn);
        return r;
    }
    list_append(&table->open, &conn->link);
    if (local->registry.ledger)
        ledger_open(local->registry.ledger, index, conn->id);
    conn_store_add(conn, clock_now_ns());
    *ret = conn;
    return 0;
}

/* A former session of the slot may still be in the store: the new one must not have its name there. A slot
 * has 16 names. Each process leaves one of them at most, so one is free. */
static uint32_t new_generation(struct conn_table *table, uint32_t index) {
    const struct conn_slot *slot = pool_at(&table->slots, index);
    uint32_t generation = generation_next(generation_latest(slot->generation, table->generation));

    for (unsigned tries = 1; tries < 16 && table->store; tries++) {
        if (!fd_store_is_dropping(table->store, make_id(index, generation)))
            break;
        generation = generation_next(generation);
    }
    return generation;
}

int conn_new(struct conn_table *table, int fd, int pid_fd, const struct ucred *peer) {
    uint32_t index = pool_take(&table->slots);
    struct conn *conn;

    if (index == POOL_NONE) {
        cleanup_close(&fd);
        cleanup_close(&pid_fd);
        return -EUSERS;
    }
    int r = conn_make(table, fd, pid_fd, peer, index, new_generation(table, index), &conn);
    if (r < 0)
        return r;
    session_note_work(&conn->session, WORK_SHARE_CONNECTION, clock_now_ns());
    /* The process ended before the connection was accepted; its child may still have the socket. */
    if (conn->pid_fd < 0 && peer_cred_is_dead(peer->pid))
        conn_close(conn, clock_now_ns());
    return 0;
}

int conn_make_page(struct session *session) {
    struct conn *conn = conn_of(session);
    _cleanup_close_ int own_fd = -1;
    int client_fd = -1;

    assert(!session->requester.page);
    if (conn->fd < 0 || conn->send_error != 0)
        return -ENOTCONN;
    int r = page_memory_new(&session->requester.page, &own_fd, &client_fd);
    if (r < 0)
        return r;
    send_buffer_attach(&conn->output, client_fd);
    if (conn->table->store)
        conn_store_add_page(conn, cleanup_steal_fd(&own_fd));
    return 0;
}

/* Accepted requests first: they need slots that new requests must not take. */
static int by_request_time(const void *a, const void *b) {
    const struct conn *one = *(struct conn *const *) a, *other = *(struct conn *const *) b;
    bool accepted = one->session.accepted_at != 0;

    if (accepted != (other->session.accepted_at != 0))
        return accepted ? -1 : 1;
    return one->session.asked_ns < other->session.asked_ns ? -1
                                                           : one->session.asked_ns > other->session.asked_ns;
}

void conn_serve(struct conn_table *table) {
    const size_t item_bytes = sizeof(void *);
    struct conn **conns = table->n_open > 0 ? malloc(table->n_open * item_bytes) : NULL;
    size_t n = 0;

    table->paused = false;
    list_for_each_safe(node, &table->open) {
        struct conn *conn = list_entry(node, struct conn, link);
        list_unlink(&conn->ready_link);
        if (conns && n < table->n_open)
            conns[n++] = conn;
        else if (conn_has_input(conn)) /* without memory in any order */
            fair_queue_add_first(&table->ready, &conn->ready_link);
    }
    if (n > 0)
        qsort(conns, n, item_bytes, by_request_time);
    for (size_t i = 0; i < n; i++)
        if (conn_has_input(conns[i]))
            fair_queue_add_first(&table->ready, &conns[i]->ready_link);
    free(conns);
}
