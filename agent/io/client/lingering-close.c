#include "io/client/lingering-close.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/client/socket-queue.h"

enum { DISCARDED_BYTES = 16 * 1024, DISCARDS_PER_EVENT = 16 };

struct closing {
    struct lingering_close *closer;
    int fd;
    struct poller_target target;
    struct send_buffer output;
    struct list link;
    instant_ns until_ns;
};

void lingering_close_init(struct lingering_close *closer, struct poller *poller) {
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        limit.rlim_cur = RLIM_INFINITY;
    *closer = (struct lingering_close){.poller = poller, .max = lingering_close_max(limit.rlim_cur)};
    list_init(&closer->open);
    list_init(&closer->closed);
}

/* shutdown(2) because the service manager may have a copy. */
static void finish(struct closing *closing) {
    poller_remove(closing->closer->poller, closing->fd);
    (void) shutdown(closing->fd, SHUT_RDWR);
    (void) close(closing->fd);
    closing->fd = -1;
    send_buffer_deinit(&closing->output);
    list_unlink(&closing->link);
    list_append(&closing->closer->closed, &closing->link);
    closing->closer->n_open--;
}

/* 1 when all is sent, 0 when the socket is full, -1 when the client has gone. */
static int send_rest(struct closing *closing) {
    while (send_buffer_unsent(&closing->output) > 0) {
        const struct send_buffer_part part = send_buffer_part(&closing->output);
        ssize_t n = send(closing->fd, part.bytes, part.length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : -1;
        send_buffer_advance(&closing->output, (size_t) n);
    }
    (void) shutdown(closing->fd, SHUT_WR);
    return 1;
}

/* Input that is unread at close(2) gives the client ECONNRESET. */
static void discard(int fd) {
    char bytes[DISCARDED_BYTES];

    for (unsigned i = 0; i < DISCARDS_PER_EVENT; i++)
        if (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) <= 0)
            return;
}

/* Whether the connection can be closed. */
static bool is_over(struct closing *closing) {
    int sent = send_rest(closing);
    bool over = sent < 0 || (sent > 0 && socket_queue_is_read(closing->fd));

    discard(closing->fd);
    return over;
}

static void on_events(struct poller_target *target, uint32_t revents) {
    struct closing *closing = list_entry(target, struct closing, target);

    if (closing->fd >= 0 && (is_over(closing) || (revents & (EPOLLHUP | EPOLLERR))))
        finish(closing);
}

void lingering_close_take(struct lingering_close *closer, int fd, struct send_buffer *output,
                          instant_ns now_ns) {
    struct closing *closing = malloc(sizeof(*closing));

    if (!closing) {
        (void) close(fd);
        return;
    }
    *closing = (struct closing){.closer = closer,
                                .fd = fd,
                                .target.on_events = on_events,
                                .until_ns = now_ns + LINGERING_MS * NS_PER_MS};
    send_buffer_init(&closing->output);
    if (output && send_buffer_unsent(output) <= LINGERING_BYTES_MAX) {
        (void) send_buffer_detach(output);
        closing->output = *output;
        send_buffer_init(output);
    }
    list_init(&closing->link);
    list_append(&closer->open, &closing->link);
    closer->n_open++;
    if (is_over(closing) ||
        poller_add(closer->poller, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, &closing->target) < 0)
        finish(closing);
    if (closer->n_open > closer->max)
        finish(list_entry(list_first(&closer->open), struct closing, link));
}

instant_ns lingering_close_tick(struct lingering_close *closer, instant_ns now_ns) {
    struct list *node;

    while ((node = list_first(&closer->open)) && now_ns >= list_entry(node, struct closing, link)->until_ns)
        finish(list_entry(node, struct closing, link));
    list_for_each_safe(closed, &closer->closed) {
        list_unlink(closed);
        free(list_entry(closed, struct closing, link));
    }
    node = list_first(&closer->open);
    return node ? list_entry(node, struct closing, link)->until_ns : INSTANT_NEVER;
}

void lingering_close_deinit(struct lingering_close *closer) {
    (void) lingering_close_tick(closer, INSTANT_NEVER);
}
