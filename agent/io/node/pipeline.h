/* Commands on a connection to a node, and their answers in the same order.
 *
 * hiredis connects, parses and disconnects. Its queue and output would allocate and free for each command:
 * here commands are written from the callers' memory (io/node/pending-call.h), all waiting ones in one
 * write, and answers are built in reused memory (io/node/reply-memory.h). With TLS, hiredis and OpenSSL
 * write, so commands pass through the queue of hiredis: with this queue one client's acquire takes 1.09
 * times as long, a hand-off between two agents 1.14 times, and 100,000 leases cost 1.06 times the CPU. */
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
    struct list sent;            /* oldest first: the first is answered next */
    struct pending_call *unsent; /* the first of them that is not completely written; NULL: none */
    size_t written;              /* bytes of that one */
    struct reply_memory replies;
    size_t unfinished; /* bytes of the incomplete answer */
    char *joined;      /* with TLS: a command in one piece, for hiredis */
    size_t joined_room;
    bool tls;
};

void pipeline_init(struct pipeline *pipeline, struct poller *poller);

/* The connection must have ended. */
void pipeline_deinit(struct pipeline *pipeline);

/* For a context that connects next. 0 or a negative errno. */
int pipeline_attach(struct pipeline *pipeline, redisAsyncContext *context, bool tls);

/* In the connect callback: from now on commands can be sent. */
void pipeline_connected(struct pipeline *pipeline);

/* Appends the record; pipeline_flush() writes it. Its callback gets the answer, valid during the call, or
 * NULL when the connection ended before. The callback owns the record. 0; or, with TLS, -ENOMEM: no memory,
 * or the connection is being closed; then there is no callback. */
int pipeline_send(struct pipeline *pipeline, struct pending_call *record);

/* The same for a rare command, with a record of its own. 0 or -ENOMEM. */
int pipeline_ask(struct pipeline *pipeline, pending_call_reply *on_reply, void *userdata, const char *format,
                 ...) __attribute__((nonnull(1, 2, 4)));
int pipeline_ask_bytes(struct pipeline *pipeline, pending_call_reply *on_reply, void *userdata,
                       const char *bytes, size_t length);

/* Writes on several pipelines by one system call, as far as possible; pipeline_flush() does the rest, and
 * handles errors. Never calls back. */
void pipeline_burst(const struct multi_write *burst, struct pipeline *const pipelines[], size_t n);

/* Writes as far as the socket takes bytes; the rest follows from the poller. May call back. */
void pipeline_flush(struct pipeline *pipeline);

/* Closes the connection, if there is one; in a callback, after its return. */
void pipeline_close(struct pipeline *pipeline);

/* In the disconnect callback: answers all commands under way with NULL. */
void pipeline_drop(struct pipeline *pipeline);
