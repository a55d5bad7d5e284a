#include "io/client/adopt.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/generation.h"
#include "io/client/conn-adopt.h"
#include "io/client/peer-cred.h"
#include "io/loop/clock.h"
#include "io/loop/log.h"
#include "local/recovery/recovery.h"
#include "local/recovery/restore.h"

struct restoration {
    struct conn_table *table;
    const struct ledger_reader *reader;
};

static struct session *find_session(void *userdata, uint64_t id) {
    const struct restoration *restoration = userdata;

    return conn_find(restoration->table, id);
}

static bool session_is_whole(void *userdata, uint64_t id) {
    const struct restoration *restoration = userdata;
    struct ledger_reader_session_view view;

    return ledger_reader_session(restoration->reader, (uint32_t) (id & LEDGER_SLOT_MASK), &view) &&
           view.id == id && view.whole;
}

static bool process_is_dead(void *userdata, pid_t pid) {
    (void) userdata;
    return peer_cred_is_dead(pid);
}

/* Restores the connections without their leases. Those that can't be restored are removed from the store.
 * `reader`: NULL if none can be restored. */
static void restore_sessions(struct conn_table *table, const struct ledger_reader *reader,
                             const struct inherited_fds *inherited) {
    if (reader)
        table->generation = generation_latest(table->generation, reader->header->session_generation);
    for (size_t i = 0; i < inherited->n_sessions; i++) {
        struct inherited_fds_session *fds = &inherited->sessions[i];
        uint32_t slot = (uint32_t) (fds->stored.id & LEDGER_SLOT_MASK);
        struct ledger_reader_session_view view;

        fd_store_inherit(table->store, &fds->stored);
        if (!reader || !ledger_reader_session(reader, slot, &view) ||
            !fd_store_is_of(&fds->stored, view.id) || !conn_adopt(table, fds, &view))
            fd_store_drop(table->store, &fds->stored);
    }
}

static unsigned count_sessions(const struct ledger_reader *reader) {
    struct ledger_reader_session_view view;
    unsigned sessions = 0;

    for (uint32_t slot = 0; slot < reader->header->sessions; slot++)
        sessions += ledger_reader_session(reader, slot, &view);
    return sessions;
}

/* Restores the connections and their leases. Returns the former processes. */
static struct shard_predecessors restore(const struct ledger_reader *reader, struct conn_table *table,
                                         struct front_state *local, const struct inherited_fds *inherited) {
    struct restoration restoration = {.table = table, .reader = reader};
    _cleanup_free_ uint32_t *order = calloc(local->registry.requests_max, sizeof(order[0]));
    const struct recovery_past past = {.reader = *reader,
                                       .session = find_session,
                                       .whole = session_is_whole,
                                       .dead = process_is_dead,
                                       .userdata = &restoration,
                                       .order = order};

    /* Without memory no session either: its client would miss its leases. */
    restore_sessions(table, order ? reader : NULL, inherited);
    if (!order)
        return (struct shard_predecessors){0};
    unsigned ended = count_sessions(reader) - table->n_open;
    const struct recovery_result result = recovery_run(local, &past, clock_now_ns());
    log_event(LOG_LEVEL_NOTICE, &(struct log_fields){.event = LOG_EVENT_CONTINUED},
              "restart: continues agent %s: %u connections with %u leases; %u other connections ended",
              reader->header->agent, table->n_open, result.held, ended);
    if (result.left_out > 0)
        log_warning("restart: %u leases and waiting requests are not continued: their clients get 'lost' or "
                    "'failed'",
                    result.left_out);
    if (result.too_long > 0)
        log_warning("restart: %u leases have a ttl above max_ttl (%u ms): the agent does not extend them; "
                    "their holders get 'at-risk', and 'lost' at the deadline",
                    result.too_long, local->policy.max_ttl_ms);
    if (result.moved > 0)
        log_warning("restart: %u leases have keys of the former key_format: the agent does not extend them; "
                    "their holders get 'at-risk', and 'lost' at the deadline",
                    result.moved);
    return result.predecessors;
}

/* Sends the former processes to the keepers, then lets them search for the restored leases. The ledger is
 * published before: the next process must know the values that this one gives to the keys. */
static void search(struct keeper_set *keepers, struct front_state *local,
                   const struct shard_predecessors *predecessors) {
    const struct keeper_command command = {.kind = KEEPER_COMMAND_SUCCEED};

    keeper_set_broadcast(keepers, &command, predecessors, sizeof(*predecessors));
    restore_start(&local->registry, clock_now_ns());
}

/* --- descriptors --- */

struct spare {
    int *fds; /* copies of one descriptor */
    unsigned n;
};

static void spare_free(struct spare *spare) {
    while (spare->n > 0)
        (void) close(spare->fds[--spare->n]);
    free(spare->fds);
    spare->fds = NULL;
}

/* Fewer if there are no more. */
static void spare_take(struct spare *spare, unsigned count, int fd) {
    int copy;

    spare->fds = calloc(count, sizeof(spare->fds[0]));
    while (spare->fds && spare->n < count && (copy = fcntl(fd, F_DUPFD_CLOEXEC, 0)) >= 0)
        spare->fds[spare->n++] = copy;
}

/* --- the way of a restart --- */

/* Up to the last slot in use: a session keeps its slot. */
static uint32_t session_slots(const struct ledger_reader *reader) {
    struct ledger_reader_session_view view;
    uint32_t slots = reader->header->sessions;

    while (slots > 0 && !ledger_reader_session(reader, slots - 1, &view))
        slots--;
    return slots;
}

struct adopt_slots adopt_find(struct adopt *adopt, const struct inherited_fds *inherited) {
    if (!ledger_memory_find(inherited, &adopt->former, &adopt->reader))
        return (struct adopt_slots){0};
    return (struct adopt_slots){.requests = recovery_slots(&adopt->reader),
                                .sessions = session_slots(&adopt->reader)};
}

int adopt_begin(struct adopt *adopt, struct conn_table *table, struct front_state *local,
                struct keeper_set *keepers, const struct inherited_fds *inherited,
                const struct adopt_limits *limits) {
    /* Twice: an ended request stays until its client has the reply, while another takes its place. */
    const struct ledger_size size = {.sessions = limits->sessions,
                                     .entries = 2 * local->registry.requests_max + OBSERVATIONS_MAX};
    struct shard_predecessors predecessors = {0};
    struct spare spare = {0};
    bool continues = adopt->former.memory;

    int r = fd_store_new(inherited->n_sessions, &adopt->store);
    if (r >= 0)
        r = ledger_memory_new(&size, &local->identity, inherited, &adopt->ledger, &adopt->memory);
    if (r < 0)
        return r;
    local->registry.ledger = &adopt->ledger;
    table->store = adopt->store;
    table->scratch = (char *) adopt->ledger.header->scratch;
    table->paused = true;
    spare_take(&spare, limits->spare_descriptors, adopt->memory.fd);
    if (continues)
        predecessors = restore(&adopt->reader, table, local, inherited);
    else
        restore_sessions(table, NULL, inherited);
    if (!continues && inherited->n_ledgers > 0)
        log_warning("ledger of the former process: not of this version; its connections are closed, and "
                    "clients that can resume their leases do so");
    conn_adopt_finish(table);
    spare_free(&spare);
    ledger_memory_deinit(&adopt->former);
    r = ledger_memory_publish(&adopt->memory, &adopt->ledger);
    if (r < 0)
        return r;
    inherited_fds_drop_ledgers(inherited);
    if (continues)
        search(keepers, local, &predecessors);
    return 0;
}

void adopt_end(struct adopt *adopt) {
    ledger_memory_deinit(&adopt->memory);
    ledger_memory_deinit(&adopt->former);
    adopt->store = fd_store_free(adopt->store);
}
