#include "io/poller.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { BATCH = 64 };

struct poller {
    int epoll_fd;
    sd_event_source *source;
    int (*settle)(void *userdata);
    void *userdata;
};

static int on_ready(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
    struct poller *poller = userdata;
    struct epoll_event events[BATCH];

    (void) source;
    (void) revents;
    int n = epoll_wait(fd, events, BATCH, 0);
    if (n < 0 && errno != EINTR)
        return -errno;
    for (int i = 0; i < n; i++) {
        struct poll_target *target = events[i].data.ptr;
        target->on_events(target, events[i].events);
    }
    return poller->settle(poller->userdata);
}

int poller_new(sd_event *event, int64_t priority, int (*settle)(void *userdata), void *userdata,
               struct poller **ret) {
    struct poller *poller = calloc(1, sizeof(*poller));

    if (!poller)
        return -ENOMEM;
    *poller = (struct poller){.settle = settle, .userdata = userdata};
    poller->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int r = poller->epoll_fd < 0 ? -errno : 0;
    if (r >= 0)
        r = sd_event_add_io(event, &poller->source, poller->epoll_fd, EPOLLIN, on_ready, poller);
    if (r >= 0)
        r = sd_event_source_set_priority(poller->source, priority);
    if (r >= 0)
        r = sd_event_source_set_exit_on_failure(poller->source, 1);
    if (r < 0) {
        poller_free(poller);
        return r;
    }
    *ret = poller;
    return 0;
}

struct poller *poller_free(struct poller *poller) {
    if (!poller)
        return NULL;
    sd_event_source_disable_unref(poller->source);
    if (poller->epoll_fd >= 0)
        (void) close(poller->epoll_fd);
    free(poller);
    return NULL;
}

static int control(struct poller *poller, int operation, int fd, uint32_t events,
                   struct poll_target *target) {
    struct epoll_event event = {.events = events, .data.ptr = target};
    return epoll_ctl(poller->epoll_fd, operation, fd, &event) < 0 ? -errno : 0;
}

int poller_add(struct poller *poller, int fd, uint32_t events, struct poll_target *target) {
    return control(poller, EPOLL_CTL_ADD, fd, events, target);
}

int poller_modify(struct poller *poller, int fd, uint32_t events, struct poll_target *target) {
    return control(poller, EPOLL_CTL_MOD, fd, events, target);
}

void poller_remove(struct poller *poller, int fd) {
    (void) control(poller, EPOLL_CTL_DEL, fd, 0, NULL);
}
