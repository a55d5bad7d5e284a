/* Connects hiredis' asynchronous contexts with a keeper's poller. Reading is always on; writing is deferred
 * to hiredis_adapter_flush(), so that a loop turn ends in one write.
 *
 * hiredis 0.14 has no adapter for sd-event, and that of 1.x loses time-outs; redis.c has its own
 * deadlines. */
#pragma once

#include <stdbool.h>

#include <hiredis/async.h>

#include "io/loop/poller.h"

struct hiredis_adapter {
    struct poller_target target;
    struct poller *poller;
    redisAsyncContext *context; /* NULL while none is watched */
    int fd;
    bool connected;
    bool wants_write;
    bool polls_write;
    bool busy;   /* in a callback */
    bool doomed; /* closed in a callback: after its return */
    /* Replace hiredis' own handlers once connected; NULL: hiredis reads and writes. */
    void (*on_readable)(struct hiredis_adapter *adapter);
    void (*on_writable)(struct hiredis_adapter *adapter);
};

void hiredis_adapter_init(struct hiredis_adapter *adapter, struct poller *poller);

/* Watches a context that connects next, until hiredis frees the context. 0 or a negative errno. */
int hiredis_adapter_attach(struct hiredis_adapter *adapter, redisAsyncContext *context);

/* The context is connected: from now on writing is deferred. */
void hiredis_adapter_connected(struct hiredis_adapter *adapter);

/* Whether there is something to write: for an owner that writes without hiredis. */
void hiredis_adapter_want_write(struct hiredis_adapter *adapter, bool wanted);

/* Closes the connection, if there is one; in a callback, after its return. */
void hiredis_adapter_close(struct hiredis_adapter *adapter);

/* Writes as far as the socket takes bytes; the rest follows from the poller. May call back. */
void hiredis_adapter_flush(struct hiredis_adapter *adapter);
