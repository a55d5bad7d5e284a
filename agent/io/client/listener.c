#include "io/client/listener.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "io/client/peer-cred.h"
#include "io/loop/clock.h"
#include "io/loop/log-limit.h"
#include "io/loop/log.h"
#include "io/loop/loop.h"
#include "io/loop/pass-descriptor.h"

/* While several users ask, all users together get as many connections a second as four fifths of the work
 * share of one user allow, after a burst; the last fifth is for that user's other sessions. Further ones
 * wait in the backlog, and then their clients in connect(2): otherwise a program that connects and closes
 * all the time keeps a processor busy, and the front another one. All users' connections wait in the order
 * of their arrival, so in a flood the backlog is short: with the default max_work a full one takes 64 ms. */
enum {
    ACCEPTS_PER_TURN = 4,
    ACCEPTS_BURST = 256,
    BACKLOG = 4096,
    BACKLOG_IN_FLOOD = 64,
    PACE_MS = 10,
    PAUSE_MS = 100,
    FLOOD_S = 10, /* a flood is over when no connection had to wait for so long */
};

struct listener {
    int fd;
    const struct work_share *share; /* only read */
    int reserve_fd;                 /* closed to accept and reject a client when descriptors have run out */
    sd_event_source *source;
    sd_event_source *resume; /* ends a pause, and writes counts of the log */
    instant_ns paid_ns;      /* when the rate covers the connections so far */
    instant_ns paced_ns;     /* when connections last had to wait for the rate */
    bool in_flood;
    unsigned unpaced; /* connections that may still come without the rate: those of the long backlog */
    struct log_limit log;
    void (*on_client)(void *userdata, int fd);
    void (*on_full)(void *userdata, int fd);
    void *userdata;
};

static int address_of(const char *path, struct sockaddr_un *ret) {
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(ret->sun_path))
        return -ENAMETOOLONG;
    memcpy(ret->sun_path, path, strlen(path) + 1);
    return 0;
}

static bool is_ours(int fd) {
    struct ucred listening;

    return peer_cred_identify(fd, &listening) >= 0 && listening.pid == getpid();
}

int listener_remove_stale(const char *path) {
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un address;
    struct stat status;

    if (fd < 0)
        return -errno;
    int r = address_of(path, &address);
    if (r < 0)
        return r;
    if (lstat(path, &status) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(status.st_mode))
        return -ENOTSOCK;
    bool connected = connect(fd, (const struct sockaddr *) &address, sizeof(address)) == 0;
    if (connected ? !is_ours(fd) : errno == EAGAIN)
        return -EADDRINUSE;
    if (!connected && errno != ECONNREFUSED)
        return errno == ENOENT ? 0 : -errno;
    return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

int listener_set_access(const char *path, mode_t mode, gid_t group) {
    if (group != (gid_t) -1 && lchown(path, (uid_t) -1, group) < 0)
        return -errno;
    return chmod(path, mode) < 0 ? -errno : 0;
}

/* Creates the socket's directory as RuntimeDirectory= of systemd does. One level: a longer missing path is
 * more likely a mistake. */
static int make_directory_of(const char *path) {
    char directory[sizeof(((struct sockaddr_un *) NULL)->sun_path)];
    const char *slash = strrchr(path, '/');

    if (!slash || slash == path)
        return -ENOENT;
    memcpy(directory, path, (size_t) (slash - path));
    directory[slash - path] = '\0';
    if (mkdir(directory, 0755) < 0 || chmod(directory, 0755) < 0)
        return -errno;
    return 0;
}

static int bind_to(int fd, const char *path, const struct sockaddr_un *address) {
    if (bind(fd, (const struct sockaddr *) address, sizeof(*address)) == 0)
        return 0;
    if (errno != ENOENT)
        return -errno;
    int r = make_directory_of(path);
    if (r < 0)
        return r;
    return bind(fd, (const struct sockaddr *) address, sizeof(*address)) < 0 ? -errno : 0;
}

int listener_bind(const char *path, mode_t mode, gid_t group) {
    _cleanup_close_ int fd = -1;
    struct sockaddr_un address;

    int r = address_of(path, &address);
    if (r < 0)
        return r;
    r = listener_remove_stale(path);
    if (r < 0)
        return r;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    pass_descriptor_refuse(fd);
    /* The umask is 0077: other users can't connect before mode and group are set. */
    r = bind_to(fd, path, &address);
    if (r < 0)
        return r;
    r = listener_set_access(path, mode, group);
    if (r < 0)
        return r;
    if (listen(fd, BACKLOG) < 0)
        return -errno;
    return cleanup_steal_fd(&fd);
}

static void take_reserve(struct listener *listener) {
    if (listener->reserve_fd < 0)
        listener->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Closes the reserve to accept and reject a client; the reserve is opened again when the client has read the
 * error. */
static void reject_one(struct listener *listener) {
    take_reserve(listener);
    if (listener->reserve_fd < 0)
        return; /* the reserve still serves a client that was rejected before */
    (void) close(listener->reserve_fd);
    int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        listener->on_full(listener->userdata, fd);
    listener->reserve_fd = -1;
    take_reserve(listener);
}

static int on_resume(sd_event_source *source, uint64_t usec, void *userdata) {
    struct listener *listener = userdata;

    (void) source;
    (void) usec;
    take_reserve(listener); /* first: a new client could take the descriptor that a rejected one has freed */
    instant_ns due_ns = log_limit_settle(&listener->log, clock_now_ns());
    if (due_ns != INSTANT_NEVER) {
        int r = loop_set_timer(listener->resume, due_ns);
        if (r < 0)
            return r;
    }
    if (sd_event_source_set_enabled(listener->source, SD_EVENT_ON) >= 0)
        return 0;
    return loop_set_timer(listener->resume, clock_now_ns() + PAUSE_MS * NS_PER_MS); /* no memory */
}

/* May replace the timer's time for the log's next count: on_resume() sets that again. */
static int pause_until(struct listener *listener, instant_ns at_ns) {
    int r = sd_event_source_set_enabled(listener->source, SD_EVENT_OFF);

    return r < 0 ? r : loop_set_timer(listener->resume, at_ns);
}

/* The listener stays readable, but accept(2) fails: pauses instead of spinning. */
static int pause_listening(struct listener *listener, int error) {
    log_limit_write(&listener->log, clock_now_ns(),
                    "socket: can't accept connections: %s; the next try is in %d ms", strerror(error),
                    PAUSE_MS);
    if (error == EMFILE || error == ENFILE)
        reject_one(listener);
    return pause_until(listener, clock_now_ns() + PAUSE_MS * NS_PER_MS);
}

/* Without an effect if listen(2) fails: then others wait longer. */
static void set_backlog(struct listener *listener, int connections) {
    (void) listen(listener->fd, connections);
}

/* The time between two connections in a flood. */
static int64_t accept_ns(const struct listener *listener) {
    return NS_PER_S * WORK_SHARE_CONNECTION / listener->share->units_per_s * 5 / 4;
}

static void begin_flood(struct listener *listener, int client_fd) {
    struct ucred peer;

    listener->in_flood = true;
    listener->unpaced = BACKLOG;
    set_backlog(listener, BACKLOG_IN_FLOOD);
    if (peer_cred_identify(client_fd, &peer) >= 0)
        log_warning("socket: more than %lld connections a second, the latest by process %ld of user %u: "
                    "connections wait until there are fewer",
                    (long long) (NS_PER_S / accept_ns(listener)), (long) peer.pid, peer.uid);
}

static void end_flood(struct listener *listener) {
    listener->in_flood = false;
    set_backlog(listener, BACKLOG);
}

/* Counts the connection. True: the next ones have to wait. */
static bool is_too_fast(struct listener *listener, int client_fd, instant_ns now_ns) {
    int64_t each_ns = accept_ns(listener);
    instant_ns paid_ns = instant_max(listener->paid_ns, now_ns - ACCEPTS_BURST * each_ns) + each_ns;
    bool too_fast = paid_ns > now_ns && work_share_is_shared(listener->share, now_ns);

    listener->paid_ns = instant_min(paid_ns, now_ns + each_ns);
    if (too_fast) {
        if (!listener->in_flood)
            begin_flood(listener, client_fd);
        listener->paced_ns = now_ns;
    } else if (listener->in_flood && now_ns - listener->paced_ns > FLOOD_S * NS_PER_S) {
        end_flood(listener);
    }
    if (listener->unpaced > 0)
        listener->unpaced--;
    return too_fast && listener->unpaced == 0;
}

static int on_connection(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
    struct listener *listener = userdata;

    (void) source;
    (void) revents;
    for (unsigned i = 0; i < ACCEPTS_PER_TURN; i++) {
        int client_fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (client_fd >= 0) {
            instant_ns now_ns = clock_now_ns();
            bool too_fast = is_too_fast(listener, client_fd, now_ns);
            listener->on_client(listener->userdata, client_fd);
            if (too_fast)
                return pause_until(listener, instant_max(listener->paid_ns, now_ns + PACE_MS * NS_PER_MS));
            continue;
        }
        if (errno == EAGAIN)
            return 0;
        if (errno == EBADF || errno == EINVAL || errno == ENOTSOCK || errno == EOPNOTSUPP)
            return -errno; /* it will never accept again */
        /* Such as no memory, or a security module that refuses this client. */
        if (errno != EINTR && errno != ECONNABORTED)
            return pause_listening(listener, errno);
    }
    return 0;
}

int listener_new(sd_event *event, int fd, const struct work_share *share,
                 void (*on_client)(void *userdata, int fd), void (*on_full)(void *userdata, int fd),
                 void *userdata, struct listener **ret) {
    struct listener *listener = calloc(1, sizeof(*listener));

    if (!listener) {
        (void) close(fd);
        return -ENOMEM;
    }
    *listener =
        (struct listener){.fd = fd,
                          .share = share,
                          .on_client = on_client,
                          .on_full = on_full,
                          .userdata = userdata,
                          .log = {.kind = "connections that can't be accepted", .level = LOG_LEVEL_WARNING}};
    listener->reserve_fd = -1;
    take_reserve(listener);
    pass_descriptor_refuse(fd);
    set_backlog(listener, BACKLOG); /* a former process may have left it short */
    int r = sd_event_add_io(event, &listener->source, fd, EPOLLIN, on_connection, listener);
    if (r >= 0)
        r = sd_event_source_set_priority(listener->source, LOOP_PRIORITY_LISTENER);
    if (r >= 0)
        r = sd_event_source_set_enabled(listener->source, SD_EVENT_OFF);
    if (r >= 0)
        r = sd_event_source_set_exit_on_failure(listener->source, 1);
    if (r >= 0)
        r = loop_add_timer(event, on_resume, listener, &listener->resume);
    if (r < 0) {
        listener_free(listener);
        return r;
    }
    *ret = listener;
    return 0;
}

int listener_enable(struct listener *listener) {
    return sd_event_source_set_enabled(listener->source, SD_EVENT_ON);
}

struct listener *listener_free(struct listener *listener) {
    if (!listener)
        return NULL;
    if (listener->in_flood)
        end_flood(listener); /* systemd keeps the socket */
    sd_event_source_disable_unref(listener->source);
    sd_event_source_disable_unref(listener->resume);
    (void) close(listener->fd);
    if (listener->reserve_fd >= 0)
        (void) close(listener->reserve_fd);
    free(listener);
    return NULL;
}
