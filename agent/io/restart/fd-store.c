#include "io/restart/fd-store.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include "io/loop/service-manager.h"

enum {
    MESSAGE_BYTES = 96,
    SHORT_NAME_LENGTH = FD_STORE_ID_BITS / 6,
    NAME_BYTES = 32,
};

#define LONG_NAME_PREFIX "session-"

/* The name is one of the letters for each 6 bits. */
static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-";

struct fd_store {
    struct service_manager manager;
    size_t names_bytes; /* of all sessions' descriptors that the manager may have, with a colon each */
    size_t n_drops, drops_room;
    struct fd_store_session drops[]; /* to be removed: the manager has not taken these yet */
};

static void format_name(const struct fd_store_session *session, char ret[static NAME_BYTES]) {
    if (session->long_name) {
        (void) snprintf(ret, NAME_BYTES, LONG_NAME_PREFIX "%016" PRIx64, session->id);
        return;
    }
    for (unsigned i = 0; i < SHORT_NAME_LENGTH; i++)
        ret[i] = letters[session->id >> (FD_STORE_ID_BITS - 6 * (i + 1)) & 63];
    ret[SHORT_NAME_LENGTH] = '\0';
}

static bool parse_long_name(const char *digits, struct fd_store_session *ret) {
    char *end;

    errno = 0;
    uint64_t id = strtoull(digits, &end, 16);
    if (errno != 0 || end == digits || *end != '\0')
        return false;
    *ret = (struct fd_store_session){.id = id, .long_name = true, .count = 1};
    return true;
}

bool fd_store_parse_name(const char *name, struct fd_store_session *ret) {
    const size_t prefix_length = strlen(LONG_NAME_PREFIX);
    const char *letter;
    uint64_t id = 0;

    if (strncmp(name, LONG_NAME_PREFIX, prefix_length) == 0)
        return parse_long_name(name + prefix_length, ret);
    if (strlen(name) != SHORT_NAME_LENGTH)
        return false;
    for (; *name != '\0'; name++) {
        letter = strchr(letters, *name);
        if (!letter)
            return false;
        id = id << 6 | (uint64_t) (letter - letters);
    }
    *ret = (struct fd_store_session){.id = id, .count = 1};
    return true;
}

/* What one descriptor of the session takes of $LISTEN_FDNAMES. */
static size_t name_bytes(const struct fd_store_session *session) {
    char name[NAME_BYTES];

    format_name(session, name);
    return strlen(name) + 1;
}

int fd_store_new(size_t inherited, struct fd_store **ret) {
    /* A removal must not get lost for want of memory: another session could get its name. */
    const size_t drops_room = inherited + FD_STORE_NAMES_BYTES_MAX / (SHORT_NAME_LENGTH + 1);
    struct fd_store *store = calloc(1, sizeof(*store) + drops_room * sizeof(store->drops[0]));

    if (!store)
        return -ENOMEM;
    store->drops_room = drops_room;
    int r = service_manager_open(&store->manager);
    if (r < 0) {
        free(store);
        return r;
    }
    *ret = store;
    return 0;
}

struct fd_store *fd_store_free(struct fd_store *store) {
    if (!store)
        return NULL;
    service_manager_close(&store->manager);
    free(store);
    return NULL;
}

static int notify_drop(struct fd_store *store, const struct fd_store_session *session) {
    char text[MESSAGE_BYTES], name[NAME_BYTES];

    format_name(session, name);
    (void) snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
    return service_manager_send(&store->manager, text, -1);
}

/* 0 when none is left, or a negative errno. */
static int send_drops(struct fd_store *store) {
    while (store->n_drops > 0) {
        const struct fd_store_session *last = &store->drops[store->n_drops - 1];
        int r = notify_drop(store, last);
        if (r < 0)
            return r;
        store->names_bytes -= last->count * name_bytes(last);
        store->n_drops--;
    }
    return 0;
}

void fd_store_inherit(struct fd_store *store, const struct fd_store_session *session) {
    store->names_bytes += session->count * name_bytes(session);
}

/* One removal drops a session's socket and page, which have one name. */
int fd_store_put(struct fd_store *store, struct fd_store_session *session, int fd) {
    size_t bytes = name_bytes(session);
    char text[MESSAGE_BYTES], name[NAME_BYTES];

    int r = send_drops(store); /* one may have the same name */
    if (r < 0)
        return r;
    if (store->names_bytes + bytes > FD_STORE_NAMES_BYTES_MAX)
        return -E2BIG;
    format_name(session, name);
    (void) snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%s\nFDPOLL=0", name);
    r = service_manager_send(&store->manager, text, fd);
    if (r < 0)
        return r;
    session->count++;
    store->names_bytes += bytes;
    return 0;
}

void fd_store_drop(struct fd_store *store, struct fd_store_session *session) {
    assert(session->count > 0 && store->n_drops < store->drops_room);

    store->drops[store->n_drops++] = *session;
    *session = (struct fd_store_session){.id = session->id};
    if (store->n_drops == 1)
        (void) send_drops(store);
}

bool fd_store_is_dropping(const struct fd_store *store, uint64_t id) {
    for (size_t i = 0; i < store->n_drops; i++)
        if (!store->drops[i].long_name && fd_store_is_of(&store->drops[i], id))
            return true;
    return false;
}

instant_ns fd_store_settle(struct fd_store *store, instant_ns now_ns) {
    int r = send_drops(store);

    if (r == 0)
        return INSTANT_NEVER;
    return now_ns + (r == -EAGAIN ? FD_STORE_RETRY_MS : FD_STORE_RETRY_LATER_MS) * NS_PER_MS;
}

int fd_store_put_ledger(uint64_t sequence, int fd) {
    char text[MESSAGE_BYTES];

    (void) snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=" FD_STORE_LEDGER "%016" PRIx64 "\nFDPOLL=0",
                    sequence);
    int r = sd_pid_notify_with_fds(0, 0, text, &fd, 1);
    return r > 0 ? 0 : r < 0 ? r : -ENOTCONN;
}

void fd_store_drop_ledger(uint64_t sequence) {
    (void) sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=" FD_STORE_LEDGER "%016" PRIx64, sequence);
}

void fd_store_drop_inherited(const struct fd_store_session *session) {
    char name[NAME_BYTES];

    format_name(session, name);
    (void) sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s", name);
}
