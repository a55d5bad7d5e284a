#include "connection.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "connection-internal.h"
#include "deadline-view.h"

enum {
    READ_BYTES = 4096,
    RETRY_MS_MAX = 200,
    RETRY_FULL_MS_MAX = 50, /* while the backlog is full */
    CONNECT_SLICE_MS = 50,  /* of a wait for a place in the backlog; requests may end between two */
    STEADY_MS = 1000,       /* a shorter connection counts as a failed attempt */
    SHORTAGE_MS = 5,        /* between tries while the kernel has no memory */
};

int64_t connection_now_ns(void) {
    struct timespec now;

    (void) clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t) now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* --- bytes --- */

bool connection_is_ours(const struct redlock *connection) {
    return atomic_load_explicit(connection->is_ours, memory_order_relaxed) != 0;
}

int connection_watch(const struct redlock *connection, int operation, int fd, uint32_t events) {
    struct epoll_event event = {.events = events, .data.fd = fd};

    return !connection_is_ours(connection) ? 0 : epoll_ctl(connection->epoll_fd, operation, fd, &event);
}

static void begin_shortage(struct redlock *connection) {
    connection->shortage_until_ns = connection_now_ns() + SHORTAGE_MS * NS_PER_MS;
}

/* Whether I/O has to wait, because the kernel has had no memory for it. */
static bool is_short(struct redlock *connection) {
    if (connection->shortage_until_ns != 0 && connection_now_ns() >= connection->shortage_until_ns)
        connection->shortage_until_ns = 0;
    return connection->shortage_until_ns != 0;
}

/* What an event loop waits for. During a shortage nothing: it would not wait. */
static uint32_t wanted_events(const struct redlock *connection) {
    if (connection->shortage_until_ns != 0)
        return 0;
    return EPOLLIN | (connection->client.output_length > 0 ? (uint32_t) EPOLLOUT : 0u);
}

/* Sets timer_fd to the next due time, and watches the socket for wanted_events(). */
static void rearm(struct redlock *connection) {
    const struct client *client = &connection->client;

    if (connection->epoll_fd < 0 || !connection_is_ours(connection))
        return;
    int64_t due_ns = client_due_ns(client);
    uint32_t events = wanted_events(connection);
    if (client->gone && !client->over)
        due_ns = client_earlier_ns(due_ns, connection->retry_ns);
    if (connection->shortage_until_ns != 0)
        due_ns = client_earlier_ns(due_ns, connection->shortage_until_ns);
    if (due_ns < connection->timer_ns) {
        const struct itimerspec at = {
            .it_value = {.tv_sec = due_ns / NS_PER_S, .tv_nsec = due_ns % NS_PER_S}};
        (void) timerfd_settime(connection->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
        connection->timer_ns = due_ns;
    }
    if (events != connection->watched && connection->fd >= 0) {
        (void) connection_watch(connection, EPOLL_CTL_MOD, connection->fd, events);
        connection->watched = events;
    }
}

/* A child that another thread forks meanwhile must not close the number again. */
void connection_hang_up(struct redlock *connection) {
    int fd = connection->fd;

    connection->fd = -1;
    if (connection_is_ours(connection))
        (void) shutdown(fd, SHUT_RDWR);
    (void) close(fd);
}

static void close_socket(struct redlock *connection) {
    if (connection->fd < 0)
        return;
    if (connection->epoll_fd >= 0)
        (void) connection_watch(connection, EPOLL_CTL_DEL, connection->fd, 0);
    connection_hang_up(connection);
    connection->watched = EPOLLIN;
    connection->shortage_until_ns = 0;
}

static void retry_later(struct redlock *connection, int64_t at_ns) {
    connection->retry_ns = at_ns + connection->retry_delay_ms * NS_PER_MS;
    connection->retry_delay_ms *= 2;
    if (connection->retry_delay_ms > RETRY_MS_MAX)
        connection->retry_delay_ms = RETRY_MS_MAX;
}

/* Leases that the agent releases because the library ends the connection are lost before that: the agent is
 * alive, unless the error is REDLOCK_AGENT_AWAY. A reconnect follows if a lease, a kept request or an
 * observed name is left; else the connection is over. */
static int leave(struct redlock *connection, enum connection_attempt attempt, int error, const char *text) {
    int64_t at_ns = connection_now_ns();

    connection->attempt = attempt;
    client_disconnected(&connection->client, error, text, at_ns);
    close_socket(connection);
    deadline_view_retire(&connection->view);
    if (at_ns - connection->connected_ns >= STEADY_MS * NS_PER_MS)
        connection->retry_delay_ms = RETRY_MS_MIN;
    if (connection->retry_delay_ms == RETRY_MS_MIN)
        connection->client.away_ns = at_ns;
    retry_later(connection, at_ns);
    if (!client_wants_back(&connection->client))
        client_over(&connection->client);
    return error;
}

static int broken(struct redlock *connection, int error, const char *text) {
    return leave(connection, CONNECTION_UNTRIED, error, text);
}

/* With the agent's last words, which may be its reason. */
static int agent_closed(struct redlock *connection, const char *text) {
    struct client *client = &connection->client;
    char why[sizeof(client->error_text)];

    (void) snprintf(why, sizeof(why), "%.150s%s%.350s", text, client->has_complained ? ": " : "",
                    client->has_complained ? client->error_text : "");
    return leave(connection, client->has_complained ? CONNECTION_REFUSED : CONNECTION_UNTRIED,
                 REDLOCK_AGENT_AWAY, why);
}

static int system_broken(struct redlock *connection, const char *what) {
    char text[160];
    bool closed = errno == EPIPE || errno == ECONNRESET;

    (void) snprintf(text, sizeof(text), "the connection to the agent broke (%s: %s)", what, strerror(errno));
    return closed ? agent_closed(connection, text) : broken(connection, REDLOCK_SYSTEM, text);
}

static bool is_shortage(int error) {
    return error == ENOBUFS || error == ENOMEM;
}

bool connection_send_some(struct redlock *connection) {
    struct client *client = &connection->client;

    while (client->output_length > 0 && connection_is_ours(connection) && !is_short(connection)) {
        ssize_t n = send(connection->fd, client->output, client->output_length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && is_shortage(errno)) {
            begin_shortage(connection);
            return true;
        }
        if (n < 0)
            return errno == EAGAIN;
        client_sent(client, (size_t) n);
    }
    return true;
}

int connection_send(struct redlock *connection) {
    return connection_send_some(connection) ? REDLOCK_OK : system_broken(connection, "send");
}

/* Keeps the last descriptor received, and closes the others. */
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

/* Only the reply to PAGE has a descriptor. The page is mapped before the grants that follow are read. */
static void take_page(struct redlock *connection) {
    if (connection->received_fd < 0)
        return;
    if (!connection->view.memory)
        (void) deadline_view_open(&connection->view, connection->received_fd);
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

    if (connection->view.memory) /* a connection gets one page */
        return recv(connection->fd, room, READ_BYTES, MSG_DONTWAIT);
    ssize_t n = recvmsg(connection->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n >= 0 && message.msg_controllen > 0)
        take_descriptors(connection, &message);
    take_page(connection);
    return n;
}

static int no_room(struct redlock *connection) {
    if (connection->client.input_length + READ_BYTES > CLIENT_INPUT_BYTES_MAX)
        return broken(connection, REDLOCK_PROTOCOL, "the agent's reply is longer than the protocol allows");
    return broken(connection, REDLOCK_NO_MEMORY, "this process has no memory for the agent's reply");
}

int connection_receive(struct redlock *connection) {
    struct client *client = &connection->client;

    while (connection_is_ours(connection) && !is_short(connection)) {
        char *room = client_input_room(client, READ_BYTES);
        if (!room)
            return no_room(connection);
        ssize_t n = receive(connection, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && is_shortage(errno)) {
            begin_shortage(connection);
            return REDLOCK_OK;
        }
        if (n < 0 && errno == EAGAIN)
            return REDLOCK_OK;
        if (n < 0)
            return system_broken(connection, "recv");
        if (n == 0)
            return agent_closed(connection, "the agent closed the connection");
        int error = client_received(client, (size_t) n, connection_now_ns());
        if (!connection_is_ours(connection))
            break;
        if (error != REDLOCK_OK) {
            char why[sizeof(client->error_text)];
            (void) snprintf(why, sizeof(why), "%s", client->error_text);
            return broken(connection, error, why);
        }
        if (n < READ_BYTES)
            return REDLOCK_OK;
    }
    return connection_forked(connection);
}

int connection_forked(struct redlock *connection) {
    if (connection_is_ours(connection))
        return REDLOCK_OK;
    client_note(&connection->client, "the connection belongs to process %ld, and this is a forked child",
                (long) connection->owner);
    return REDLOCK_FORKED;
}

static int limit_connect(int fd, int64_t limit_ns) {
    int64_t us = limit_ns / 1000 + 1; /* 0 is no limit */
    const struct timeval limit = {.tv_sec = us / 1000000, .tv_usec = us % 1000000};

    return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

/* Closes the socket, and keeps errno. */
static int open_failed(int fd, int error) {
    int saved_errno = errno;

    (void) close(fd);
    errno = saved_errno;
    return error;
}

int connection_open(const char *path, int64_t wait_ns, int *ret_fd) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int64_t until_ns = connection_now_ns() + wait_ns;
    int r;

    /* An empty path would be an abstract name, which any user can take. */
    if (!*path || strlen(path) >= sizeof(address.sun_path)) {
        errno = *path ? ENAMETOOLONG : ENOENT;
        return REDLOCK_AGENT_AWAY;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (wait_ns > 0 ? 0 : SOCK_NONBLOCK), 0);
    if (fd < 0)
        return REDLOCK_SYSTEM;
    if (wait_ns > 0 && limit_connect(fd, wait_ns) < 0)
        return open_failed(fd, REDLOCK_SYSTEM);
    /* The kernel gives places in the backlog in turn to those who wait for them here. */
    do
        r = connect(fd, (const struct sockaddr *) &address, sizeof(address));
    while (r < 0 && errno == EINTR && connection_now_ns() < until_ns);
    /* The backlog is full: an agent listens, and is flooded, stopped or stuck. */
    if (r < 0 && (errno == EAGAIN || errno == EINTR))
        return open_failed(fd, REDLOCK_NO_ANSWER);
    if (r < 0)
        return open_failed(fd, REDLOCK_AGENT_AWAY);
    if (wait_ns > 0 && fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
        return open_failed(fd, REDLOCK_SYSTEM);
    *ret_fd = fd;
    return REDLOCK_OK;
}

/* Kept requests wait for an agent for the answer time-out, or for their time if that is less; leases until
 * their deadlines. An agent that was only restarted is found also if the break is seen after a deadline. */
static void fail_overdue(struct redlock *connection, int64_t at_ns) {
    client_fail_timed_out(&connection->client, at_ns);
    client_fail_requests(&connection->client, at_ns);
    bool tried = connection->attempt == CONNECTION_UNABLE || connection->attempt == CONNECTION_UNANSWERED;
    if (tried && !client_wants_back(&connection->client))
        client_over(&connection->client);
}

void connection_try_again(struct redlock *connection, int64_t at_ns, int64_t wait_ns) {
    struct client *client = &connection->client;

    if (client->over || !connection_is_ours(connection))
        return;
    fail_overdue(connection, at_ns);
    if (client->over || !connection_is_ours(connection) || at_ns < connection->retry_ns)
        return;
    int error = connection_open(connection->socket_path, wait_ns, &connection->fd);
    connection->attempt_errno = errno;
    connection->attempt = error == REDLOCK_SYSTEM ? CONNECTION_UNABLE : CONNECTION_UNANSWERED;
    if (error == REDLOCK_NO_ANSWER && connection->retry_delay_ms > RETRY_FULL_MS_MAX)
        connection->retry_delay_ms = RETRY_FULL_MS_MAX;
    if (error != REDLOCK_OK) {
        retry_later(connection, at_ns);
        return;
    }
    at_ns = connection_now_ns();
    connection->connected_ns = at_ns;
    if (connection->epoll_fd >= 0)
        (void) connection_watch(connection, EPOLL_CTL_ADD, connection->fd, EPOLLIN);
    client_back(client, at_ns);
}

static int64_t slice_ns(int64_t at_ns, int64_t until_ns) {
    int64_t left_ns = until_ns - at_ns, most_ns = CONNECT_SLICE_MS * NS_PER_MS;

    return left_ns < most_ns ? left_ns : most_ns;
}

/* Ends leases at their deadlines, unless what the caller waits for has happened. */
static void end_overdue(struct redlock *connection, const bool *what, bool wanted) {
    if (!connection->client.gone)
        (void) connection_receive(connection);
    if (*what != wanted)
        client_end_overdue(&connection->client, connection_now_ns());
}

/* Waits for the socket, until `due_ns` at the latest, and reads what has arrived. */
static void wait_for_socket(struct redlock *connection, int64_t at_ns, int64_t due_ns) {
    bool sleeps = is_short(connection); /* a socket that is ready would end the wait at once */

    if (sleeps && connection->shortage_until_ns < due_ns)
        due_ns = connection->shortage_until_ns;
    int64_t left_ns = due_ns > at_ns ? due_ns - at_ns : 0;
    const struct timespec timeout = {.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S};
    struct pollfd poll = {
        .fd = connection->fd,
        .events = (short) (POLLIN | (connection->client.output_length > 0 ? POLLOUT : 0)),
    };
    int n = ppoll(&poll, sleeps ? 0 : 1, due_ns < INT64_MAX ? &timeout : NULL, NULL);
    if (n < 0 && is_shortage(errno))
        begin_shortage(connection);
    else if (n < 0 && errno != EINTR)
        (void) system_broken(connection, "poll");
    else if (n > 0 && (poll.revents & (POLLIN | POLLHUP | POLLERR)))
        (void) connection_receive(connection);
}

/* Ends leases whose deadline has passed. The input is read before: it may have the agent's reason. */
static void tick_resuming(struct redlock *connection, int64_t at_ns) {
    struct client *client = &connection->client;

    if (!client->gone && client_would_end(client, at_ns))
        (void) connection_receive(connection);
    if (connection_is_ours(connection))
        client_tick_resuming(client, at_ns);
}

int connection_run_until(struct redlock *connection, const bool *what, bool wanted, int64_t until_ns) {
    struct client *client = &connection->client;

    while (connection_is_ours(connection)) {
        int64_t at_ns = connection_now_ns();
        tick_resuming(connection, at_ns);
        if (client->gone)
            connection_try_again(connection, at_ns, slice_ns(at_ns, until_ns));
        if (!client->gone)
            (void) connection_send(connection);
        if (*what == wanted)
            return REDLOCK_OK;
        if (client->over)
            return REDLOCK_AGENT_AWAY;
        const struct client_dues dues = client_dues(client);
        if (at_ns >= dues.deadline_ns) {
            end_overdue(connection, what, wanted);
            continue;
        }
        if (at_ns >= until_ns)
            return client->gone ? REDLOCK_AGENT_AWAY : REDLOCK_NO_ANSWER;
        int64_t due_ns = client_earlier_ns(client_earlier_ns(dues.deadline_ns, dues.resume_ns), until_ns);
        if (client->gone)
            due_ns = client_earlier_ns(due_ns, connection->retry_ns);
        wait_for_socket(connection, at_ns, due_ns);
    }
    return connection_forked(connection);
}

int connection_wait_for(struct redlock *connection, const struct client_reply *reply, int64_t until_ns) {
    return connection_run_until(connection, &reply->done, true, until_ns);
}

uintptr_t connection_thread(void) {
    return (uintptr_t) pthread_self();
}

int connection_enter(struct redlock *connection) {
    int error = connection ? connection_forked(connection) : REDLOCK_BAD_ARGUMENT;
    uintptr_t nobody = 0;

    if (error != REDLOCK_OK)
        return error;
    return atomic_compare_exchange_strong_explicit(&connection->user, &nobody, connection_thread(),
                                                   memory_order_acquire, memory_order_relaxed)
               ? REDLOCK_OK
               : REDLOCK_IN_USE;
}

/* Any call may have read a push, such as a grant, that makes something due sooner. */
void connection_leave(struct redlock *connection) {
    rearm(connection);
    atomic_store_explicit(&connection->user, 0, memory_order_release);
}

int connection_misused(struct redlock *connection, const char *text) {
    client_note(&connection->client, "%s", text);
    return REDLOCK_BAD_ARGUMENT;
}

int connection_misanswered(struct redlock *connection, const char *text) {
    client_note(&connection->client, "%s", text);
    return REDLOCK_PROTOCOL;
}

/* The texts of events during the call, such as the failure of another request, give way to those of the
 * connection's state. An agent's reply is none of these errors. */
int connection_failed(struct redlock *connection, int error) {
    struct client *client = &connection->client;
    const char *why = client->broken_text;

    if (!connection_is_ours(connection))
        return connection_forked(connection);
    if (error == REDLOCK_AGENT_AWAY && client->over)
        client_note(client, "%.400s; connect again", why);
    else if (error == REDLOCK_AGENT_AWAY && client->gone && connection->attempt == CONNECTION_UNABLE)
        client_note(client, "%.300s; this process can't connect again yet: %s", why,
                    strerror(connection->attempt_errno));
    else if (error == REDLOCK_AGENT_AWAY && client->gone && connection->attempt == CONNECTION_REFUSED)
        client_note(client, "%.400s; the library connects again", why);
    else if (error == REDLOCK_AGENT_AWAY && client->gone)
        client_note(client, "%.400s; no agent answers at %s yet", why, connection->socket_path);
    else if (error == REDLOCK_AGENT_AWAY)
        client_note(client, "%.400s; the next agent answers: try again", why);
    else if (error == REDLOCK_NO_ANSWER)
        client_note(client, "the agent did not reply within %lld ms", (long long) client->answer_timeout_ms);
    else if (error == REDLOCK_NO_MEMORY && !client->error_text[0])
        client_note(client, "this process has no memory left for the request");
    return error;
}

int connection_begin(struct redlock *connection) {
    int error = connection_forked(connection);

    if (error != REDLOCK_OK)
        return error;
    connection->client.error_text[0] = '\0';
    connection->client.has_complained = false;
    return connection->client.over ? connection_failed(connection, REDLOCK_AGENT_AWAY) : REDLOCK_OK;
}

int64_t connection_answer_until_ns(const struct redlock *connection) {
    return connection_now_ns() + connection->client.answer_timeout_ms * NS_PER_MS;
}

int connection_come_back(struct redlock *connection, int64_t until_ns) {
    return connection_run_until(connection, &connection->client.gone, false, until_ns);
}

int connection_ask_until(struct redlock *connection, enum client_kind kind, const struct resp_token *items,
                         size_t n_items, struct client_reply *reply, int64_t until_ns) {
    int error = connection_begin(connection);

    if (error == REDLOCK_OK)
        error = connection_come_back(connection, until_ns);
    if (error == REDLOCK_OK)
        error = client_request(&connection->client, kind, items, n_items, NULL, reply, connection_now_ns());
    if (error == REDLOCK_OK)
        error = connection_wait_for(connection, reply, until_ns);
    if (reply->done)
        error = reply->error;
    else if (error != REDLOCK_OK)
        client_forget(&connection->client, reply);
    return connection_failed(connection, error);
}

int connection_ask(struct redlock *connection, const struct resp_token *items, size_t n_items,
                   struct client_reply *reply) {
    return connection_ask_until(connection, KIND_OTHER, items, n_items, reply,
                                connection_answer_until_ns(connection));
}
