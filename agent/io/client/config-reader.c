#include "io/client/config-reader.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "io/loop/loop.h"

/* Shared by both threads, and freed by the last one, since getpwnam(3) can't be cancelled. */
struct reading {
    _Atomic int owners;
    int done_fd;
    char *path;
    struct config *fresh;
    int error;
    char *diagnostics;
};

struct config_reader {
    struct reading *reading;
    sd_event_source *source;
    config_reader_handler handler;
    void *userdata;
};

static void reading_unref(struct reading *reading) {
    if (atomic_fetch_sub(&reading->owners, 1) > 1)
        return;
    if (reading->done_fd >= 0)
        (void) close(reading->done_fd);
    config_free(reading->fresh);
    free(reading->diagnostics);
    free(reading->path);
    free(reading);
}

static struct reading *reading_new(const char *path) {
    struct reading *reading = calloc(1, sizeof(*reading));

    if (!reading)
        return NULL;
    atomic_store(&reading->owners, 1);
    reading->path = strdup(path);
    reading->done_fd = reading->path ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    if (reading->done_fd >= 0)
        return reading;
    int error = reading->path ? errno : ENOMEM;
    reading_unref(reading);
    errno = error;
    return NULL;
}

static void *read_file(void *userdata) {
    struct reading *reading = userdata;
    const uint64_t one = 1;
    size_t length = 0;

    FILE *errors = open_memstream(&reading->diagnostics, &length);
    reading->error = errors ? config_read(reading->path, CONFIG_RELOAD, errors, &reading->fresh) : -errno;
    if (errors)
        (void) fclose(errors);
    ssize_t n = write(reading->done_fd, &one, sizeof(one));
    (void) n; /* an eventfd accepts a first 1 */
    reading_unref(reading);
    return NULL;
}

static int on_done(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
    struct config_reader *reader = userdata;
    uint64_t count;

    (void) source;
    (void) revents;
    if (read(fd, &count, sizeof(count)) != sizeof(count))
        return 0;
    struct config *fresh = reader->reading->fresh; /* the thread wrote before that count */
    reader->reading->fresh = NULL;
    reader->handler(reader->userdata, fresh, reader->reading->error, reader->reading->diagnostics);
    return 0;
}

static int start(struct config_reader *reader, sd_event *event) {
    pthread_attr_t attributes;
    pthread_t thread;

    int r = sd_event_add_io(event, &reader->source, reader->reading->done_fd, EPOLLIN, on_done, reader);
    if (r >= 0)
        r = sd_event_source_set_priority(reader->source, LOOP_PRIORITY_SIGNAL);
    if (r < 0)
        return r;
    (void) pthread_attr_init(&attributes);
    (void) pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    atomic_store(&reader->reading->owners, 2);
    r = -pthread_create(&thread, &attributes, read_file, reader->reading);
    if (r < 0)
        atomic_store(&reader->reading->owners, 1);
    (void) pthread_attr_destroy(&attributes);
    return r;
}

int config_reader_new(sd_event *event, const char *path, config_reader_handler handler, void *userdata,
                      struct config_reader **ret) {
    struct config_reader *reader = calloc(1, sizeof(*reader));

    if (!reader)
        return -ENOMEM;
    *reader = (struct config_reader){.reading = reading_new(path), .handler = handler, .userdata = userdata};
    int r = reader->reading ? start(reader, event) : -errno;
    if (r < 0) {
        config_reader_free(reader);
        return r;
    }
    *ret = reader;
    return 0;
}

struct config_reader *config_reader_free(struct config_reader *reader) {
    if (!reader)
        return NULL;
    sd_event_source_disable_unref(reader->source);
    if (reader->reading)
        reading_unref(reader->reading);
    free(reader);
    return NULL;
}
