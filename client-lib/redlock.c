/* The blocking calls and the event-loop face of libredlock, over the state machine in client.c. */

#include "redlock.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
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
#include "lease.h"
#include "patience.h"
#include "request.h"
#include "sight.h"
#include "sized.h"

#define EXPORT __attribute__((visibility("default")))
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)
#define ANSWER_TIMEOUT_MS_MAX (INT64_C(1) << 40) /* 34 years: in ns it is a number, too */

enum {
    ANSWER_TIMEOUT_MS = 10000,
    READ_BYTES = 4096,
    RETRY_MS_MIN = 10, /* between attempts to connect again */
    RETRY_MS_MAX = 200,
    STEADY_MS = 1000, /* a connection that lasted less counts as one more attempt */
};

struct redlock {
    struct client client;
    pid_t owner;
    int fd;
    int epoll_fd; /* for event loops: the socket and the timer; -1 until asked for */
    int timer_fd;
    bool watches_write;
    int64_t timer_ns; /* when it will ring; never later than anything is due */
    int64_t answer_timeout_ms;
    struct patience patience; /* with the answers to releases */
    struct sight sight;
    int received_fd;           /* that came with the last reply; -1: none */
    _Atomic bool in_use;       /* a call is under way */
    _Atomic uint32_t *is_ours; /* 1; 0 in a forked child, which the kernel sees to */
    int64_t retry_ns;          /* while the connection is gone: when to connect again */
    int64_t retry_delay_ms;
    int64_t connected_ns;
    int64_t away_until_ns; /* and until when requests wait for it */
    char *socket_path;
};

static int64_t now_ns(void) {
    struct timespec now;

    (void) clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t) now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* --- bytes --- */

static int watch(const struct redlock *connection, int operation, int fd, uint32_t events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    return epoll_ctl(connection->epoll_fd, operation, fd, &event);
}

static void close_socket(struct redlock *connection) {
    if (connection->fd < 0)
        return;
    if (connection->epoll_fd >= 0)
        (void) watch(connection, EPOLL_CTL_DEL, connection->fd, 0);
    (void) close(connection->fd);
    connection->fd = -1;
    connection->watches_write = false;
}

static void rearm(struct redlock *connection);

static void retry_later(struct redlock *connection, int64_t at_ns) {
    connection->retry_ns = at_ns + connection->retry_delay_ms * NS_PER_MS;
    connection->retry_delay_ms *= 2;
    if (connection->retry_delay_ms > RETRY_MS_MAX)
        connection->retry_delay_ms = RETRY_MS_MAX;
}

/* With something left to hold or to wait for, the connection is made anew; else it is over. */
static int broken(struct redlock *connection, int error, const char *text) {
    int64_t at_ns = now_ns();

    close_socket(connection);
    client_disconnected(&connection->client, error, text, at_ns);
    sight_put_away(&connection->sight);
    if (at_ns - connection->connected_ns >= STEADY_MS * NS_PER_MS)
        connection->retry_delay_ms = RETRY_MS_MIN;
    if (connection->retry_delay_ms == RETRY_MS_MIN)
        connection->away_until_ns = at_ns + connection->answer_timeout_ms * NS_PER_MS;
    retry_later(connection, at_ns);
    if (!client_wants_back(&connection->client, at_ns))
        client_over(&connection->client);
    rearm(connection);
    return error;
}

static int system_broken(struct redlock *connection, const char *what) {
    char text[160];
    bool closed = errno == EPIPE || errno == ECONNRESET;

    (void) snprintf(text, sizeof(text), "the connection to the agent broke (%s: %s)", what, strerror(errno));
    return broken(connection, closed ? REDLOCK_AGENT_AWAY : REDLOCK_SYSTEM, text);
}

/* Sends what the socket takes. False when it is broken, with errno. */
static bool send_some(struct redlock *connection) {
    struct client *client = &connection->client;

    while (client->output_length > 0) {
        ssize_t n = send(connection->fd, client->output, client->output_length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN;
        client_sent(client, (size_t) n);
    }
    return true;
}

static int send_output(struct redlock *connection) {
    return send_some(connection) ? REDLOCK_OK : system_broken(connection, "send");
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

/* What comes with a descriptor is the reply to PAGE: the grants behind it are shown there. */
static void take_page(struct redlock *connection) {
    if (connection->received_fd < 0)
        return;
    if (!connection->sight.memory)
        (void) sight_open(&connection->sight, connection->received_fd);
    (void) close(connection->received_fd);
    connection->received_fd = -1;
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

    if (connection->sight.memory) /* there is one page a connection */
        return recv(connection->fd, room, READ_BYTES, MSG_DONTWAIT);
    ssize_t n = recvmsg(connection->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n >= 0 && message.msg_controllen > 0)
        take_descriptors(connection, &message);
    take_page(connection);
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
    if (atomic_load_explicit(connection->is_ours, memory_order_relaxed) != 0)
        return REDLOCK_OK;
    client_note(&connection->client, "the connection belongs to process %ld", (long) connection->owner);
    return REDLOCK_FORKED;
}

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

static void ask_again(struct redlock *connection, struct redlock_lease *lease, int64_t at_ns);

/* Requests wait for an agent as long as for an answer, leases until their deadlines. */
static void give_requests_up(struct redlock *connection, int64_t at_ns) {
    if (at_ns >= connection->away_until_ns)
        client_fail_requests(&connection->client);
    if (!client_wants_back(&connection->client, at_ns))
        client_over(&connection->client);
}

/* Connects again when it is time to. */
static void try_to_come_back(struct redlock *connection, int64_t at_ns) {
    struct client *client = &connection->client;

    if (client->over)
        return;
    give_requests_up(connection, at_ns);
    if (client->over || at_ns < connection->retry_ns)
        return;
    if (open_socket(connection->socket_path, &connection->fd) != REDLOCK_OK) {
        retry_later(connection, at_ns);
        return;
    }
    connection->connected_ns = at_ns;
    if (connection->epoll_fd >= 0)
        (void) watch(connection, EPOLL_CTL_ADD, connection->fd, EPOLLIN);
    client_back(client, at_ns);
    for (struct redlock_lease *lease = client->leases; lease; lease = lease->next)
        if (lease->ask_again)
            ask_again(connection, lease, at_ns);
}

/* Works on the connection, which may be gone and come back, until *what is `wanted`, or until `until_ns`. */
static int run_until(struct redlock *connection, const bool *what, bool wanted, int64_t until_ns) {
    struct client *client = &connection->client;

    for (;;) {
        int64_t at_ns = now_ns();
        client_tick_resuming(client, at_ns);
        if (client->gone)
            try_to_come_back(connection, at_ns);
        if (!client->gone)
            (void) send_output(connection);
        if (*what == wanted)
            return REDLOCK_OK;
        if (client->over)
            return REDLOCK_AGENT_AWAY;
        if (at_ns >= until_ns)
            return client->gone ? REDLOCK_AGENT_AWAY : REDLOCK_NO_ANSWER;
        int64_t due_ns = client->gone ? connection->retry_ns : client_resume_due_ns(client);
        int64_t left_ns = (due_ns < until_ns ? due_ns : until_ns) - at_ns;
        left_ns = left_ns > 0 ? left_ns : 0;
        const struct timespec timeout = {.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S};
        struct pollfd poll = {
            .fd = connection->fd,
            .events = (short) (POLLIN | (client->output_length > 0 ? POLLOUT : 0)),
        };
        int n = ppoll(&poll, 1, due_ns < INT64_MAX || until_ns < INT64_MAX ? &timeout : NULL, NULL);
        if (n < 0 && errno != EINTR)
            (void) system_broken(connection, "poll");
        else if (n > 0 && (poll.revents & (POLLIN | POLLHUP | POLLERR)))
            (void) receive_input(connection);
    }
}

/* Waits for the reply until `until_ns`. The reply's own error is in it. */
static int wait_for(struct redlock *connection, const struct client_reply *reply, int64_t until_ns) {
    return run_until(connection, &reply->done, true, until_ns);
}

int connection_enter(struct redlock *connection) {
    int error = connection ? forked(connection) : REDLOCK_BAD_ARGUMENT;

    if (error != REDLOCK_OK)
        return error;
    return atomic_exchange_explicit(&connection->in_use, true, memory_order_acquire) ? REDLOCK_IN_USE
                                                                                     : REDLOCK_OK;
}

void connection_leave(struct redlock *connection) {
    atomic_store_explicit(&connection->in_use, false, memory_order_release);
}

int connection_misused(struct redlock *connection, const char *text) {
    client_note(&connection->client, "%s", text);
    return REDLOCK_BAD_ARGUMENT;
}

int connection_begin(struct redlock *connection) {
    int error = forked(connection);

    if (error != REDLOCK_OK)
        return error;
    if (connection->client.over)
        return REDLOCK_AGENT_AWAY;
    connection->client.error_text[0] = '\0';
    return REDLOCK_OK;
}

static int64_t answer_until_ns(const struct redlock *connection) {
    return now_ns() + connection->answer_timeout_ms * NS_PER_MS;
}

/* The agent may be away for the moment. */
static int come_back(struct redlock *connection) {
    return run_until(connection, &connection->client.gone, false, answer_until_ns(connection));
}

struct client *connection_client(struct redlock *connection) {
    return &connection->client;
}

/* Sends one request and waits for its reply. */
static int ask(struct redlock *connection, enum client_kind kind, const struct resp_token *items,
               size_t n_items, struct client_reply *reply) {
    int error = connection_begin(connection);

    if (error == REDLOCK_OK)
        error = come_back(connection);
    if (error == REDLOCK_OK)
        error = client_request(&connection->client, kind, items, n_items, NULL, reply, now_ns());
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

int connection_ask(struct redlock *connection, const struct resp_token *items, size_t n_items,
                   struct client_reply *reply) {
    return ask(connection, KIND_OTHER, items, n_items, reply);
}

/* --- connections --- */

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

static void free_connection(struct redlock *connection) {
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
    free(connection->socket_path);
    free(connection);
}

EXPORT int redlock_connect(const char *socket_path, struct redlock **ret) {
    static const struct resp_token hello[] = {{.text = "HELLO", .length = 5}, {.text = "3", .length = 1}};
    struct client_reply reply = {0};

    if (!ret)
        return REDLOCK_BAD_ARGUMENT;
    struct redlock *connection = calloc(1, sizeof(*connection));
    if (!connection)
        return REDLOCK_NO_MEMORY;
    *connection = (struct redlock){.owner = getpid(),
                                   .fd = -1,
                                   .epoll_fd = -1,
                                   .timer_fd = -1,
                                   .received_fd = -1,
                                   .timer_ns = INT64_MAX,
                                   .answer_timeout_ms = ANSWER_TIMEOUT_MS,
                                   .retry_delay_ms = RETRY_MS_MIN,
                                   .connected_ns = now_ns()};
    if (!socket_path)
        socket_path = secure_getenv("REDLOCK_SOCKET");
    int error = client_init(&connection->client, connection, &connection->sight);
    if (error == REDLOCK_OK)
        error = make_fork_guard(connection);
    connection->socket_path = strdup(socket_path ? socket_path : REDLOCK_DEFAULT_SOCKET);
    if (error == REDLOCK_OK && !connection->socket_path)
        error = REDLOCK_NO_MEMORY;
    if (error == REDLOCK_OK)
        error = open_socket(connection->socket_path, &connection->fd);
    if (error == REDLOCK_OK)
        error = ask(connection, KIND_HELLO, hello, 2, &reply);
    if (error != REDLOCK_OK) {
        int saved_errno = errno;
        free_connection(connection);
        errno = saved_errno;
        return error;
    }
    *ret = connection;
    return REDLOCK_OK;
}

/* Not beneath the feet of a call that is under way. */
EXPORT void redlock_close(struct redlock *connection) {
    if (connection && connection_enter(connection) != REDLOCK_IN_USE)
        free_connection(connection);
}

EXPORT void redlock_set_answer_timeout(struct redlock *connection, int64_t timeout_ms) {
    if (connection)
        connection->answer_timeout_ms = timeout_ms < 1                       ? 1
                                        : timeout_ms < ANSWER_TIMEOUT_MS_MAX ? timeout_ms
                                                                             : ANSWER_TIMEOUT_MS_MAX;
}

EXPORT const char *redlock_error_text(const struct redlock *connection) {
    return connection ? connection->client.error_text : "";
}

/* --- leases --- */

/* A request that waits is made anew, for the rest of its time. */
static void ask_again(struct redlock *connection, struct redlock_lease *lease, int64_t at_ns) {
    struct redlock_options options = lease->options;
    struct acquire_request request = {0};

    if (options.wait_ms > 0)
        options.wait_ms -= (at_ns - lease->asked_ns) / NS_PER_MS;
    if (lease->options.wait_ms > 0 && options.wait_ms < 1)
        options.wait_ms = 1;
    request_compose(&request, lease->name, &options, true);
    lease->ask_again = client_request(&connection->client, KIND_ASYNC, request.items, request.n_items, lease,
                                      NULL, at_ns) != REDLOCK_OK;
}

/* Asks for the lease: with one request and one reply, or with ASYNC, which leaves the connection free
 * meanwhile. */
static int ask_for(struct redlock *connection, const char *name, const struct redlock_options *given,
                   bool async, struct client_reply *reply, struct redlock_options *options,
                   struct redlock_lease **ret) {
    struct acquire_request request = {0};

    int error = connection_begin(connection);
    if (error == REDLOCK_OK)
        error = request_options(&connection->client, given, name, options);
    if (error != REDLOCK_OK)
        return error;
    async = async || options->wait_ms != 0;
    request_compose(&request, name, options, async);
    struct redlock_lease *lease = lease_new(&connection->client, name, options, now_ns());
    if (!lease)
        return REDLOCK_NO_MEMORY;
    if (reply && async)
        lease->outcome = reply;
    lease->async = !reply;
    *ret = lease;
    if (connection->client.gone && async) {
        lease->ask_again = true;
        return REDLOCK_OK;
    }
    error = client_request(&connection->client, async ? KIND_ASYNC : KIND_ACQUIRE, request.items,
                           request.n_items, lease, async ? NULL : reply, now_ns());
    if (error != REDLOCK_OK) {
        lease_drop(&connection->client, lease);
        *ret = NULL;
        return error;
    }
    return REDLOCK_OK;
}

/* Gives a request up that was not answered in time: what it may still get is released. */
static void give_up(struct redlock *connection, struct redlock_lease *lease) {
    struct client *client = &connection->client;

    lease->outcome = NULL;
    if (lease->id != 0 && lease->state != LEASE_OVER && !client->gone)
        (void) client_request_id(client, KIND_RELEASE, "RELEASE", lease, NULL, now_ns());
    lease_drop(client, lease);
    if (!client->gone)
        (void) send_output(connection);
}

static int acquire(struct redlock *connection, const char *name, const struct redlock_options *given,
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

/* One try of a connection that breaks under it, because the agent was restarted meanwhile, say, is made
 * again on the next one. */
static int acquire_or_again(struct redlock *connection, const char *name,
                            const struct redlock_options *given, struct redlock_lease **ret) {
    int error = connection_begin(connection);

    if (error == REDLOCK_OK)
        error = come_back(connection);
    if (error == REDLOCK_OK)
        error = acquire(connection, name, given, ret);
    if (error == REDLOCK_AGENT_AWAY && !connection->client.over && come_back(connection) == REDLOCK_OK)
        error = acquire(connection, name, given, ret);
    rearm(connection); /* who watches the descriptor hears of its end, too */
    return error;
}

EXPORT int redlock_acquire(struct redlock *connection, const char *name, const struct redlock_options *given,
                           struct redlock_lease **ret) {
    int error = connection_enter(connection);

    if (error != REDLOCK_OK)
        return error;
    error = name && ret ? acquire_or_again(connection, name, given, ret)
                        : connection_misused(connection, "the name or the place for the lease is NULL");
    connection_leave(connection);
    return error;
}

/* Arms the library's timer and asks for writability, as far as needed. */
static void rearm(struct redlock *connection) {
    const struct client *client = &connection->client;
    int64_t due_ns = client_due_ns(client);
    bool wants_write = client->output_length > 0;

    if (connection->epoll_fd < 0)
        return;
    if (client->gone && !client->over && connection->retry_ns < due_ns)
        due_ns = connection->retry_ns;
    if (due_ns < connection->timer_ns) {
        const struct itimerspec at = {
            .it_value = {.tv_sec = due_ns / NS_PER_S, .tv_nsec = due_ns % NS_PER_S}};
        (void) timerfd_settime(connection->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
        connection->timer_ns = due_ns;
    }
    if (wants_write != connection->watches_write && connection->fd >= 0) {
        (void) watch(connection, EPOLL_CTL_MOD, connection->fd,
                     EPOLLIN | (wants_write ? (uint32_t) EPOLLOUT : 0u));
        connection->watches_write = wants_write;
    }
}

static int acquire_async(struct redlock *connection, const char *name, const struct redlock_options *given,
                         struct redlock_lease **ret) {
    struct redlock_options options;
    struct redlock_lease *lease = NULL;

    int error = ask_for(connection, name, given, true, NULL, &options, &lease);
    if (error != REDLOCK_OK)
        return error;
    *ret = lease;
    if (!connection->client.gone)
        (void) send_some(connection); /* dispatch finds out when it is broken: no callbacks from here */
    rearm(connection);
    return REDLOCK_OK;
}

EXPORT int redlock_acquire_async(struct redlock *connection, const char *name,
                                 const struct redlock_options *given, struct redlock_lease **ret) {
    int error = connection_enter(connection);

    if (error != REDLOCK_OK)
        return error;
    error = name && ret ? acquire_async(connection, name, given, ret)
                        : connection_misused(connection, "the name or the place for the lease is NULL");
    connection_leave(connection);
    return error;
}

/* Looks for the reply for a while, and lets others run before each look. */
static void look_for(struct redlock *connection, const struct client_reply *reply) {
    bool goes_on = true;

    while (goes_on && !reply->done) {
        int64_t yielded_ns = now_ns();
        (void) sched_yield();
        goes_on = patience_goes_on(&connection->patience, yielded_ns, now_ns());
        if (receive_input(connection) != REDLOCK_OK)
            return;
    }
}

/* Of a lease that was waited for. */
static int wait_for_release(struct redlock_lease *lease, const struct client_reply *reply,
                            int64_t until_ns) {
    struct redlock *connection = lease->connection;
    bool looks = patience_begin(&connection->patience, lease->waited_ns, now_ns());

    if (looks && send_output(connection) == REDLOCK_OK)
        look_for(connection, reply);
    int error = wait_for(connection, reply, until_ns);
    patience_end(&connection->patience, now_ns());
    return error;
}

/* "WORD id" and its integer. */
static int64_t ask_once(struct redlock_lease *lease, const char *word, enum client_kind kind,
                        int64_t until_ns) {
    struct redlock *connection = lease->connection;
    struct client_reply reply = {0};

    int error = run_until(connection, &lease->resuming, false, until_ns);
    if (error != REDLOCK_OK)
        return error;
    if (lease->id == 0 || lease->state == LEASE_OVER)
        return 0;
    error = client_request_id(&connection->client, kind, word, lease, &reply, now_ns());
    if (error == REDLOCK_OK)
        error = kind == KIND_RELEASE && lease->waited_ns > 0 ? wait_for_release(lease, &reply, until_ns)
                                                             : wait_for(connection, &reply, until_ns);
    if (!reply.done) {
        client_forget(&connection->client, &reply);
        return error;
    }
    return reply.error != REDLOCK_OK ? reply.error : reply.integer;
}

/* Should the connection break, the question goes to the agent that resumes the lease. */
static int64_t ask_about(struct redlock_lease *lease, const char *word, enum client_kind kind) {
    struct redlock *connection = lease->connection;
    int64_t until_ns = answer_until_ns(connection);

    int64_t answer = connection_begin(connection);
    if (answer != REDLOCK_OK)
        return answer;
    do
        answer = ask_once(lease, word, kind, until_ns);
    while (answer == REDLOCK_AGENT_AWAY && lease->resuming && now_ns() < until_ns);
    return answer;
}

static int release(struct redlock *connection, struct redlock_lease *lease) {
    if (lease->state == LEASE_ASKED) { /* the agent has not named it yet: released when it does */
        lease_drop(&connection->client, lease);
        return 1;
    }
    int64_t released = ask_about(lease, "RELEASE", KIND_RELEASE);
    lease->state = LEASE_OVER;
    lease_drop(&connection->client, lease);
    return (int) released;
}

EXPORT int redlock_release(struct redlock_lease *lease) {
    if (!lease)
        return 0;
    struct redlock *connection = lease->connection;
    int r = connection_enter(connection);
    if (r != REDLOCK_OK)
        return r;
    r = release(connection, lease);
    connection_leave(connection);
    return r;
}

static int release_async(struct redlock *connection, struct redlock_lease *lease) {
    int error = REDLOCK_OK;
    bool named = lease->id != 0; /* else it is released when it is */
    if (named && lease->state != LEASE_OVER)
        error = client_request_id(&connection->client, KIND_RELEASE, "RELEASE", lease, NULL, now_ns());
    lease->state = LEASE_OVER;
    lease_drop(&connection->client, lease);
    if (error == REDLOCK_OK && named && !send_some(connection))
        error = REDLOCK_AGENT_AWAY;
    rearm(connection);
    return error;
}

EXPORT int redlock_release_async(struct redlock_lease *lease) {
    if (!lease)
        return REDLOCK_OK;
    struct redlock *connection = lease->connection;
    int error = connection_enter(connection);
    if (error != REDLOCK_OK)
        return error;
    error = release_async(connection, lease);
    connection_leave(connection);
    return error;
}

static int64_t enter_and_ask(struct redlock_lease *lease, const char *word, enum client_kind kind) {
    int64_t answer = connection_enter(lease ? lease->connection : NULL);

    if (answer != REDLOCK_OK)
        return answer;
    answer = ask_about(lease, word, kind);
    connection_leave(lease->connection);
    return answer;
}

EXPORT int64_t redlock_check(struct redlock_lease *lease) {
    return enter_and_ask(lease, "CHECK", KIND_CHECK);
}

EXPORT int redlock_beat(struct redlock_lease *lease) {
    return (int) enter_and_ask(lease, "BEAT", KIND_BEAT);
}

EXPORT int64_t redlock_remaining_ns(const struct redlock_lease *lease) {
    if (!lease || atomic_load_explicit(lease->connection->is_ours, memory_order_relaxed) == 0)
        return 0;
    return lease_remaining_ns(lease, now_ns);
}

EXPORT bool redlock_valid(const struct redlock_lease *lease) {
    return redlock_remaining_ns(lease) > 0;
}

EXPORT uint64_t redlock_lease_id(const struct redlock_lease *lease) {
    return lease ? lease->id : 0;
}

EXPORT uint64_t redlock_fence(const struct redlock_lease *lease) {
    return lease ? lease->fence : 0;
}

EXPORT const char *redlock_lease_name(const struct redlock_lease *lease) {
    return lease ? lease->name : "";
}

static int leader(struct redlock *connection, const char *name, struct redlock_leader *ret) {
    const struct resp_token items[] = {{.text = "LEADER", .length = 6},
                                       {.text = name, .length = strlen(name)}};
    struct redlock_leader leader = REDLOCK_LEADER_INIT;
    struct client_reply reply = {.leader = &leader};

    if (!sized_has_room(ret, sizeof(leader)))
        return connection_misused(connection, "the size of the structure for the leader is wrong");
    int error = connection_ask(connection, items, 2, &reply);
    if (error != REDLOCK_OK)
        return error;
    if (reply.integer == 1)
        sized_give(ret, &leader, sizeof(leader));
    return (int) reply.integer;
}

EXPORT int redlock_leader(struct redlock *connection, const char *name, struct redlock_leader *ret) {
    int r = connection_enter(connection);

    if (r != REDLOCK_OK)
        return r;
    r = name && ret ? leader(connection, name, ret)
                    : connection_misused(connection, "the name or the place for the leader is NULL");
    connection_leave(connection);
    return r;
}

/* --- event loops --- */

EXPORT int redlock_set_callbacks(struct redlock *connection, const struct redlock_callbacks *callbacks,
                                 void *userdata) {
    struct redlock_callbacks taken = {.size = sizeof(taken)};

    if (!connection)
        return REDLOCK_BAD_ARGUMENT;
    if (callbacks &&
        !sized_take(&taken, sizeof(taken), offsetof(struct redlock_callbacks, leader), callbacks))
        return connection_misused(connection,
                                  "the callbacks' size is wrong, or there are more than this library knows");
    connection->client.callbacks = taken;
    connection->client.userdata = userdata;
    return REDLOCK_OK;
}

static void close_epoll(struct redlock *connection) {
    if (connection->epoll_fd >= 0)
        (void) close(connection->epoll_fd);
    if (connection->timer_fd >= 0)
        (void) close(connection->timer_fd);
    connection->epoll_fd = connection->timer_fd = -1;
}

/* All of it or nothing: half of it would never wake anybody. */
static int open_epoll(struct redlock *connection) {
    connection->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    connection->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (connection->epoll_fd < 0 || connection->timer_fd < 0 ||
        (connection->fd >= 0 && watch(connection, EPOLL_CTL_ADD, connection->fd, EPOLLIN) < 0) ||
        watch(connection, EPOLL_CTL_ADD, connection->timer_fd, EPOLLIN) < 0) {
        client_note(&connection->client, "can't watch the connection: %s", strerror(errno));
        close_epoll(connection);
        return REDLOCK_SYSTEM;
    }
    connection->timer_ns = INT64_MAX;
    connection->watches_write = false;
    rearm(connection);
    return REDLOCK_OK;
}

EXPORT int redlock_fd(struct redlock *connection) {
    int error = connection_enter(connection);

    if (error != REDLOCK_OK)
        return error;
    error = connection->epoll_fd >= 0 ? REDLOCK_OK : open_epoll(connection);
    connection_leave(connection);
    return error == REDLOCK_OK ? connection->epoll_fd : error;
}

EXPORT int redlock_events(struct redlock *connection) {
    (void) connection;
    return POLLIN;
}

static int dispatch(struct redlock *connection) {
    uint64_t expirations;
    int error = REDLOCK_OK;

    if (now_ns() >= connection->timer_ns &&
        read(connection->timer_fd, &expirations, sizeof(expirations)) > 0)
        connection->timer_ns = INT64_MAX;
    if (!connection->client.gone)
        error = receive_input(connection);
    client_tick(&connection->client, now_ns());
    if (connection->client.gone)
        try_to_come_back(connection, now_ns());
    if (!connection->client.gone)
        error = send_output(connection);
    rearm(connection);
    if (connection->client.over)
        return error != REDLOCK_OK ? error : REDLOCK_AGENT_AWAY;
    return REDLOCK_OK;
}

EXPORT int redlock_dispatch(struct redlock *connection) {
    int error = connection_enter(connection);

    if (error != REDLOCK_OK)
        return error;
    error = dispatch(connection);
    connection_leave(connection);
    return error;
}
