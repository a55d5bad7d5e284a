/* The blocking calls and the event-loop face of libredlock, over the state machine in client.c. */

#include "redlock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "connection.h"
#include "sight.h"

#define EXPORT __attribute__((visibility("default")))
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

enum { ANSWER_TIMEOUT_MS = 10000, READ_BYTES = 4096, NAME_BYTES_MAX = 512, DATA_BYTES_MAX = 1024 };

struct redlock {
    struct client client;
    pid_t owner;
    int fd;
    int epoll_fd; /* for event loops: the socket and the timer; -1 until asked for */
    int timer_fd;
    bool watches_write;
    int64_t timer_ns;
    int64_t answer_timeout_ms;
    struct sight sight;
    int received_fd;           /* that came with the last reply; -1: none */
    _Atomic uint32_t *is_ours; /* 1; 0 in a forked child, which the kernel sees to */
};

static int64_t now_ns(void) {
    struct timespec now;

    (void) clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t) now.tv_sec * NS_PER_S + now.tv_nsec;
}

EXPORT const char *redlock_strerror(int error) {
    static const char *const texts[] = {
        [-REDLOCK_OK] = "success",
        [-REDLOCK_BUSY] = "held by another",
        [-REDLOCK_TIMED_OUT] = "waited as long as asked",
        [-REDLOCK_NO_QUORUM] = "no quorum of the Redis nodes",
        [-REDLOCK_DENIED] = "not allowed",
        [-REDLOCK_QUOTA] = "a limit of the agent is reached",
        [-REDLOCK_BAD_NAME] = "not a name",
        [-REDLOCK_BAD_ARGUMENT] = "an argument is out of its range",
        [-REDLOCK_LOST] = "the lease is no longer held",
        [-REDLOCK_DRAINING] = "the agent is about to stop",
        [-REDLOCK_AGENT_AWAY] = "the agent is not reachable",
        [-REDLOCK_NO_ANSWER] = "the agent does not answer",
        [-REDLOCK_PROTOCOL] = "the agent speaks another protocol",
        [-REDLOCK_FORKED] = "the connection belongs to the parent process",
        [-REDLOCK_NO_MEMORY] = "out of memory",
        [-REDLOCK_SYSTEM] = "a system call failed",
    };

    if (error > 0)
        error = 0;
    if (error < REDLOCK_SYSTEM)
        return "unknown error";
    return texts[-error];
}

/* --- bytes --- */

static int broken(struct redlock *connection, int error, const char *text) {
    client_disconnected(&connection->client, error, text);
    return error;
}

static int system_broken(struct redlock *connection, const char *what) {
    char text[160];
    bool closed = errno == EPIPE || errno == ECONNRESET;

    (void) snprintf(text, sizeof(text), "the connection to the agent broke (%s: %s)", what, strerror(errno));
    return broken(connection, closed ? REDLOCK_AGENT_AWAY : REDLOCK_SYSTEM, text);
}

/* Sends what the socket takes. */
static int send_output(struct redlock *connection) {
    struct client *client = &connection->client;

    while (client->output_length > 0) {
        ssize_t n = send(connection->fd, client->output, client->output_length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return REDLOCK_OK;
        if (n < 0)
            return system_broken(connection, "send");
        client_sent(client, (size_t) n);
    }
    return REDLOCK_OK;
}

/* Descriptors that came along: the last one is kept until its reply is looked at. */
static void take_descriptors(struct redlock *connection, struct msghdr *message) {
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            if (connection->received_fd >= 0)
                (void) close(connection->received_fd);
            memcpy(&connection->received_fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
        }
    }
}

static ssize_t receive(struct redlock *connection, char *room) {
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct iovec bytes = {.iov_base = room, .iov_len = READ_BYTES};
    struct msghdr message = {.msg_iov = &bytes,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control.bytes)};

    ssize_t n = recvmsg(connection->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n >= 0 && message.msg_controllen > 0)
        take_descriptors(connection, &message);
    return n;
}

/* Reads what is there. */
static int receive_input(struct redlock *connection) {
    struct client *client = &connection->client;

    for (;;) {
        char *room = client_input_room(client, READ_BYTES);
        if (!room)
            return broken(connection, REDLOCK_PROTOCOL, "the agent sends larger replies than there are");
        ssize_t n = receive(connection, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return REDLOCK_OK;
        if (n < 0)
            return system_broken(connection, "recv");
        if (n == 0) {
            char why[sizeof(client->error_text) + 64];
            (void) snprintf(why, sizeof(why), "the agent closed the connection%s%.500s",
                            client->error_text[0] ? ": " : "", client->error_text);
            return broken(connection, REDLOCK_AGENT_AWAY, why);
        }
        int error = client_received(client, (size_t) n, now_ns());
        if (error != REDLOCK_OK) {
            char why[sizeof(client->error_text)];
            (void) snprintf(why, sizeof(why), "%s", client->error_text);
            return broken(connection, error, why);
        }
        if (n < READ_BYTES)
            return REDLOCK_OK;
    }
}

static int forked(struct redlock *connection) {
    if (connection->owner == getpid())
        return REDLOCK_OK;
    client_note(&connection->client, "the connection belongs to process %ld", (long) connection->owner);
    return REDLOCK_FORKED;
}

/* What every call begins with. */
static int begin(struct redlock *connection) {
    int error = forked(connection);

    if (error != REDLOCK_OK)
        return error;
    if (connection->client.gone)
        return REDLOCK_AGENT_AWAY;
    connection->client.error_text[0] = '\0';
    return REDLOCK_OK;
}

/* Waits for the reply until `until_ns`. The reply's own error is in it. */
static int wait_for(struct redlock *connection, const struct client_reply *reply, int64_t until_ns) {
    for (;;) {
        int error = send_output(connection);
        if (error != REDLOCK_OK || reply->done)
            return error;
        int64_t left_ns = until_ns == INT64_MAX ? INT64_MAX : until_ns - now_ns();
        if (left_ns <= 0)
            return REDLOCK_NO_ANSWER;
        struct timespec timeout = {.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S};
        struct pollfd poll = {
            .fd = connection->fd,
            .events = (short) (POLLIN | (connection->client.output_length > 0 ? POLLOUT : 0)),
        };
        int n = ppoll(&poll, 1, until_ns == INT64_MAX ? NULL : &timeout, NULL);
        if (n < 0 && errno != EINTR)
            return system_broken(connection, "poll");
        if (n > 0 && (poll.revents & (POLLIN | POLLHUP | POLLERR))) {
            error = receive_input(connection);
            if (error != REDLOCK_OK)
                return error;
        }
        if (reply->done)
            return REDLOCK_OK;
    }
}

static int64_t answer_until_ns(const struct redlock *connection) {
    return now_ns() + connection->answer_timeout_ms * NS_PER_MS;
}

/* Sends one request and waits for its reply. */
int connection_ask(struct redlock *connection, const struct resp_token *items, size_t n_items,
                   struct client_reply *reply) {
    int error = begin(connection);

    if (error == REDLOCK_OK)
        error = client_request(&connection->client, KIND_OTHER, items, n_items, NULL, reply, now_ns());
    if (error == REDLOCK_OK)
        error = wait_for(connection, reply, answer_until_ns(connection));
    if (error != REDLOCK_OK && !reply->done) {
        client_forget(&connection->client, reply);
        if (error == REDLOCK_NO_ANSWER)
            client_note(&connection->client, "the agent has not answered for %lld ms",
                        (long long) connection->answer_timeout_ms);
    }
    return reply->done ? reply->error : error;
}

/* --- connections --- */

static int open_socket(const char *path, int *ret_fd) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return REDLOCK_AGENT_AWAY;
    }
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return REDLOCK_SYSTEM;
    /* EAGAIN: the agent's backlog is full, so it is there but does not take us. */
    if (connect(fd, (const struct sockaddr *) &address, sizeof(address)) < 0) {
        int error = errno == EAGAIN ? REDLOCK_NO_ANSWER : REDLOCK_AGENT_AWAY, saved_errno = errno;
        (void) close(fd);
        errno = saved_errno;
        return error;
    }
    *ret_fd = fd;
    return REDLOCK_OK;
}

/* Asks for the page. An agent that has none is no failure: then the deadlines are those that were told. */
static int ask_for_sight(struct redlock *connection) {
    static const struct resp_token page[] = {{.text = "PAGE", .length = 4}};
    struct client_reply reply = {0};

    int error = connection_ask(connection, page, 1, &reply);
    if (error == REDLOCK_OK && connection->received_fd >= 0)
        (void) sight_open(&connection->sight, connection->received_fd);
    if (connection->received_fd >= 0)
        (void) close(connection->received_fd);
    connection->received_fd = -1;
    connection->client.error_text[0] = '\0';
    return connection->client.gone ? error : REDLOCK_OK;
}

/* A page that the kernel empties in a forked child, so that it costs no system call to know. */
static int make_fork_guard(struct redlock *connection) {
    size_t bytes = (size_t) sysconf(_SC_PAGESIZE);
    void *guard = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (guard == MAP_FAILED)
        return REDLOCK_NO_MEMORY;
    connection->is_ours = guard;
    if (madvise(guard, bytes, MADV_WIPEONFORK) < 0)
        return REDLOCK_SYSTEM;
    *connection->is_ours = 1;
    return REDLOCK_OK;
}

EXPORT int redlock_connect(const char *socket_path, struct redlock **ret) {
    static const struct resp_token hello[] = {{.text = "HELLO", .length = 5}, {.text = "3", .length = 1}};
    struct client_reply reply = {0};
    struct redlock *connection = calloc(1, sizeof(*connection));

    if (!connection)
        return REDLOCK_NO_MEMORY;
    *connection = (struct redlock){.owner = getpid(),
                                   .fd = -1,
                                   .epoll_fd = -1,
                                   .timer_fd = -1,
                                   .received_fd = -1,
                                   .answer_timeout_ms = ANSWER_TIMEOUT_MS};
    if (!socket_path)
        socket_path = secure_getenv("REDLOCK_SOCKET");
    int error = client_init(&connection->client, connection, &connection->sight);
    if (error == REDLOCK_OK)
        error = make_fork_guard(connection);
    if (error == REDLOCK_OK)
        error = open_socket(socket_path ? socket_path : REDLOCK_DEFAULT_SOCKET, &connection->fd);
    if (error == REDLOCK_OK)
        error = connection_ask(connection, hello, 2, &reply);
    if (error == REDLOCK_OK)
        error = ask_for_sight(connection);
    if (error != REDLOCK_OK) {
        int saved_errno = errno;
        redlock_close(connection);
        errno = saved_errno;
        return error;
    }
    *ret = connection;
    return REDLOCK_OK;
}

EXPORT void redlock_close(struct redlock *connection) {
    if (!connection)
        return;
    if (connection->epoll_fd >= 0)
        (void) close(connection->epoll_fd);
    if (connection->timer_fd >= 0)
        (void) close(connection->timer_fd);
    if (connection->fd >= 0)
        (void) close(connection->fd);
    if (connection->received_fd >= 0)
        (void) close(connection->received_fd);
    if (connection->is_ours)
        (void) munmap((void *) (uintptr_t) connection->is_ours, (size_t) sysconf(_SC_PAGESIZE));
    client_deinit(&connection->client);
    sight_close(&connection->sight);
    free(connection);
}

EXPORT void redlock_set_answer_timeout(struct redlock *connection, int64_t timeout_ms) {
    connection->answer_timeout_ms = timeout_ms > 0 ? timeout_ms : 1;
}

EXPORT const char *redlock_error_text(const struct redlock *connection) {
    return connection->client.error_text;
}

/* --- leases --- */

enum { ACQUIRE_ITEMS_MAX = 13, NUMBER_BYTES = 24 };

struct acquire_request {
    struct resp_token items[ACQUIRE_ITEMS_MAX];
    size_t n_items;
    char numbers[4][NUMBER_BYTES];
    size_t n_numbers;
};

static void add_item(struct acquire_request *request, const void *bytes, size_t length) {
    request->items[request->n_items++] = (struct resp_token){.text = bytes, .length = length};
}

static void add_number(struct acquire_request *request, const char *word, int64_t value) {
    char *digits = request->numbers[request->n_numbers++];

    add_item(request, word, strlen(word));
    add_item(request, digits, (size_t) snprintf(digits, NUMBER_BYTES, "%lld", (long long) value));
}

static void compose(struct acquire_request *request, const char *name, const struct redlock_options *options,
                    bool async) {
    add_item(request, "ACQUIRE", strlen("ACQUIRE"));
    add_item(request, name, strlen(name));
    if (options->ttl_ms != 0)
        add_number(request, "TTL", options->ttl_ms);
    if (options->wait_ms != 0)
        add_number(request, "WAIT", options->wait_ms);
    if (options->heartbeat_ms != 0)
        add_number(request, "HEARTBEAT", options->heartbeat_ms);
    if (options->max_hold_ms != 0)
        add_number(request, "MAXHOLD", options->max_hold_ms);
    if (options->data_length > 0) {
        add_item(request, "DATA", strlen("DATA"));
        add_item(request, options->data, options->data_length);
    }
    if (async)
        add_item(request, "ASYNC", strlen("ASYNC"));
}

/* What a caller built against an older header gave, with what came later at its default. */
static int read_options(struct redlock *connection, const struct redlock_options *given, const char *name,
                        struct redlock_options *ret) {
    *ret = (struct redlock_options){.size = sizeof(*ret)};
    if (given)
        memcpy(ret, given, given->size < sizeof(*ret) ? given->size : sizeof(*ret));
    if (strlen(name) < 1 || strlen(name) > NAME_BYTES_MAX) {
        client_note(&connection->client, "a name has 1 to 512 bytes");
        return REDLOCK_BAD_NAME;
    }
    if (ret->data_length > DATA_BYTES_MAX) {
        client_note(&connection->client, "data has at most 1,024 bytes");
        return REDLOCK_BAD_ARGUMENT;
    }
    return REDLOCK_OK;
}

/* Asks for the lease: with one request and one reply, or with ASYNC, which leaves the connection free
 * meanwhile. */
static int ask_for(struct redlock *connection, const char *name, const struct redlock_options *given,
                   bool async, struct client_reply *reply, struct redlock_options *options,
                   struct redlock_lease **ret) {
    struct acquire_request request = {0};

    int error = begin(connection);
    if (error == REDLOCK_OK)
        error = read_options(connection, given, name, options);
    if (error != REDLOCK_OK)
        return error;
    async = async || options->wait_ms != 0;
    compose(&request, name, options, async);
    struct redlock_lease *lease = client_lease_new(&connection->client, name);
    if (!lease)
        return REDLOCK_NO_MEMORY;
    if (reply && async)
        lease->outcome = reply;
    lease->async = !reply;
    error = client_request(&connection->client, async ? KIND_ASYNC : KIND_ACQUIRE, request.items,
                           request.n_items, lease, async ? NULL : reply, now_ns());
    if (error != REDLOCK_OK) {
        client_lease_drop(&connection->client, lease);
        return error;
    }
    *ret = lease;
    return REDLOCK_OK;
}

/* Gives a request up that was not answered in time: what it may still get is released. */
static void give_up(struct redlock *connection, struct redlock_lease *lease) {
    struct client *client = &connection->client;

    lease->outcome = NULL;
    if (lease->id != 0 && lease->state != LEASE_OVER && !client->gone)
        (void) client_request_id(client, KIND_OTHER, "RELEASE", lease, NULL, now_ns());
    client_lease_drop(client, lease);
    if (!client->gone)
        (void) send_output(connection);
}

EXPORT int redlock_acquire(struct redlock *connection, const char *name, const struct redlock_options *given,
                           struct redlock_lease **ret) {
    struct redlock_options options;
    struct client_reply reply = {0};
    struct redlock_lease *lease = NULL;

    int error = ask_for(connection, name, given, false, &reply, &options, &lease);
    if (error != REDLOCK_OK)
        return error;
    int64_t until_ns = answer_until_ns(connection);
    if (options.wait_ms < 0)
        until_ns = INT64_MAX;
    else if (options.wait_ms > 0)
        until_ns += options.wait_ms * NS_PER_MS;
    error = wait_for(connection, &reply, until_ns);
    if (reply.done)
        error = reply.error;
    else
        client_forget(&connection->client, &reply);
    if (error == REDLOCK_NO_ANSWER)
        client_note(&connection->client, "the agent has not answered in time");
    if (error == REDLOCK_OK && now_ns() >= lease->deadline_ns) {
        client_note(&connection->client, "this process was stopped until the lease had expired");
        error = REDLOCK_LOST;
    }
    if (error != REDLOCK_OK) {
        give_up(connection, lease);
        return error;
    }
    *ret = lease;
    return REDLOCK_OK;
}

EXPORT int redlock_acquire_async(struct redlock *connection, const char *name,
                                 const struct redlock_options *given, struct redlock_lease **ret) {
    struct redlock_options options;
    struct redlock_lease *lease = NULL;

    int error = ask_for(connection, name, given, true, NULL, &options, &lease);
    if (error != REDLOCK_OK)
        return error;
    *ret = lease;
    return send_output(connection);
}

/* "WORD id" and its integer. */
static int64_t ask_about(struct redlock_lease *lease, const char *word, enum client_kind kind) {
    struct redlock *connection = lease->connection;
    struct client_reply reply = {0};

    int error = begin(connection);
    if (error != REDLOCK_OK)
        return error;
    if (lease->id == 0 || lease->state == LEASE_OVER)
        return 0;
    error = client_request_id(&connection->client, kind, word, lease, &reply, now_ns());
    if (error == REDLOCK_OK)
        error = wait_for(connection, &reply, answer_until_ns(connection));
    if (!reply.done) {
        client_forget(&connection->client, &reply);
        return error;
    }
    return reply.error != REDLOCK_OK ? reply.error : reply.integer;
}

EXPORT int redlock_release(struct redlock_lease *lease) {
    if (!lease)
        return 0;
    struct redlock *connection = lease->connection;
    int error = forked(connection);
    if (error != REDLOCK_OK)
        return error;
    if (lease->state == LEASE_ASKED) { /* the agent has not named it yet: released when it does */
        client_lease_drop(&connection->client, lease);
        return 1;
    }
    int64_t released = ask_about(lease, "RELEASE", KIND_OTHER);
    lease->state = LEASE_OVER;
    client_lease_drop(&connection->client, lease);
    return (int) released;
}

EXPORT int redlock_release_async(struct redlock_lease *lease) {
    if (!lease)
        return REDLOCK_OK;
    struct redlock *connection = lease->connection;
    int error = forked(connection);
    if (error != REDLOCK_OK)
        return error;
    bool named = lease->state != LEASE_ASKED;
    if (named && lease->state != LEASE_OVER)
        error = client_request_id(&connection->client, KIND_OTHER, "RELEASE", lease, NULL, now_ns());
    lease->state = LEASE_OVER;
    client_lease_drop(&connection->client, lease);
    return error == REDLOCK_OK && named ? send_output(connection) : error;
}

EXPORT int64_t redlock_check(struct redlock_lease *lease) {
    return ask_about(lease, "CHECK", KIND_CHECK);
}

EXPORT int redlock_beat(struct redlock_lease *lease) {
    return (int) ask_about(lease, "BEAT", KIND_OTHER);
}

EXPORT int64_t redlock_remaining_ns(const struct redlock_lease *lease) {
    int64_t deadline_ns = atomic_load_explicit(&lease->deadline_ns, memory_order_acquire);

    if (deadline_ns == 0 || atomic_load_explicit(lease->connection->is_ours, memory_order_relaxed) == 0)
        return 0;
    if (lease->place)
        deadline_ns = sight_deadline_ns(lease->place, lease->id);
    int64_t left_ns = deadline_ns - now_ns();
    return left_ns > 0 ? left_ns : 0;
}

EXPORT bool redlock_valid(const struct redlock_lease *lease) {
    return redlock_remaining_ns(lease) > 0;
}

EXPORT uint64_t redlock_lease_id(const struct redlock_lease *lease) {
    return lease->id;
}

EXPORT uint64_t redlock_fence(const struct redlock_lease *lease) {
    return lease->fence;
}

EXPORT const char *redlock_lease_name(const struct redlock_lease *lease) {
    return lease->name;
}

EXPORT int redlock_leader(struct redlock *connection, const char *name, struct redlock_leader *ret) {
    const struct resp_token items[] = {{.text = "LEADER", .length = 6},
                                       {.text = name, .length = strlen(name)}};
    struct client_reply reply = {.leader = ret};

    int error = connection_ask(connection, items, 2, &reply);
    return error != REDLOCK_OK ? error : (int) reply.integer;
}

/* --- event loops --- */

EXPORT void redlock_set_callbacks(struct redlock *connection, const struct redlock_callbacks *callbacks,
                                  void *userdata) {
    struct client *client = &connection->client;

    client->callbacks = (struct redlock_callbacks){.size = sizeof(client->callbacks)};
    memcpy(&client->callbacks, callbacks,
           callbacks->size < sizeof(client->callbacks) ? callbacks->size : sizeof(client->callbacks));
    client->userdata = userdata;
}

static int watch(const struct redlock *connection, int operation, int fd, uint32_t events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    return epoll_ctl(connection->epoll_fd, operation, fd, &event);
}

EXPORT int redlock_fd(struct redlock *connection) {
    if (forked(connection) != REDLOCK_OK)
        return REDLOCK_FORKED;
    if (connection->epoll_fd >= 0)
        return connection->epoll_fd;
    connection->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    connection->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (connection->epoll_fd < 0 || connection->timer_fd < 0 ||
        watch(connection, EPOLL_CTL_ADD, connection->fd, EPOLLIN) < 0 ||
        watch(connection, EPOLL_CTL_ADD, connection->timer_fd, EPOLLIN) < 0) {
        client_note(&connection->client, "can't watch the connection: %s", strerror(errno));
        return REDLOCK_SYSTEM;
    }
    return connection->epoll_fd;
}

EXPORT int redlock_events(struct redlock *connection) {
    (void) connection;
    return POLLIN;
}

/* Arms the library's timer and asks for writability, as far as needed. */
static void rearm(struct redlock *connection) {
    int64_t due_ns = client_due_ns(&connection->client);
    bool wants_write = connection->client.output_length > 0;

    if (connection->epoll_fd < 0)
        return;
    if (due_ns != connection->timer_ns) {
        const struct itimerspec at = {.it_value = {.tv_sec = due_ns == INT64_MAX ? 0 : due_ns / NS_PER_S,
                                                   .tv_nsec = due_ns == INT64_MAX ? 0 : due_ns % NS_PER_S}};
        (void) timerfd_settime(connection->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
        connection->timer_ns = due_ns;
    }
    if (wants_write != connection->watches_write && !connection->client.gone) {
        (void) watch(connection, EPOLL_CTL_MOD, connection->fd,
                     EPOLLIN | (wants_write ? (uint32_t) EPOLLOUT : 0u));
        connection->watches_write = wants_write;
    }
    if (connection->client.gone)
        (void) watch(connection, EPOLL_CTL_DEL, connection->fd, 0);
}

EXPORT int redlock_dispatch(struct redlock *connection) {
    uint64_t expirations;

    int error = forked(connection);
    if (error != REDLOCK_OK)
        return error;
    if (connection->timer_fd >= 0 && read(connection->timer_fd, &expirations, sizeof(expirations)) > 0)
        connection->timer_ns = 0;
    if (!connection->client.gone)
        error = receive_input(connection);
    client_tick(&connection->client, now_ns());
    if (!connection->client.gone)
        error = send_output(connection);
    rearm(connection);
    return connection->client.gone && error == REDLOCK_OK ? REDLOCK_AGENT_AWAY : error;
}
