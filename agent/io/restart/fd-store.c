#include "io/restart/fd-store.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "io/loop/pass-descriptor.h"

enum { MESSAGE_BYTES = 96 };

static const char session_prefix[] = "session-", ledger_prefix[] = "ledger-";

struct fd_store {
    int fd;
    struct sockaddr_un manager;
    socklen_t manager_length;
    uint64_t *drops; /* sessions that the manager has not heard the end of */
    size_t n_drops, drops_room;
    instant_ns retry_ns; /* INSTANT_NEVER: nothing is left to say */
};

int fd_store_new(struct fd_store **ret) {
    const char *path = getenv("NOTIFY_SOCKET");
    size_t length = path ? strlen(path) : 0;
    struct fd_store *store;

    if (length < 2 || (path[0] != '/' && path[0] != '@') || length >= sizeof(store->manager.sun_path))
        return -ENOTCONN;
    store = calloc(1, sizeof(*store));
    if (!store)
        return -ENOMEM;
    store->manager.sun_family = AF_UNIX;
    memcpy(store->manager.sun_path, path, length);
    if (path[0] == '@')
        store->manager.sun_path[0] = '\0';
    store->manager_length = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + length);
    store->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (store->fd < 0) {
        int r = -errno;
        free(store);
        return r;
    }
    *ret = store;
    return 0;
}

struct fd_store *fd_store_free(struct fd_store *store) {
    if (!store)
        return NULL;
    (void) close(store->fd);
    free(store->drops);
    free(store);
    return NULL;
}

/* With a descriptor, or -1. */
static int say(struct fd_store *store, const char *text, int fd) {
    union pass_descriptor_room passing = {0};
    struct iovec bytes = {.iov_base = (char *) (uintptr_t) text, .iov_len = strlen(text)};
    struct msghdr message = {.msg_name = &store->manager,
                             .msg_namelen = store->manager_length,
                             .msg_iov = &bytes,
                             .msg_iovlen = 1};

    if (fd >= 0)
        pass_descriptor(&message, &passing, fd);
    if (sendmsg(store->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
        return 0;
    return errno == EINTR || errno == ENOBUFS || errno == ENOMEM ? -EAGAIN : -errno;
}

/* Pages don't poll, and the socket's name is theirs too: one word drops both. */
int fd_store_put(struct fd_store *store, uint64_t session, int fd) {
    char text[MESSAGE_BYTES];
    struct stat status;

    if (store->n_drops > 0)
        return -EAGAIN; /* one may be of the same name */
    if (fstat(fd, &status) < 0)
        return -errno;
    (void) snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%s%016" PRIx64 "%s", session_prefix, session,
                    S_ISSOCK(status.st_mode) ? "" : "\nFDPOLL=0");
    return say(store, text, fd);
}

static int say_drop(struct fd_store *store, uint64_t session) {
    char text[MESSAGE_BYTES];

    (void) snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s%016" PRIx64, session_prefix, session);
    return say(store, text, -1);
}

void fd_store_drop(struct fd_store *store, uint64_t session) {
    if (store->n_drops == 0 && say_drop(store, session) != -EAGAIN)
        return;
    if (store->n_drops == store->drops_room) {
        size_t room = store->drops_room ? 2 * store->drops_room : 64;
        uint64_t *larger = reallocarray(store->drops, room, sizeof(*larger));
        if (!larger)
            abort();
        store->drops = larger;
        store->drops_room = room;
    }
    store->drops[store->n_drops++] = session;
}

instant_ns fd_store_settle(struct fd_store *store, instant_ns now_ns) {
    while (store->n_drops > 0 && say_drop(store, store->drops[store->n_drops - 1]) != -EAGAIN)
        store->n_drops--;
    return store->n_drops > 0 ? now_ns + STORE_RETRY_MS * NS_PER_MS : INSTANT_NEVER;
}

int fd_store_put_ledger(struct fd_store *store, uint64_t sequence, int fd) {
    char text[MESSAGE_BYTES];

    (void) store;
    (void) snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%s%016" PRIx64 "\nFDPOLL=0", ledger_prefix,
                    sequence);
    int r = sd_pid_notify_with_fds(0, 0, text, &fd, 1);
    return r > 0 ? 0 : r < 0 ? r : -ENOTCONN;
}

int fd_store_drop_ledger(struct fd_store *store, uint64_t sequence) {
    (void) store;
    int r = sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s%016" PRIx64, ledger_prefix, sequence);
    return r > 0 ? 0 : r < 0 ? r : -ENOTCONN;
}

/* --- what a former process has put there --- */

/* The number behind the prefix; false when the name is another's. */
static bool number_in(const char *name, const char *prefix, uint64_t *ret) {
    size_t length = strlen(prefix);
    char *end;

    if (strncmp(name, prefix, length) != 0)
        return false;
    errno = 0;
    *ret = strtoull(name + length, &end, 16);
    return errno == 0 && end != name + length && *end == '\0';
}

static int by_id(const void *a, const void *b) {
    const struct fd_store_inherited_session *one = a, *other = b;

    return one->id < other->id ? -1 : one->id > other->id;
}

/* A session's socket and its page come under one name. */
static void join_pages(struct fd_store_inherited *inheritance) {
    struct fd_store_inherited_session *sessions = inheritance->sessions;
    size_t n = 0;

    if (inheritance->n_sessions == 0)
        return;
    qsort(sessions, inheritance->n_sessions, sizeof(sessions[0]), by_id);
    for (size_t i = 0; i < inheritance->n_sessions; i++) {
        if (n == 0 || sessions[n - 1].id != sessions[i].id) {
            sessions[n++] = sessions[i];
            continue;
        }
        struct fd_store_inherited_session *same = &sessions[n - 1];
        int *const from[] = {&sessions[i].fd, &sessions[i].page_fd}, *const to[] = {&same->fd,
                                                                                    &same->page_fd};
        for (unsigned j = 0; j < 2; j++) {
            if (*to[j] < 0)
                *to[j] = *from[j];
            else if (*from[j] >= 0)
                (void) close(*from[j]); /* stored twice */
        }
    }
    inheritance->n_sessions = n;
}

static void take_one(struct fd_store_inherited *inheritance, int fd, const char *name) {
    struct stat status;
    uint64_t number;

    if (number_in(name, session_prefix, &number) && fstat(fd, &status) == 0) {
        bool is_socket = S_ISSOCK(status.st_mode);
        inheritance->sessions[inheritance->n_sessions++] = (struct fd_store_inherited_session){
            .id = number, .fd = is_socket ? fd : -1, .page_fd = is_socket ? -1 : fd};
    } else if (number_in(name, ledger_prefix, &number)) {
        size_t room = sizeof(inheritance->ledgers) / sizeof(inheritance->ledgers[0]);
        if (inheritance->n_ledgers < room)
            inheritance->ledgers[inheritance->n_ledgers++] = (struct fd_store_inherited_ledger){number, fd};
        else
            (void) close(fd);
    } else if (inheritance->n_listen++ == 0) {
        inheritance->listen_fd = fd;
    } else {
        (void) close(fd);
    }
}

int fd_store_inherited_take(struct fd_store_inherited *ret) {
    char **names = NULL;
    int n = sd_listen_fds_with_names(1, &names);

    *ret = (struct fd_store_inherited){.listen_fd = -1};
    if (n <= 0)
        return n;
    ret->sessions = calloc((size_t) n, sizeof(ret->sessions[0]));
    for (int i = 0; ret->sessions && i < n; i++)
        take_one(ret, SD_LISTEN_FDS_START + i, names[i]);
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    if (!ret->sessions)
        return -ENOMEM;
    join_pages(ret);
    return 0;
}

void fd_store_inherited_drop(const struct fd_store_inherited *inheritance) {
    for (size_t i = 0; i < inheritance->n_sessions; i++)
        (void) sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s%016" PRIx64, session_prefix,
                          inheritance->sessions[i].id);
    for (size_t i = 0; i < inheritance->n_ledgers; i++)
        (void) sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s%016" PRIx64, ledger_prefix,
                          inheritance->ledgers[i].sequence);
}

void fd_store_inherited_close(struct fd_store_inherited *inheritance) {
    for (size_t i = 0; i < inheritance->n_sessions; i++) {
        if (inheritance->sessions[i].fd >= 0)
            (void) close(inheritance->sessions[i].fd);
        if (inheritance->sessions[i].page_fd >= 0)
            (void) close(inheritance->sessions[i].page_fd);
    }
    for (size_t i = 0; i < inheritance->n_ledgers; i++)
        (void) close(inheritance->ledgers[i].fd);
    free(inheritance->sessions);
    inheritance->sessions = NULL;
    inheritance->n_sessions = inheritance->n_ledgers = 0;
}
