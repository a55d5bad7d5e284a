#include "io/node/hiredis-adapter.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "io/node/reply-memory.h"

static void poll_write(struct hiredis_adapter *adapter, bool wanted) {
    if (adapter->polls_write == wanted || !adapter->context)
        return;
    adapter->polls_write = wanted;
    /* Fails only without memory; then nothing would ever be sent again. */
    if (poller_modify(adapter->poller, adapter->fd, EPOLLIN | (wanted ? (uint32_t) EPOLLOUT : 0u),
                      &adapter->target) < 0)
        abort();
}

static void do_nothing(void *privdata) {
    (void) privdata;
}

static void add_write(void *privdata) {
    struct hiredis_adapter *adapter = privdata;

    adapter->wants_write = true;
    if (!adapter->connected)
        poll_write(adapter, true); /* a socket becomes writable when it is connected */
}

static void delete_write(void *privdata) {
    struct hiredis_adapter *adapter = privdata;

    if (!adapter->connected || !adapter->on_writable)
        adapter->wants_write = false;
    poll_write(adapter, false);
}

/* Just before hiredis closes the socket. */
static void cleanup(void *privdata) {
    struct hiredis_adapter *adapter = privdata;

    poller_remove(adapter->poller, adapter->fd);
    adapter->context = NULL;
    adapter->connected = adapter->wants_write = adapter->polls_write = false;
}

/* hiredis reads as soon as it is connected, and fails on a reply without a request: its queue is empty. So
 * only the connect is left to hiredis. */
static void handle_read(struct hiredis_adapter *adapter) {
    if (!adapter->on_readable) {
        size_t none = 0;
        redisAsyncHandleRead(adapter->context);
        if (adapter->context &&
            reply_memory_count(&adapter->context->c, adapter->context->c.reader->len, &none) < 0)
            redisAsyncFree(adapter->context);
        return;
    }
    if (!adapter->connected)
        redisAsyncHandleWrite(adapter->context);
    if (adapter->connected && !adapter->doomed)
        adapter->on_readable(adapter);
}

static void handle_write(struct hiredis_adapter *adapter) {
    if (adapter->connected && adapter->on_writable)
        adapter->on_writable(adapter);
    else
        redisAsyncHandleWrite(adapter->context);
}

static void on_socket(struct poller_target *target, uint32_t events) {
    struct hiredis_adapter *adapter = (struct hiredis_adapter *) (void *) target;
    redisAsyncContext *context = adapter->context;

    /* hiredis 0.14 uses the context after the connect callback. */
    adapter->busy = !adapter->connected || adapter->on_readable;
    if (context && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        handle_read(adapter);
    if (context && adapter->context == context && !adapter->doomed && (events & EPOLLOUT))
        handle_write(adapter);
    adapter->busy = false;
    if (adapter->doomed && adapter->context == context)
        redisAsyncFree(context);
    hiredis_adapter_flush(adapter);
}

void hiredis_adapter_init(struct hiredis_adapter *adapter, struct poller *poller) {
    *adapter = (struct hiredis_adapter){.target.on_events = on_socket, .poller = poller};
}

int hiredis_adapter_attach(struct hiredis_adapter *adapter, redisAsyncContext *context) {
    assert(!adapter->context);

    int r = poller_add(adapter->poller, context->c.fd, EPOLLIN, &adapter->target);
    if (r < 0)
        return r;
    adapter->context = context;
    adapter->fd = context->c.fd;
    adapter->connected = adapter->wants_write = adapter->polls_write = adapter->doomed = false;
    context->ev.data = adapter;
    context->ev.addRead = do_nothing; /* reading is always on */
    context->ev.delRead = do_nothing;
    context->ev.addWrite = add_write;
    context->ev.delWrite = delete_write;
    context->ev.cleanup = cleanup;
    return 0;
}

void hiredis_adapter_connected(struct hiredis_adapter *adapter) {
    adapter->connected = true;
}

void hiredis_adapter_want_write(struct hiredis_adapter *adapter, bool wanted) {
    adapter->wants_write = wanted;
    if (!wanted)
        poll_write(adapter, false);
}

void hiredis_adapter_close(struct hiredis_adapter *adapter) {
    if (adapter->busy)
        adapter->doomed = true;
    else if (adapter->context)
        redisAsyncFree(adapter->context);
}

void hiredis_adapter_flush(struct hiredis_adapter *adapter) {
    if (!adapter->connected || !adapter->wants_write || adapter->polls_write)
        return;
    handle_write(adapter);
    if (adapter->wants_write)
        poll_write(adapter, true); /* the socket is full */
}
