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

struct fd_store {
    int fd;
    struct sockaddr_un manager;
    socklen_t manager_length;
    uint64_t *drops; /* sessions to remove that the manager has not taken */
    size_t n_drops, drops_room;
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

/* Sends a message, with a descriptor or -1. */
static int notify(struct fd_store *store, const char *text, int fd) {
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

/* Pages can't be polled. One removal drops a session's socket and page, which have one name. */
int fd_store_put(struct fd_store *store, uint64_t session, int fd) {
    char text[MESSAGE_BYTES];
    struct stat status;

    if (store->n_drops > 0)
        return -EAGAIN; /* one may have the same name */
    if (fstat(fd, &status) < 0)
        return -errno;
    (void) snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=" FD_STORE_SESSION "%016" PRIx64 "%s", session,
                    S_ISSOCK(status.st_mode) ? "" : "\nFDPOLL=0");
    return notify(store, text, fd);
}

static int notify_drop(struct fd_store *store, uint64_t session) {
    char text[MESSAGE_BYTES];

    (void) snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=" FD_STORE_SESSION "%016" PRIx64, session);
    return notify(store, text, -1);
}

void fd_store_drop(struct fd_store *store, uint64_t session) {
    if (store->n_drops == 0 && notify_drop(store, session) != -EAGAIN)
        return;
    if (store->n_drops == store->drops_room) {
        size_t room = store->drops_room ? 2 * store->drops_room : 64;
        uint64_t *larger = reallocarray(store->drops, room, sizeof(*larger));
        if (!larger)
            return; /* the manager notices by itself that the socket is closed, and drops it */
        store->drops = larger;
        store->drops_room = room;
    }
    store->drops[store->n_drops++] = session;
}

instant_ns fd_store_settle(struct fd_store *store, instant_ns now_ns) {
    while (store->n_drops > 0 && notify_drop(store, store->drops[store->n_drops - 1]) != -EAGAIN)
        store->n_drops--;
    return store->n_drops > 0 ? now_ns + FD_STORE_RETRY_MS * NS_PER_MS : INSTANT_NEVER;
}

int fd_store_put_ledger(uint64_t sequence, int fd) {
    char text[MESSAGE_BYTES];

    (void) snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=" FD_STORE_LEDGER "%016" PRIx64 "\nFDPOLL=0",
                    sequence);
    int r = sd_pid_notify_with_fds(0, 0, text, &fd, 1);
    return r > 0 ? 0 : r < 0 ? r : -ENOTCONN;
}

int fd_store_drop_ledger(uint64_t sequence) {
    int r = sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=" FD_STORE_LEDGER "%016" PRIx64, sequence);
    return r > 0 ? 0 : r < 0 ? r : -ENOTCONN;
}
