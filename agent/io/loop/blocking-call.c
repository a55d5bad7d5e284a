#include "io/loop/blocking-call.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

/* What both threads use; the last one frees it. */
struct shared {
    _Atomic int owners;
    _Atomic bool is_done; /* `run` has returned */
    /* A pipe, whose end shows that: unlike a write, close(2) can't fail. */
    int done_fd, running_fd;
    const struct blocking_call_type *type;
    void *data; /* NULL: still the caller's */
};

struct blocking_call {
    struct shared *shared;
    sd_event_source *source;
    blocking_call_handler handler;
    void *userdata;
};

static void shared_unref(struct shared *shared) {
    if (atomic_fetch_sub(&shared->owners, 1) > 1)
        return;
    (void) close(shared->done_fd);
    if (shared->data)
        shared->type->free_data(shared->data);
    free(shared);
}

static void *run(void *userdata) {
    struct shared *shared = userdata;

    shared->type->run(shared->data);
    atomic_store(&shared->is_done, true); /* makes the thread's writes visible */
    (void) close(shared->running_fd);
    shared_unref(shared);
    return NULL;
}

static int on_done(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
    struct blocking_call *call = userdata;

    (void) source;
    (void) fd;
    (void) revents;
    if (atomic_load(&call->shared->is_done))
        call->handler(call->userdata);
    return 0;
}

static int start_thread(struct shared *shared, void *data) {
    pthread_attr_t attributes;
    pthread_t thread;

    (void) pthread_attr_init(&attributes);
    (void) pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    shared->data = data;
    atomic_store(&shared->owners, 2);
    int r = -pthread_create(&thread, &attributes, run, shared);
    if (r < 0) {
        (void) close(shared->running_fd);
        shared->data = NULL;
        atomic_store(&shared->owners, 1);
    }
    (void) pthread_attr_destroy(&attributes);
    return r;
}

int blocking_call_new(sd_event *event, int64_t priority, const struct blocking_call_type *type, void *data,
                      blocking_call_handler handler, void *userdata, struct blocking_call **ret) {
    struct blocking_call *call = calloc(1, sizeof(*call));
    struct shared *shared = malloc(sizeof(*shared));
    int fds[2];

    if (!call || !shared || pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0) {
        int error = call && shared ? -errno : -ENOMEM;
        free(shared);
        free(call);
        return error;
    }
    *shared = (struct shared){.owners = 1, .done_fd = fds[0], .running_fd = fds[1], .type = type};
    *call = (struct blocking_call){.shared = shared, .handler = handler, .userdata = userdata};
    int r = sd_event_add_io(event, &call->source, fds[0], EPOLLIN, on_done, call);
    if (r >= 0)
        r = sd_event_source_set_priority(call->source, priority);
    if (r >= 0)
        r = sd_event_source_set_enabled(call->source, SD_EVENT_ONESHOT);
    if (r < 0)
        (void) close(fds[1]);
    else
        r = start_thread(shared, data);
    if (r < 0) {
        blocking_call_free(call);
        return r;
    }
    *ret = call;
    return 0;
}

struct blocking_call *blocking_call_free(struct blocking_call *call) {
    if (!call)
        return NULL;
    sd_event_source_disable_unref(call->source);
    shared_unref(call->shared);
    free(call);
    return NULL;
}
