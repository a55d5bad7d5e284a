/* A call that may block and can't be cancelled, such as getaddrinfo(3): made in a short-lived thread, while
 * the event loop goes on. */
#pragma once

#include <stdint.h>
#include <systemd/sd-event.h>

struct blocking_call;

/* `run` is called in the thread. `free_data` is called once, by the thread or by blocking_call_free(),
 * whichever is the last to use the data. */
struct blocking_call_type {
    void (*run)(void *data);
    void (*free_data)(void *data);
};

/* The data is as `run` left it. The owner frees the call afterwards; the handler may do so. */
typedef void (*blocking_call_handler)(void *userdata);

/* Starts the thread. 0: the data belongs to the call, and the event loop calls the handler once, with this
 * priority, after `run` has returned. Or a negative errno: the data is still the caller's. */
int blocking_call_new(sd_event *event, int64_t priority, const struct blocking_call_type *type, void *data,
                      blocking_call_handler handler, void *userdata, struct blocking_call **ret);

/* The handler is not called any more; the thread ends by itself. NULL is fine. Returns NULL. */
struct blocking_call *blocking_call_free(struct blocking_call *call);
