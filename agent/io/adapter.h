/* hiredis' asynchronous contexts on a keeper's poller. Reading is always on; writing is deferred to
 * adapter_flush(), so that everything of a loop turn goes out in one write.
 *
 * hiredis 0.14 has no adapter for sd-event, and that of 1.x loses time-outs; the deadlines are our own. */
#pragma once

#include <stdbool.h>

#include <hiredis/async.h>

#include "io/poller.h"

struct adapter {
    struct poll_target target;
    struct poller *poller;
    redisAsyncContext *context; /* while it is watched, else NULL */
    int fd;
    bool connected;
    bool wants_write;
    bool polls_write;
    /* Instead of hiredis' own, once the connection stands; NULL: there is none. */
    void (*on_readable)(struct adapter *adapter);
    void (*on_writable)(struct adapter *adapter);
};

void adapter_init(struct adapter *adapter, struct poller *poller);

/* Watches a context that is about to connect, until hiredis frees it. 0 or a negative errno. */
int adapter_attach(struct adapter *adapter, redisAsyncContext *context);

/* Its connection stands: from now on writing is deferred. */
void adapter_connected(struct adapter *adapter);

/* Whether there is something to write: for who writes without hiredis. */
void adapter_want_write(struct adapter *adapter, bool wanted);

/* Writes what is waiting, as far as the socket takes it; the rest follows by itself. May call back. */
void adapter_flush(struct adapter *adapter);
