/* hiredis' asynchronous contexts on a keeper's poller. Reading is always on; writing is deferred to
 * hiredis_adapter_flush(), so that everything of a loop turn goes out in one write.
 *
 * hiredis 0.14 has no adapter for sd-event, and that of 1.x loses time-outs; the deadlines are our own. */
#pragma once

#include <stdbool.h>

#include <hiredis/async.h>

#include "io/loop/poller.h"

struct hiredis_adapter {
    struct poller_target target;
    struct poller *poller;
    redisAsyncContext *context; /* while it is watched, else NULL */
    int fd;
    bool connected;
    bool wants_write;
    bool polls_write;
    /* Instead of hiredis' own, once the connection stands; NULL: there is none. */
    void (*on_readable)(struct hiredis_adapter *adapter);
    void (*on_writable)(struct hiredis_adapter *adapter);
};

void hiredis_adapter_init(struct hiredis_adapter *adapter, struct poller *poller);

/* Watches a context that is about to connect, until hiredis frees it. 0 or a negative errno. */
int hiredis_adapter_attach(struct hiredis_adapter *adapter, redisAsyncContext *context);

/* Its connection stands: from now on writing is deferred. */
void hiredis_adapter_connected(struct hiredis_adapter *adapter);

/* Whether there is something to write: for who writes without hiredis. */
void hiredis_adapter_want_write(struct hiredis_adapter *adapter, bool wanted);

/* Writes what is waiting, as far as the socket takes it; the rest follows by itself. May call back. */
void hiredis_adapter_flush(struct hiredis_adapter *adapter);
