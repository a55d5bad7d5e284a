#include "io/node/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/loop/clock.h"
#include "io/loop/loop.h"

/* Threads whose answer is no longer awaited. A resolver that hangs must not fill the process with them. */
static _Atomic int abandoned;

/* Shared by both threads, and freed by the last one, since getaddrinfo() can't be cancelled. */
struct question {
    _Atomic int owners;
    int done_fd;
    int error;
    unsigned place;
    char host[256];
    char address[RESOLVED_BYTES];
};

struct resolve {
    struct question *question;
    sd_event_source *source, *timer;
    unsigned timeout_ms;
    resolve_handler handler;
    void *userdata;
};

/* True: the caller was the last owner. */
static bool question_unref(struct question *question) {
    if (atomic_fetch_sub(&question->owners, 1) > 1)
        return false;
    (void) close(question->done_fd);
    free(question);
    return true;
}

static const struct addrinfo *address_at(const struct addrinfo *found, unsigned place) {
    const struct addrinfo *address = found;

    while (place-- > 0)
        address = address->ai_next ? address->ai_next : found;
    return address;
}

static void *ask(void *userdata) {
    struct question *question = userdata;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *found = NULL;
    const uint64_t one = 1;

    question->error = getaddrinfo(question->host, NULL, &hints, &found);
    if (question->error == 0) {
        const struct addrinfo *address = address_at(found, question->place);
        question->error = getnameinfo(address->ai_addr, address->ai_addrlen, question->address,
                                      sizeof(question->address), NULL, 0, NI_NUMERICHOST);
    }
    if (found)
        freeaddrinfo(found);
    ssize_t n = write(question->done_fd, &one, sizeof(one));
    (void) n; /* an eventfd accepts a first 1 */
    if (question_unref(question))
        atomic_fetch_sub(&abandoned, 1);
    return NULL;
}

static int on_done(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
    struct resolve *resolve = userdata;
    const struct question *question = resolve->question;
    uint64_t count;

    (void) source;
    (void) revents;
    if (read(fd, &count, sizeof(count)) != sizeof(count))
        return 0;
    if (question->error == 0)
        resolve->handler(resolve->userdata, question->address, NULL);
    else
        resolve->handler(resolve->userdata, NULL, gai_strerror(question->error));
    return 0;
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata) {
    struct resolve *resolve = userdata;
    char error[48];

    (void) source;
    (void) usec;
    (void) snprintf(error, sizeof(error), "no answer within %g s", resolve->timeout_ms / 1000.0);
    resolve->handler(resolve->userdata, NULL, error);
    return 0;
}

static bool is_numeric(const char *host) {
    struct in6_addr address;
    return inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1;
}

static int start(struct resolve *resolve, sd_event *event) {
    pthread_attr_t attributes;
    pthread_t thread;

    int r = sd_event_add_io(event, &resolve->source, resolve->question->done_fd, EPOLLIN, on_done, resolve);
    if (r >= 0)
        r = sd_event_source_set_priority(resolve->source, LOOP_PRIORITY_NODE);
    if (r >= 0)
        r = loop_add_timer(event, on_timeout, resolve, &resolve->timer);
    if (r >= 0)
        r = loop_set_timer(resolve->timer, clock_now_ns() + resolve->timeout_ms * NS_PER_MS);
    if (r < 0)
        return r;
    (void) pthread_attr_init(&attributes);
    (void) pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    atomic_store(&resolve->question->owners, 2);
    r = -pthread_create(&thread, &attributes, ask, resolve->question);
    if (r < 0)
        atomic_store(&resolve->question->owners, 1);
    (void) pthread_attr_destroy(&attributes);
    return r;
}

int resolve_new(sd_event *event, const char *host, unsigned place, unsigned timeout_ms,
                resolve_handler handler, void *userdata, struct resolve **ret) {
    if (is_numeric(host))
        return 1;
    if (atomic_load(&abandoned) >= RESOLVE_ABANDONED_MAX)
        return -EAGAIN;
    struct resolve *resolve = calloc(1, sizeof(*resolve));
    struct question *question = calloc(1, sizeof(*question));
    int done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!resolve || !question || done_fd < 0 || strlen(host) >= sizeof(question->host)) {
        int error = done_fd < 0 ? -errno : resolve && question ? -ENAMETOOLONG : -ENOMEM;
        free(resolve);
        free(question);
        if (done_fd >= 0)
            (void) close(done_fd);
        return error;
    }
    memcpy(question->host, host, strlen(host) + 1);
    question->done_fd = done_fd;
    question->place = place;
    atomic_store(&question->owners, 1);
    *resolve = (struct resolve){
        .question = question, .timeout_ms = timeout_ms, .handler = handler, .userdata = userdata};
    int r = start(resolve, event);
    if (r < 0) {
        resolve_free(resolve);
        return r;
    }
    *ret = resolve;
    return 0;
}

struct resolve *resolve_free(struct resolve *resolve) {
    if (!resolve)
        return NULL;
    sd_event_source_disable_unref(resolve->source);
    sd_event_source_disable_unref(resolve->timer);
    atomic_fetch_add(&abandoned, 1);
    if (question_unref(resolve->question))
        atomic_fetch_sub(&abandoned, 1);
    free(resolve);
    return NULL;
}
