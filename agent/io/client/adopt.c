#include "io/client/adopt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/generation.h"
#include "io/client/conn-adopt.h"
#include "io/client/peer-cred.h"
#include "io/loop/clock.h"
#include "io/loop/log.h"
#include "io/loop/sealed-memfd.h"
#include "local/recovery/recovery.h"

/* --- this process's ledger --- */

static int make_ledger(struct adopt *adopt, const struct front_state *local, uint64_t sequence,
                       uint32_t sessions_max) {
    /* Twice: an ended request stays until its client has the reply, while another takes its place. */
    const struct ledger_size size = {.sessions = sessions_max,
                                     .entries = 2 * local->registry.requests_max + OBSERVATIONS_MAX};
    const struct ledger_identity identity = {
        .agent = local->identity.agent, .host = local->identity.host, .sequence = sequence};
    size_t bytes = ledger_bytes(&size);
    _cleanup_close_ int fd = sealed_memfd_new("redlockd-ledger", bytes);

    if (fd < 0)
        return fd;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (memory == MAP_FAILED)
        return -errno;
    ledger_init(&adopt->ledger, &size, offsetof(struct mmsghdr, msg_len), &identity, memory);
    adopt->memory = memory;
    adopt->bytes = bytes;
    adopt->fd = cleanup_steal_fd(&fd);
    return 0;
}

/* Puts the complete ledger into the store, and removes the former ones. */
static int publish_ledger(struct adopt *adopt, const struct inherited_fds *inherited) {
    int r = fd_store_put_ledger(adopt->ledger.header->sequence, adopt->fd);

    if (r < 0)
        return r;
    for (size_t i = 0; i < inherited->n_ledgers; i++)
        (void) fd_store_drop_ledger(inherited->ledgers[i].sequence);
    (void) close(adopt->fd);
    adopt->fd = -1;
    return 0;
}

/* --- the former process's ledger --- */

struct former_ledger {
    struct ledger_reader reader;
    void *memory;
    size_t bytes;
};

static void former_ledger_deinit(struct former_ledger *former) {
    if (former->memory)
        (void) munmap(former->memory, former->bytes);
}

/* False for another version, or anything else that is not a ledger. */
static bool map_ledger(int fd, struct former_ledger *ret) {
    struct former_ledger former = {0};
    ssize_t bytes = sealed_memfd_bytes(fd);

    if (bytes <= 0)
        return false;
    former.bytes = (size_t) bytes;
    former.memory = mmap(NULL, former.bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (former.memory == MAP_FAILED)
        return false;
    if (!ledger_reader_init(&former.reader, former.memory, former.bytes)) {
        former_ledger_deinit(&former);
        return false;
    }
    *ret = former;
    return true;
}

/* The newest one: a ledger is stored only when it is complete. False when there is none. */
static bool find_ledger(const struct inherited_fds *inherited, struct former_ledger *ret) {
    struct former_ledger newest = {0}, other;

    for (size_t i = 0; i < inherited->n_ledgers; i++) {
        if (!map_ledger(inherited->ledgers[i].fd, &other)) {
            log_warning("ledger of the former process: not of this version; its connections are closed, and "
                        "clients that can resume their leases do so");
            continue;
        }
        if (newest.memory && other.reader.header->sequence < newest.reader.header->sequence) {
            former_ledger_deinit(&other);
            continue;
        }
        former_ledger_deinit(&newest);
        newest = other;
    }
    *ret = newest;
    return newest.memory;
}

static uint64_t next_sequence(const struct inherited_fds *inherited) {
    uint64_t sequence = 0;

    for (size_t i = 0; i < inherited->n_ledgers; i++)
        if (inherited->ledgers[i].sequence > sequence)
            sequence = inherited->ledgers[i].sequence;
    return sequence + 1;
}

/* --- restoring --- */

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

/* The process that connected; another one may still have the socket. */
static bool client_is_dead(int fd) {
    struct ucred peer;

    return peer_cred_identify(fd, &peer) == 0 && peer_cred_is_dead(peer.pid);
}

static bool restore_session(struct conn_table *table, const struct inherited_fds *inherited,
                            const struct ledger_reader_session_view *view) {
    const struct inherited_fds_session *fds = inherited_fds_find(inherited, view->id);

    if (!fds || fds->fd < 0 || !view->whole || client_is_dead(fds->fd))
        return false;
    int fd = fcntl(fds->fd, F_DUPFD_CLOEXEC, 0);
    return fd >= 0 && conn_adopt(table, fd, fds->page_fd, view);
}

/* The connections, without their leases. Returns how many were not restored. */
static unsigned restore_sessions(struct conn_table *table, const struct ledger_reader *reader,
                                 const struct inherited_fds *inherited) {
    struct ledger_reader_session_view view;
    unsigned ended = 0;

    table->generation = generation_latest(table->generation, reader->header->session_generation);
    for (uint32_t slot = 0; slot < reader->header->sessions; slot++)
        if (ledger_reader_session(reader, slot, &view) && !restore_session(table, inherited, &view))
            ended++;
    return ended;
}

/* Keys of the former process may be deleted after `ended_ns`, when its leases that were not restored have
 * ended. Not if the ledger lacks leases, or lock values have another host. */
static struct shard_predecessor find_predecessor(const struct front_state *local,
                                                 const struct ledger_header *header, instant_ns ended_ns) {
    struct shard_predecessor predecessor = {0};

    if (header->leaky || strcmp(header->host, local->identity.host) != 0)
        return predecessor;
    lock_value_identify(&predecessor.identity, header->host, header->agent);
    predecessor.from_ns = instant_max(header->lost_until_ns, ended_ns);
    predecessor.until_ns = clock_now_ns() + 2 * (int64_t) local->policy.max_ttl_ms * NS_PER_MS;
    return predecessor;
}

/* The ledger of this process has all restored leases now. Drops other sessions from the store. */
static void finish_sessions(struct conn_table *table, struct fd_store *store,
                            const struct inherited_fds *inherited) {
    for (size_t i = 0; i < inherited->n_sessions; i++) {
        struct session *session = conn_find(table, inherited->sessions[i].id);
        if (session)
            conn_adopt_finish(session, inherited->sessions[i].page_fd);
        else
            fd_store_drop(store, inherited->sessions[i].id);
    }
}

static void restore(struct adopt *adopt, const struct former_ledger *former, struct conn_table *table,
                    struct front_state *local, const struct inherited_fds *inherited) {
    const struct ledger_header *header = former->reader.header;
    struct restoration restoration = {.table = table, .reader = &former->reader};
    _cleanup_free_ uint32_t *order = calloc(local->registry.requests_max, sizeof(order[0]));
    const struct recovery_past past = {.reader = former->reader,
                                       .session = find_session,
                                       .whole = session_is_whole,
                                       .dead = process_is_dead,
                                       .userdata = &restoration,
                                       .order = order};

    if (!order)
        return;
    unsigned ended = restore_sessions(table, &former->reader, inherited);
    const struct recovery_result result = recovery_run(local, &past, clock_now_ns());
    adopt->predecessor = find_predecessor(local, header, result.lost_until_ns);
    log_notice("restart: continues agent %s: %u connections with %u leases; %u other connections ended",
               header->agent, table->n_open, result.held, ended);
}

int adopt_begin(struct adopt *adopt, struct conn_table *table, struct front_state *local,
                const struct inherited_fds *inherited, uint32_t sessions_max) {
    struct former_ledger former = {0};

    int r = fd_store_new(&adopt->store);
    if (r >= 0)
        r = make_ledger(adopt, local, next_sequence(inherited), sessions_max);
    if (r < 0)
        return r;
    local->registry.ledger = &adopt->ledger;
    table->store = adopt->store;
    table->scratch = (char *) adopt->ledger.header->scratch;
    table->paused = true;
    if (find_ledger(inherited, &former))
        restore(adopt, &former, table, local, inherited);
    finish_sessions(table, adopt->store, inherited);
    former_ledger_deinit(&former);
    return publish_ledger(adopt, inherited);
}

void adopt_end(struct adopt *adopt) {
    if (adopt->memory) {
        (void) munmap(adopt->memory, adopt->bytes);
        if (adopt->fd >= 0)
            (void) close(adopt->fd);
    }
    adopt->memory = NULL;
    adopt->store = fd_store_free(adopt->store);
}
