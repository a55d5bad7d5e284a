#include "io/node/pipeline.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/secret.h"
#include "io/loop/memory.h"
#include "io/loop/multi-write.h"

enum {
    PIECES_MAX = 192,
    MULTI_WRITE_PIECES_MAX = 96, /* 32 calls to a node: more in one turn take a second write */
    RECORD_PIECES = 3,
    RECEIVED_BYTES_MAX = 16 * 1024,
};

static void deliver(struct pending_call *record, void *reply) {
    list_unlink(&record->entry.link);
    if (!record->rare) {
        record->on_reply(reply, record);
        return;
    }
    record->on_reply(reply, record->tag);
    pending_call_free(record);
}

/* --- reading --- */

/* Such as "max number of clients reached". */
static int note_unexpected(redisContext *context, const redisReply *reply) {
    context->err = REDIS_ERR_OTHER;
    (void) snprintf(context->errstr, sizeof(context->errstr), "%s",
                    reply->type == REDIS_REPLY_ERROR ? reply->str : "it answered without a request");
    return REDIS_ERR;
}

/* redisBufferRead() leaves the bytes on the stack. */
static int receive(redisContext *context, int fd) {
    char bytes[RECEIVED_BYTES_MAX];
    ssize_t n = recv(fd, bytes, sizeof(bytes), 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return REDIS_OK;
    if (n <= 0) {
        context->err = n == 0 ? REDIS_ERR_EOF : REDIS_ERR_IO;
        (void) snprintf(context->errstr, sizeof(context->errstr), "%s",
                        n == 0 ? "Server closed the connection" : strerror(errno));
        return REDIS_ERR;
    }
    int r = redisReaderFeed(context->reader, bytes, (size_t) n);
    if (r != REDIS_OK) {
        context->err = context->reader->err;
        (void) snprintf(context->errstr, sizeof(context->errstr), "%s", context->reader->errstr);
    }
    secret_clear(bytes, (size_t) n);
    return r;
}

/* The next reply; NULL: none that is complete. Clears its bytes in the reader, which keeps them until it
 * moves the rest to the front, and then keeps what was behind. */
static int take_reply(redisContext *context, void **ret) {
    const redisReader *reader = context->reader;
    size_t begin = reader->pos, end = reader->len;
    int r = redisGetReplyFromReader(context, ret);

    if (!reader->buf)
        return r; /* after an error of the protocol */
    /* The bytes before `begin` are cleared already. */
    if (reader->pos > begin)
        secret_clear(reader->buf + begin, reader->pos - begin);
    if (reader->len < end)
        secret_clear(reader->buf + reader->len, end - reader->len);
    return r;
}

static int read_replies(struct pipeline *pipeline, redisContext *context) {
    size_t before = context->reader->len;
    int r = receive(context, pipeline->adapter.fd);

    if (r == REDIS_OK &&
        reply_memory_count(context, context->reader->len - before, &pipeline->unfinished) < 0)
        return REDIS_ERR;
    while (r == REDIS_OK && !pipeline->adapter.doomed) {
        struct list *first = list_first(&pipeline->sent);
        void *reply = NULL;
        r = take_reply(context, &reply);
        if (r != REDIS_OK)
            reply_memory_explain(&pipeline->replies, context);
        if (r != REDIS_OK || !reply)
            break;
        pipeline->unfinished = context->reader->len - context->reader->pos;
        if (!first || pending_call_of(first) == pipeline->unsent)
            r = note_unexpected(context, reply);
        else
            deliver(pending_call_of(first), reply);
        reply_memory_clear(&pipeline->replies);
    }
    return r;
}

static void on_readable(struct hiredis_adapter *adapter) {
    struct pipeline *pipeline = (struct pipeline *) (void *) adapter;
    redisAsyncContext *context = adapter->context;

    if (read_replies(pipeline, &context->c) != REDIS_OK)
        redisAsyncFree(context);
}

/* --- writing --- */

static struct pending_call *next_of(const struct pipeline *pipeline, const struct pending_call *record) {
    return record->entry.link.next == &pipeline->sent ? NULL : pending_call_of(record->entry.link.next);
}

/* Its pieces behind the first `skipped` bytes; their number. */
static size_t pieces_of(const struct pending_call *record, size_t skipped, struct iovec *pieces) {
    const struct pending_call_piece all[RECORD_PIECES] = {
        record->head, {record->bytes, record->length}, record->tail};
    size_t n = 0;

    for (unsigned i = 0; i < RECORD_PIECES; i++) {
        size_t skip = skipped < all[i].length ? skipped : all[i].length;
        skipped -= skip;
        if (skip < all[i].length)
            pieces[n++] =
                (struct iovec){.iov_base = (char *) all[i].bytes + skip, .iov_len = all[i].length - skip};
    }
    return n;
}

/* The pieces to write next. Returns their number. */
static size_t gather(const struct pipeline *pipeline, struct iovec *pieces, size_t most) {
    size_t skipped = pipeline->written, n = 0;

    for (const struct pending_call *record = pipeline->unsent; record && n + RECORD_PIECES <= most;
         record = next_of(pipeline, record), skipped = 0)
        n += pieces_of(record, skipped, pieces + n);
    return n;
}

static void note_written(struct pipeline *pipeline, size_t n) {
    while (pipeline->unsent && n >= pending_call_length(pipeline->unsent) - pipeline->written) {
        n -= pending_call_length(pipeline->unsent) - pipeline->written;
        pipeline->unsent = next_of(pipeline, pipeline->unsent);
        pipeline->written = 0;
    }
    pipeline->written += n;
}

static void on_writable(struct hiredis_adapter *adapter) {
    struct pipeline *pipeline = (struct pipeline *) (void *) adapter;
    redisContext *context = &adapter->context->c;
    struct iovec pieces[PIECES_MAX];

    while (pipeline->unsent) {
        size_t n_pieces = gather(pipeline, pieces, PIECES_MAX);
        ssize_t n = writev(adapter->fd, pieces, (int) n_pieces);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) {
            context->err = REDIS_ERR_IO;
            (void) snprintf(context->errstr, sizeof(context->errstr), "%s", strerror(errno));
            redisAsyncFree(adapter->context);
            return;
        }
        note_written(pipeline, (size_t) n);
    }
    hiredis_adapter_want_write(adapter, false);
}

void pipeline_burst(const struct multi_write *burst, struct pipeline *const pipelines[], size_t n) {
    struct multi_write_write writes[MULTI_WRITE_MAX];
    struct iovec pieces[MULTI_WRITE_MAX][MULTI_WRITE_PIECES_MAX];
    struct pipeline *writers[MULTI_WRITE_MAX];
    size_t n_writes = 0;

    for (size_t i = 0; i < n && n_writes < MULTI_WRITE_MAX; i++) {
        struct pipeline *pipeline = pipelines[i];
        if (!pipeline->unsent || !pipeline->adapter.connected || pipeline->adapter.polls_write)
            continue;
        writers[n_writes] = pipeline;
        writes[n_writes] =
            (struct multi_write_write){.socket = pipeline->adapter.fd, .pieces = pieces[n_writes]};
        writes[n_writes].n_pieces = gather(pipeline, pieces[n_writes], MULTI_WRITE_PIECES_MAX);
        n_writes++;
    }
    if (n_writes < 2 || multi_write_write(burst, writes, n_writes) < 0)
        return;
    for (size_t i = 0; i < n_writes; i++) {
        if (writes[i].done > 0)
            note_written(writers[i], (size_t) writes[i].done);
        if (!writers[i]->unsent)
            hiredis_adapter_want_write(&writers[i]->adapter, false);
    }
}

/* --- the contract --- */

void pipeline_init(struct pipeline *pipeline, struct poller *poller) {
    *pipeline = (struct pipeline){0};
    hiredis_adapter_init(&pipeline->adapter, poller);
    list_init(&pipeline->sent);
}

void pipeline_deinit(struct pipeline *pipeline) {
    pending_call_free_all(&pipeline->sent);
    reply_memory_deinit(&pipeline->replies);
    free(pipeline->joined);
}

int pipeline_attach(struct pipeline *pipeline, redisAsyncContext *context, bool tls) {
    assert(!list_first(&pipeline->sent) && !pipeline->unsent);

    pipeline->tls = tls;
    pipeline->unfinished = 0;
    pipeline->adapter.on_readable = tls ? NULL : on_readable;
    pipeline->adapter.on_writable = tls ? NULL : on_writable;
    reply_memory_attach(&pipeline->replies, &context->c);
    /* hiredis ends the process when it has no callback for an answer. */
    pipeline->replies.asked = tls ? &pipeline->sent : NULL;
    return hiredis_adapter_attach(&pipeline->adapter, context);
}

void pipeline_connected(struct pipeline *pipeline) {
    hiredis_adapter_connected(&pipeline->adapter);
}

static void on_hiredis_reply(redisAsyncContext *context, void *reply, void *privdata) {
    struct pipeline *pipeline = context->ev.data;

    deliver(privdata, reply);
    if (reply)
        reply_memory_clear(&pipeline->replies);
}

/* hiredis takes a command in one piece, and copies it. */
static int give_to_hiredis(struct pipeline *pipeline, struct pending_call *record) {
    struct iovec pieces[RECORD_PIECES];
    size_t n = pieces_of(record, 0, pieces), length = 0;

    if (pipeline->joined_room < pending_call_length(record)) {
        pipeline->joined_room = pending_call_length(record);
        free(pipeline->joined);
        pipeline->joined = memory_await(NULL, pipeline->joined_room);
    }
    for (size_t i = 0; i < n; length += pieces[i++].iov_len)
        memcpy(pipeline->joined + length, pieces[i].iov_base, pieces[i].iov_len);
    int r = redisAsyncFormattedCommand(pipeline->adapter.context, on_hiredis_reply, record, pipeline->joined,
                                       length);
    secret_clear(pipeline->joined, length);
    return r == REDIS_OK ? 0 : -ENOMEM;
}

int pipeline_send(struct pipeline *pipeline, struct pending_call *record) {
    list_unlink(&record->entry.link);
    int r = pipeline->tls ? give_to_hiredis(pipeline, record) : 0;
    if (r < 0)
        return r;
    list_append(&pipeline->sent, &record->entry.link);
    if (pipeline->tls)
        return 0;
    if (!pipeline->unsent)
        pipeline->unsent = record;
    hiredis_adapter_want_write(&pipeline->adapter, true);
    return 0;
}

int pipeline_ask_bytes(struct pipeline *pipeline, pending_call_reply *on_reply, void *userdata,
                       const char *bytes, size_t length) {
    struct list none;

    list_init(&none);
    struct pending_call *record = pending_call_new(&none, length);
    if (!record)
        return -ENOMEM;
    memcpy(record->bytes, bytes, length);
    record->length = length;
    record->rare = true;
    record->on_reply = on_reply;
    record->tag = userdata;
    int r = pipeline_send(pipeline, record);
    if (r < 0)
        pending_call_free(record);
    return r;
}

int pipeline_ask(struct pipeline *pipeline, pending_call_reply *on_reply, void *userdata, const char *format,
                 ...) {
    va_list arguments;
    char *bytes;

    va_start(arguments, format);
    int length = redisvFormatCommand(&bytes, format, arguments);
    va_end(arguments);
    if (length < 0)
        return -ENOMEM;
    int r = pipeline_ask_bytes(pipeline, on_reply, userdata, bytes, (size_t) length);
    redisFreeCommand(bytes);
    return r;
}

void pipeline_flush(struct pipeline *pipeline) {
    hiredis_adapter_flush(&pipeline->adapter);
}

void pipeline_close(struct pipeline *pipeline) {
    hiredis_adapter_close(&pipeline->adapter);
}

void pipeline_drop(struct pipeline *pipeline) {
    struct list *first;

    pipeline->unsent = NULL;
    pipeline->written = 0;
    while ((first = list_first(&pipeline->sent)))
        deliver(pending_call_of(first), NULL);
    reply_memory_clear(&pipeline->replies);
}
