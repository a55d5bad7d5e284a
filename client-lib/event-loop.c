/* The calls of redlock.h for event loops; see redlock_acquire_async(3). */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "connection-internal.h"
#include "redlock.h"
#include "sized.h"

EXPORT int redlock_set_callbacks(struct redlock *connection, const struct redlock_callbacks *callbacks,
                                 void *userdata) {
    struct redlock_callbacks taken = {.size = sizeof(taken)};

    if (!connection)
        return REDLOCK_BAD_ARGUMENT;
    if (callbacks &&
        !sized_take(&taken, sizeof(taken), offsetof(struct redlock_callbacks, leader), callbacks))
        return connection_misused(
            connection,
            "callbacks.size is wrong, or a callback is set that this version of the library lacks");
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

/* Opens both descriptors or none: one alone would miss events. */
static int open_epoll(struct redlock *connection) {
    connection->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    connection->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (connection->epoll_fd < 0 || connection->timer_fd < 0 ||
        (connection->fd >= 0 && connection_watch(connection, EPOLL_CTL_ADD, connection->fd, EPOLLIN) < 0) ||
        connection_watch(connection, EPOLL_CTL_ADD, connection->timer_fd, EPOLLIN) < 0) {
        client_note(&connection->client, "can't create the descriptor for event loops: %s", strerror(errno));
        close_epoll(connection);
        return REDLOCK_SYSTEM;
    }
    connection->timer_ns = INT64_MAX;
    connection->watched = EPOLLIN;
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

    if (connection_now_ns() >= connection->timer_ns &&
        read(connection->timer_fd, &expirations, sizeof(expirations)) > 0)
        connection->timer_ns = INT64_MAX;
    if (!connection->client.gone)
        error = connection_receive(connection);
    if (connection_is_ours(connection))
        client_tick(&connection->client, connection_now_ns());
    if (!connection_is_ours(connection)) /* forked in a callback */
        return connection_forked(connection);
    if (connection->client.gone)
        connection_try_again(connection, connection_now_ns(), 0);
    if (!connection->client.gone)
        error = connection_send(connection);
    if (!connection->client.over)
        return REDLOCK_OK;
    if (error == REDLOCK_OK || error == REDLOCK_AGENT_AWAY)
        return connection_failed(connection, REDLOCK_AGENT_AWAY);
    client_note(&connection->client, "%s", connection->client.broken_text);
    return error;
}

EXPORT int redlock_dispatch(struct redlock *connection) {
    int error = connection_enter(connection);

    if (error != REDLOCK_OK)
        return error;
    error = dispatch(connection);
    connection_leave(connection);
    return error;
}
