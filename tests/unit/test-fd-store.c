/* The names of stored descriptors, which must all fit into one string of the next process's environment. */

#include <assert.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/restart/fd-store.h"
#include "tap.h"

enum {
    ENVIRONMENT_STRING_BYTES = 128 * 1024, /* Linux: MAX_ARG_STRLEN */
    DESCRIPTORS = 24576,                   /* FileDescriptorStoreMax= of redlockd.service */
};

static struct {
    int fd;
    char said[4096];
} manager;

/* Whether there was another message. Its descriptor is closed. */
static bool listen_once(void) {
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } room = {0};
    struct iovec bytes = {.iov_base = manager.said, .iov_len = sizeof(manager.said) - 1};
    struct msghdr message = {
        .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof(room)};
    ssize_t n = recvmsg(manager.fd, &message, MSG_DONTWAIT);
    int fd;

    if (n < 0)
        return false;
    manager.said[n] = '\0';
    if (message.msg_controllen > 0) {
        memcpy(&fd, CMSG_DATA(&room.header), sizeof(fd));
        (void) close(fd);
    }
    return true;
}

static struct fd_store *start(size_t inherited) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t length = sizeof(address);
    char path[sizeof(address.sun_path) + 1] = "@";
    struct fd_store *store = NULL;

    if (manager.fd > 0)
        (void) close(manager.fd);
    manager.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert(manager.fd > 0);
    assert(bind(manager.fd, (void *) &address, sizeof(sa_family_t)) == 0); /* the kernel chooses a name */
    assert(getsockname(manager.fd, (void *) &address, &length) == 0);
    memcpy(path + 1, address.sun_path + 1, length - sizeof(sa_family_t) - 1);
    assert(setenv("NOTIFY_SOCKET", path, 1) == 0);
    assert(fd_store_new(inherited, &store) == 0);
    return store;
}

/* Puts a descriptor into the store. Its name, or NULL. */
static const char *put(struct fd_store *store, struct fd_store_session *session, int *ret) {
    char *name;

    *ret = fd_store_put(store, session, STDERR_FILENO);
    if (*ret < 0)
        return NULL;
    assert(listen_once());
    name = strstr(manager.said, "FDNAME=");
    assert(name);
    name += strlen("FDNAME=");
    name[strcspn(name, "\n")] = '\0';
    return name;
}

/* --- tests --- */

static void names(void) {
    static const struct {
        const char *name;
        uint64_t id;
        bool long_name;
    } known[] = {
        {"0000", 0, false},
        {"----", 0xffffff, false},
        {"0z_A", 0x3df8a, false},
        {"session-0012345678901234", 0x12345678901234, true},
    };
    static const char *const others[] = {"",         "000",       "00000",
                                         "00 0",     "ledg:",     "redlockd.socket",
                                         "session-", "session-x", "ledger-0000000000000001"};
    struct fd_store_session session;

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        ok(fd_store_parse_name(known[i].name, &session) && session.id == known[i].id &&
               session.long_name == known[i].long_name && session.count == 1,
           "the session of %s", known[i].name);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        ok(!fd_store_parse_name(others[i], &session), "'%s' is no session", others[i]);
}

static void round_trips(void) {
    static const uint64_t ids[] = {UINT64_C(0x9abcdef012345), 1, UINT64_C(1) << 20,
                                   UINT64_C(0xfffff) | UINT64_C(7) << 20};
    struct fd_store *store = start(0);
    bool same = true, valid = true;
    int r;

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        struct fd_store_session session = {.id = ids[i]}, found;
        const char *name = put(store, &session, &r);
        same &= name && fd_store_parse_name(name, &found) && fd_store_is_of(&found, ids[i]) &&
                !fd_store_is_of(&found, ids[i] + (UINT64_C(1) << 20)) && !fd_store_is_of(&found, ids[i] ^ 1);
        for (; name && *name; name++)
            valid &= *name > ' ' && *name < 127 && *name != ':';
    }
    ok(same, "a short name is of the session's slot and generation");
    ok(valid, "and of characters that systemd allows");
    struct fd_store_session old = {.id = 0x123, .long_name = true};
    is_string(put(store, &old, &r), "session-0000000000000123",
              "a session keeps the name of a former version");
    fd_store_drop(store, &old);
    ok(listen_once() && strstr(manager.said, "FDSTOREREMOVE=1\nFDNAME=session-0000000000000123"),
       "by which it is removed");
    ok(!strstr(put(store, &old, &r), "session"), "stored again, it has a short one");
    fd_store_free(store);
}

/* Puts until the store is full. */
static size_t fill(struct fd_store *store, struct fd_store_session *sessions, size_t room,
                   size_t *ret_bytes) {
    size_t n = 0;
    int r = 0;

    for (*ret_bytes = 0; n < room; n++) {
        sessions[n] = (struct fd_store_session){.id = n};
        const char *name = put(store, &sessions[n], &r);
        if (!name)
            break;
        *ret_bytes += strlen(name) + 1;
    }
    is_int(r, -E2BIG, "a full store takes no more");
    return n;
}

static void bound(void) {
    static struct fd_store_session sessions[2 * DESCRIPTORS];
    const size_t room = sizeof(sessions) / sizeof(sessions[0]);
    struct fd_store *store = start(0);
    size_t bytes, fewer;
    int r;

    size_t n = fill(store, sessions, room, &bytes);
    ok(n >= DESCRIPTORS, "it has room for FileDescriptorStoreMax= (%zu)", n);
    ok(bytes + 4096 <= ENVIRONMENT_STRING_BYTES, "and the next process can be executed: %zu bytes", bytes);
    fd_store_drop(store, &sessions[5]);
    ok(listen_once(), "a session leaves");
    ok(put(store, &sessions[n], &r) != NULL, "and there is room for another one");
    ok(!put(store, &sessions[5], &r) && r == -E2BIG, "for one");
    fd_store_free(store);

    struct fd_store_session old = {.id = 1, .long_name = true, .count = 1000};
    store = start(1);
    fd_store_inherit(store, &old);
    size_t less = fill(store, sessions, room, &fewer);
    ok(less < n && fewer + 25000 <= bytes + 25, "what former processes have left counts");
    fd_store_drop(store, &old);
    ok(listen_once() && put(store, &sessions[less], &r), "until it is removed");
    fd_store_free(store);
}

/* A manager that reads nothing. */
static void slow_manager(void) {
    struct fd_store_session session = {.id = 7}, other = {.id = 8};
    struct fd_store *store = start(0);
    unsigned messages = 0;
    int r = 0;

    ok(put(store, &session, &r) != NULL, "a session is stored");
    while (r == 0)
        r = fd_store_put(store, &other, STDERR_FILENO);
    is_int(r, -EAGAIN, "the manager takes nothing more");
    ok(!fd_store_is_dropping(store, 7), "the session's name is its own");
    fd_store_drop(store, &session);
    ok(fd_store_is_dropping(store, 7) && fd_store_is_dropping(store, 7 | UINT64_C(1) << 24),
       "its removal waits: no session may get its name");
    ok(!fd_store_is_dropping(store, 7 | UINT64_C(1) << 23) && !fd_store_is_dropping(store, 8),
       "but one with another name");
    is_int(fd_store_settle(store, NS_PER_S), NS_PER_S + FD_STORE_RETRY_MS * NS_PER_MS, "it is tried again");
    for (; listen_once(); messages++)
        ;
    is_int(fd_store_put(store, &other, STDERR_FILENO), 0, "the manager reads again");
    ok(listen_once() && strstr(manager.said, "FDSTOREREMOVE=1"), "the removal is sent first (%u before)",
       messages);
    ok(listen_once() && strstr(manager.said, "FDSTORE=1"), "then what is stored");
    ok(!fd_store_is_dropping(store, 7), "and the name is free");

    fd_store_drop(store, &other);
    while (listen_once())
        ;
    (void) close(manager.fd);
    manager.fd = -1;
    session = (struct fd_store_session){.id = 7, .count = 1};
    fd_store_inherit(store, &session);
    fd_store_drop(store, &session);
    is_int(fd_store_settle(store, NS_PER_S), NS_PER_S + FD_STORE_RETRY_LATER_MS * NS_PER_MS,
           "without a manager the removal is not given up");
    is_int(fd_store_put(store, &other, STDERR_FILENO), -ECONNREFUSED, "and nothing is stored");
    fd_store_free(store);
}

int main(void) {
    names();
    round_trips();
    bound();
    slow_manager();
    return done_testing();
}
