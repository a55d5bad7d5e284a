#include "io/client/config-reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/loop/blocking-call.h"
#include "io/loop/loop.h"

/* What the thread reads and writes. */
struct reading {
    char *path;
    struct config *fresh;
    int error;
    char *diagnostics;
};

struct config_reader {
    struct blocking_call *call;
    struct reading *reading; /* the call's */
    config_reader_handler handler;
    void *userdata;
};

static void free_reading(void *data) {
    struct reading *reading = data;

    config_free(reading->fresh);
    free(reading->diagnostics);
    free(reading->path);
    free(reading);
}

static void read_file(void *data) {
    struct reading *reading = data;
    size_t length = 0;
    FILE *errors = open_memstream(&reading->diagnostics, &length);

    reading->error = errors ? config_read(reading->path, CONFIG_RELOAD, errors, &reading->fresh) : -errno;
    if (errors)
        (void) fclose(errors);
}

static const struct blocking_call_type reading_type = {.run = read_file, .free_data = free_reading};

static void on_read(void *userdata) {
    struct config_reader *reader = userdata;
    struct config *fresh = reader->reading->fresh;

    reader->reading->fresh = NULL;
    reader->handler(reader->userdata, fresh, reader->reading->error, reader->reading->diagnostics);
}

int config_reader_new(sd_event *event, const char *path, config_reader_handler handler, void *userdata,
                      struct config_reader **ret) {
    struct config_reader *reader = calloc(1, sizeof(*reader));
    struct reading *reading = calloc(1, sizeof(*reading));
    int r = -ENOMEM;

    if (reader && reading && (reading->path = strdup(path))) {
        *reader = (struct config_reader){.reading = reading, .handler = handler, .userdata = userdata};
        r = blocking_call_new(event, LOOP_PRIORITY_SIGNAL, &reading_type, reading, on_read, reader,
                              &reader->call);
    }
    if (r < 0) {
        if (reading)
            free_reading(reading);
        free(reader);
        return r;
    }
    *ret = reader;
    return 0;
}

struct config_reader *config_reader_free(struct config_reader *reader) {
    if (reader)
        blocking_call_free(reader->call);
    free(reader);
    return NULL;
}
