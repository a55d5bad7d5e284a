/* Reads the configuration again without blocking a loop: in a short-lived thread, since the directory of
 * users and groups may answer slowly. */
#pragma once

#include <systemd/sd-event.h>

#include "config/config.h"

struct config_reader;

/* `fresh` is the handler's to free; NULL on failure: `error` is then the negative errno of config_read().
 * `diagnostics` has the errors and warnings, each on a line of its own; NULL: none. The owner frees the
 * reader afterwards; the handler may do so. */
typedef void (*config_reader_handler)(void *userdata, struct config *fresh, int error,
                                      const char *diagnostics);

/* Starts to read. 0: the handler will be called, by the event loop; or a negative errno. One reader of the
 * process at a time, see config_read(). */
int config_reader_new(sd_event *event, const char *path, config_reader_handler handler, void *userdata,
                      struct config_reader **ret);

/* The handler is not called any more. The thread ends by itself. NULL is fine. Returns NULL. */
struct config_reader *config_reader_free(struct config_reader *reader);
