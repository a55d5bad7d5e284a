#include "io/loop/blocking-call.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* What both threads use; the last one frees it. */
struct shared {
    _Atomic int owners;
    int done_fd; /* readable once `run` has returned */
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
    const uint64_t one = 1;

    shared->type->run(shared->data);
    ssize_t n = write(shared->done_fd, &one, sizeof(one));
    (void) n; /* an eventfd accepts a first 1 */
    shared_unref(shared);
    return NULL;
}

static int on_done(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
    struct blocking_call *call = userdata;
    uint64_t count;

    (void) source;
    (void) revents;
    /* This read makes the thread's writes visible here. */
    if (read(fd, &count, sizeof(count)) == sizeof(count))
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
    int done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (!call || !shared || done_fd < 0) {
        int error = done_fd < 0 ? -errno : -ENOMEM;
        if (done_fd >= 0)
            (void) close(done_fd);
        free(shared);
        free(call);
        return error;
    }
    *shared = (struct shared){.owners = 1, .done_fd = done_fd, .type = type};
    *call = (struct blocking_call){.shared = shared, .handler = handler, .userdata = userdata};
    int r = sd_event_add_io(event, &call->source, done_fd, EPOLLIN, on_done, call);
    if (r >= 0)
        r = sd_event_source_set_priority(call->source, priority);
    if (r >= 0)
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
