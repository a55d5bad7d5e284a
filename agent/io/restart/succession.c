#include "io/restart/succession.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/generation.h"
#include "io/loop/clock.h"
#include "io/loop/log.h"
#include "io/client/peer-cred.h"
#include "io/client/conn-adopt.h"
#include "local/recovery/ledger-writer.h"

/* --- the ledger --- */

static int make_ledger(struct succession *succession, const struct front_state *service, uint64_t sequence,
                       uint32_t sessions_max) {
    /* A request may be over and untold while its successor begins. */
    const struct ledger_size size = {.sessions = sessions_max,
                                     .entries = 2 * service->registry.requests_max + OBSERVATIONS_MAX};
    const struct ledger_identity identity = {
        .agent = service->identity.agent, .host = service->identity.host, .sequence = sequence};
    size_t bytes = ledger_bytes(&size);
    _cleanup_close_ int fd = memfd_create("redlockd-ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, (off_t) bytes) < 0 || fchmod(fd, S_IRUSR | S_IWUSR) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return -errno;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (memory == MAP_FAILED)
        return -errno;
    ledger_init(&succession->ledger, &size, offsetof(struct mmsghdr, msg_len), &identity, memory);
    succession->memory = memory;
    succession->bytes = bytes;
    succession->fd = cleanup_steal_fd(&fd);
    return 0;
}

/* A former process's ledger, mapped for reading. */
struct past {
    struct ledger_reader reader;
    void *memory;
    size_t bytes;
};

static void past_deinit(struct past *past) {
    if (past->memory)
        (void) munmap(past->memory, past->bytes);
}

/* False when it is none, or of a version that we don't know: nothing is guessed. */
static bool read_ledger(int fd, struct past *ret) {
    struct past past = {0};
    struct stat status;

    if (fstat(fd, &status) < 0 || status.st_size <= 0 || !(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK))
        return false;
    past.bytes = (size_t) status.st_size;
    past.memory = mmap(NULL, past.bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (past.memory == MAP_FAILED)
        return false;
    if (!ledger_reader_init(&past.reader, past.memory, past.bytes)) {
        past_deinit(&past);
        return false;
    }
    *ret = past;
    return true;
}

/* A ledger is in the store only once it is complete: so the newest one counts. */
static bool newest_ledger(const struct fd_store_inherited *inheritance, struct past *ret) {
    struct past past = {0}, other;
    bool any = false;

    for (size_t i = 0; i < inheritance->n_ledgers; i++) {
        if (!read_ledger(inheritance->ledgers[i].fd, &other)) {
            log_warning("the ledger of the former process is not one of this version: its connections are "
                        "closed, and clients resume their leases by themselves if they can");
            continue;
        }
        if (any && other.reader.header->sequence < past.reader.header->sequence) {
            past_deinit(&other);
            continue;
        }
        past_deinit(&past);
        past = other;
        any = true;
    }
    *ret = past;
    return any;
}

/* --- taking over --- */

static int by_id(const void *key, const void *element) {
    uint64_t id = *(const uint64_t *) key;
    const struct fd_store_inherited_session *session = element;

    return id < session->id ? -1 : id > session->id;
}

static const struct fd_store_inherited_session *find_inherited(const struct fd_store_inherited *inheritance,
                                                               uint64_t id) {
    if (inheritance->n_sessions == 0)
        return NULL;
    return bsearch(&id, inheritance->sessions, inheritance->n_sessions, sizeof(inheritance->sessions[0]),
                   by_id);
}

struct resume_progress {
    struct conn_table *table;
    struct past past;
};

static struct session *session_here(void *userdata, uint64_t id) {
    const struct resume_progress *takeover = userdata;
    return conn_find(takeover->table, id);
}

static bool session_whole(void *userdata, uint64_t id) {
    const struct resume_progress *takeover = userdata;
    struct ledger_session_view view;

    return ledger_read_session(&takeover->past.reader, (uint32_t) (id & LEDGER_SLOT_MASK), &view) &&
           view.id == id && view.whole;
}

static bool process_dead(void *userdata, pid_t pid) {
    (void) userdata;
    return peer_cred_is_dead(pid);
}

/* Whoever else may have the other end. */
static bool client_is_dead(int fd) {
    struct ucred peer;

    return peer_cred_identify(fd, &peer) == 0 && peer_cred_is_dead(peer.pid);
}

/* The connections, with nothing on them yet. Returns how many could not be taken over. */
static unsigned adopt_sessions(struct resume_progress *takeover,
                               const struct fd_store_inherited *inheritance) {
    struct ledger_session_view view;
    unsigned refused = 0;

    for (uint32_t slot = 0; slot < takeover->past.reader.header->sessions; slot++) {
        if (!ledger_read_session(&takeover->past.reader, slot, &view))
            continue;
        const struct fd_store_inherited_session *inherited = find_inherited(inheritance, view.id);
        bool stays = inherited && inherited->fd >= 0 && view.whole && !client_is_dead(inherited->fd);
        int fd = stays ? fcntl(inherited->fd, F_DUPFD_CLOEXEC, 0) : -1;
        if (fd < 0 || !conn_adopt(takeover->table, fd, inherited->page_fd, &view))
            refused++;
    }
    return refused;
}

static void finish_sessions(struct resume_progress *takeover, struct fd_store *store,
                            const struct fd_store_inherited *inheritance) {
    for (size_t i = 0; i < inheritance->n_sessions; i++) {
        const struct fd_store_inherited_session *inherited = &inheritance->sessions[i];
        struct session *session = conn_find(takeover->table, inherited->id);
        if (session)
            conn_adopt_finish(session, inherited->page_fd);
        else
            fd_store_drop(store, inherited->id);
    }
}

/* Its keys may be deleted when they are met. Not when some leases are not in its ledger, or can't be found:
 * the host is in their values. */
static void set_predecessor(struct succession *succession, const struct front_state *service,
                            const struct ledger_header *header, const struct ledger_writer_result *result) {
    struct shard_predecessor *predecessor = &succession->predecessor;

    if (header->leaky || strcmp(header->host, service->identity.host) != 0)
        return;
    lock_value_identify(&predecessor->identity, header->host, header->agent);
    predecessor->from_ns = instant_max(header->lost_until_ns, result->believed_until_ns);
    predecessor->until_ns = clock_now_ns() + 2 * (int64_t) service->policy.max_ttl_ms * NS_PER_MS;
}

static void take_over(struct succession *succession, struct resume_progress *takeover,
                      struct front_state *service, const struct fd_store_inherited *inheritance) {
    const struct ledger_header *header = takeover->past.reader.header;
    _cleanup_free_ uint32_t *order = calloc(service->registry.requests_max, sizeof(order[0]));
    const struct ledger_writer_past past = {.reader = takeover->past.reader,
                                            .session = session_here,
                                            .whole = session_whole,
                                            .dead = process_dead,
                                            .userdata = takeover,
                                            .order = order};

    if (!order)
        return;
    takeover->table->generation = generation_latest(takeover->table->generation, header->session_generation);
    unsigned refused = adopt_sessions(takeover, inheritance);
    const struct ledger_writer_result result = ledger_writer_restore(service, &past, clock_now_ns());
    set_predecessor(succession, service, header, &result);
    finish_sessions(takeover, succession->store, inheritance);
    log_notice("goes on for agent %s: %u connections with %u leases; %u other connections have ended",
               header->agent, takeover->table->n_open, result.held, refused);
}

int succession_begin(struct succession *succession, struct conn_table *table, struct front_state *service,
                     const struct fd_store_inherited *inheritance, uint32_t sessions_max) {
    struct resume_progress takeover = {.table = table};
    uint64_t sequence = 1;

    int r = fd_store_new(&succession->store);
    if (r < 0)
        return r;
    bool any = newest_ledger(inheritance, &takeover.past);
    for (size_t i = 0; i < inheritance->n_ledgers; i++)
        if (inheritance->ledgers[i].sequence >= sequence)
            sequence = inheritance->ledgers[i].sequence + 1;
    r = make_ledger(succession, service, sequence, sessions_max);
    if (r >= 0) {
        service->ledger = &succession->ledger;
        table->store = succession->store;
        table->scratch = (char *) succession->ledger.header->scratch;
        table->paused = true;
        if (any)
            take_over(succession, &takeover, service, inheritance);
        else
            finish_sessions(&takeover, succession->store, inheritance);
        r = fd_store_put_ledger(succession->store, sequence, succession->fd);
    }
    if (r >= 0) {
        for (size_t i = 0; i < inheritance->n_ledgers; i++)
            (void) fd_store_drop_ledger(succession->store, inheritance->ledgers[i].sequence);
        (void) close(succession->fd);
        succession->fd = -1;
    }
    past_deinit(&takeover.past);
    return r;
}

void succession_end(struct succession *succession) {
    if (succession->memory) {
        (void) munmap(succession->memory, succession->bytes);
        if (succession->fd >= 0)
            (void) close(succession->fd);
    }
    succession->memory = NULL;
    succession->store = fd_store_free(succession->store);
}
