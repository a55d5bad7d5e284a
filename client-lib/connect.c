/* The calls of redlock.h that open and close a connection; see redlock_connect(3). */
#include "connect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"
#include "connection-internal.h"
#include "deadline-view.h"
#include "redlock.h"

#define ANSWER_TIMEOUT_MS_MAX (INT64_C(1) << 40) /* 34 years: fits int64_t in ns */

/* A client must read a grant within two seconds, also while it opens another connection. */
enum { PLACE_MS = 1500 };

/* A page that the kernel zeroes in a forked child: a system call such as getpid() would cost more. */
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
        connection_hang_up(connection);
    if (connection->received_fd >= 0)
        (void) close(connection->received_fd);
    if (connection->is_ours)
        (void) munmap((void *) (uintptr_t) connection->is_ours, (size_t) sysconf(_SC_PAGESIZE));
    client_deinit(&connection->client);
    deadline_view_close(&connection->view);
    free(connection->socket_path);
    free(connection);
}

int connect_within(const char *socket_path, int64_t place_ms, int64_t answer_ms, struct redlock **ret) {
    static const struct resp_token hello[] = {{.text = "HELLO", .length = 5}, {.text = "3", .length = 1}};
    struct client_reply reply = {0};
    bool given = socket_path;

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
                                   .retry_delay_ms = RETRY_MS_MIN,
                                   .connected_ns = connection_now_ns()};
    if (!socket_path)
        socket_path = secure_getenv("REDLOCK_SOCKET");
    if (!socket_path || (!given && !*socket_path))
        socket_path = REDLOCK_DEFAULT_SOCKET;
    int error = client_init(&connection->client, connection, &connection->view);
    connection->client.answer_timeout_ms = answer_ms;
    if (error == REDLOCK_OK)
        error = make_fork_guard(connection);
    connection->socket_path = strdup(socket_path);
    if (error == REDLOCK_OK && !connection->socket_path)
        error = REDLOCK_NO_MEMORY;
    if (error == REDLOCK_OK)
        error = connection_open(connection->socket_path, place_ms * NS_PER_MS, &connection->fd);
    if (error == REDLOCK_OK) {
        error = connection_ask_until(connection, KIND_HELLO, hello, 2, &reply,
                                     connection_answer_until_ns(connection));
        if (error == REDLOCK_AGENT_AWAY)
            errno = ECONNRESET; /* the agent has closed the connection */
    }
    if (error != REDLOCK_OK) {
        int saved_errno = errno;
        free_connection(connection);
        errno = saved_errno;
        return error;
    }
    *ret = connection;
    return REDLOCK_OK;
}

EXPORT int redlock_connect(const char *socket_path, struct redlock **ret) {
    return connect_within(socket_path, PLACE_MS, CLIENT_ANSWER_TIMEOUT_MS, ret);
}

/* In the child of a process with another thread in a call. There that thread does not exist, and has left
 * the memory as in the middle of the call: freeing it could free something twice. */
static void close_descriptors(struct redlock *connection) {
    int *fds[] = {&connection->fd, &connection->epoll_fd, &connection->timer_fd, &connection->received_fd};

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (*fds[i] >= 0)
            (void) close(*fds[i]);
        *fds[i] = -1;
    }
}

/* A call in progress, such as one that runs a callback, still uses the connection: then nothing is freed, in
 * the process that a callback has forked neither. */
EXPORT void redlock_close(struct redlock *connection) {
    uintptr_t user = connection ? (uintptr_t) connection->user : 0;

    if (user != 0 && user != connection_thread() && !connection_is_ours(connection))
        close_descriptors(connection);
    else if (connection && user == 0 && connection_enter(connection) != REDLOCK_IN_USE)
        free_connection(connection);
}

EXPORT void redlock_set_answer_timeout(struct redlock *connection, int64_t timeout_ms) {
    if (connection)
        connection->client.answer_timeout_ms = timeout_ms < 1                       ? 1
                                               : timeout_ms < ANSWER_TIMEOUT_MS_MAX ? timeout_ms
                                                                                    : ANSWER_TIMEOUT_MS_MAX;
}

EXPORT const char *redlock_error_text(const struct redlock *connection) {
    return connection ? connection->client.error_text : "";
}
