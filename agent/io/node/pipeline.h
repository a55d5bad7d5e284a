/* Commands on a connection to a node, and their answers in the same order.
 *
 * hiredis connects, parses and ends. Its queue and its output would allocate for each command, and free
 * again: here commands are written from where they stand (io/node/pending-call.h), all that wait at once,
 * and answers are built in memory that is kept (io/node/reply-memory.h). Connections with TLS, whose bytes
 * are hiredis' and OpenSSL's to write, go through its queue after all. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "io/node/hiredis-adapter.h"
#include "io/node/pending-call.h"
#include "io/node/reply-memory.h"

struct multi_write;

struct pipeline {
    struct hiredis_adapter adapter;
    struct list sent;            /* oldest first, from the one that is answered next */
    struct pending_call *unsent; /* the first of them that is not written whole; NULL: all are */
    size_t written;              /* bytes of that one */
    struct reply_memory replies;
    size_t unfinished; /* bytes of the answer that has not come whole */
    char *joined;      /* with TLS: a command in one piece, for hiredis */
    size_t joined_room;
    bool tls;
    bool reading; /* in a callback */
    bool doomed;  /* it ended the connection */
};

void pipeline_init(struct pipeline *pipeline, struct poller *poller);

/* The connection must have ended. */
void pipeline_deinit(struct pipeline *pipeline);

/* For a context that is about to connect. 0 or a negative errno. */
int pipeline_attach(struct pipeline *pipeline, redisAsyncContext *context, bool tls);

/* In the connect callback: from now on there can be commands. */
void pipeline_connected(struct pipeline *pipeline);

/* Takes the record to the end of what is sent; pipeline_flush() writes it. Its callback has the answer,
 * which stands until that returns, or NULL when the connection ends before; the record is the callback's. */
void pipeline_send(struct pipeline *pipeline, struct pending_call *record);

/* The same for what is rare: a record is made for it. 0 or -ENOMEM. */
int pipeline_ask(struct pipeline *pipeline, redisCallbackFn *on_reply, void *userdata, const char *format,
                 ...) __attribute__((nonnull(1, 2, 4)));
void pipeline_ask_bytes(struct pipeline *pipeline, redisCallbackFn *on_reply, void *userdata,
                        const char *bytes, size_t length);

/* Writes what waits on several of them by one call, as far as that goes; pipeline_flush() does the rest, and
 * finds out what is wrong. Never calls back. */
void pipeline_burst(const struct multi_write *burst, struct pipeline *const pipelines[], size_t n);

/* Writes what waits, as far as the socket takes it; the rest follows by itself. May call back. */
void pipeline_flush(struct pipeline *pipeline);

/* Ends the connection, if there still is one; within a callback, when that returns. */
void pipeline_close(struct pipeline *pipeline);

/* In the disconnect callback: what is not answered won't be. */
void pipeline_drop(struct pipeline *pipeline);
