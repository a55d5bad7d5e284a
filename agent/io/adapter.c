#include "io/adapter.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "io/replies.h"

static void poll_write(struct adapter *adapter, bool wanted) {
    if (adapter->polls_write == wanted || !adapter->context)
        return;
    adapter->polls_write = wanted;
    /* Can only fail for want of memory; then nothing would ever be sent again. */
    if (poller_modify(adapter->poller, adapter->fd, EPOLLIN | (wanted ? (uint32_t) EPOLLOUT : 0u),
                      &adapter->target) < 0)
        abort();
}

static void do_nothing(void *privdata) {
    (void) privdata;
}

static void add_write(void *privdata) {
    struct adapter *adapter = privdata;

    adapter->wants_write = true;
    if (!adapter->connected)
        poll_write(adapter, true); /* the connection's success shows as writability */
}

static void delete_write(void *privdata) {
    struct adapter *adapter = privdata;

    if (!adapter->connected || !adapter->on_writable)
        adapter->wants_write = false;
    poll_write(adapter, false);
}

/* Just before hiredis closes the socket. */
static void cleanup(void *privdata) {
    struct adapter *adapter = privdata;

    poller_remove(adapter->poller, adapter->fd);
    adapter->context = NULL;
    adapter->connected = adapter->wants_write = adapter->polls_write = false;
}

/* hiredis would read as soon as it is connected, and not forgive what comes unasked: its queue is empty. */
static void handle_read(struct adapter *adapter) {
    if (!adapter->on_readable) {
        size_t none = 0;
        redisAsyncHandleRead(adapter->context);
        if (adapter->context &&
            replies_count(&adapter->context->c, adapter->context->c.reader->len, &none) < 0)
            redisAsyncFree(adapter->context);
        return;
    }
    if (!adapter->connected)
        redisAsyncHandleWrite(adapter->context);
    if (adapter->connected)
        adapter->on_readable(adapter);
}

static void handle_write(struct adapter *adapter) {
    if (adapter->connected && adapter->on_writable)
        adapter->on_writable(adapter);
    else
        redisAsyncHandleWrite(adapter->context);
}

static void on_socket(struct poll_target *target, uint32_t events) {
    struct adapter *adapter = (struct adapter *) (void *) target;
    redisAsyncContext *context = adapter->context;

    if (context && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        handle_read(adapter);
    if (context && adapter->context == context && (events & EPOLLOUT))
        handle_write(adapter);
    adapter_flush(adapter);
}

void adapter_init(struct adapter *adapter, struct poller *poller) {
    *adapter = (struct adapter){.target.on_events = on_socket, .poller = poller};
}

int adapter_attach(struct adapter *adapter, redisAsyncContext *context) {
    assert(!adapter->context);

    int r = poller_add(adapter->poller, context->c.fd, EPOLLIN, &adapter->target);
    if (r < 0)
        return r;
    adapter->context = context;
    adapter->fd = context->c.fd;
    adapter->connected = adapter->wants_write = adapter->polls_write = false;
    context->ev.data = adapter;
    context->ev.addRead = do_nothing; /* reading is always on */
    context->ev.delRead = do_nothing;
    context->ev.addWrite = add_write;
    context->ev.delWrite = delete_write;
    context->ev.cleanup = cleanup;
    return 0;
}

void adapter_connected(struct adapter *adapter) {
    adapter->connected = true;
}

void adapter_want_write(struct adapter *adapter, bool wanted) {
    adapter->wants_write = wanted;
    if (!wanted)
        poll_write(adapter, false);
}

void adapter_flush(struct adapter *adapter) {
    if (!adapter->connected || !adapter->wants_write || adapter->polls_write)
        return;
    handle_write(adapter);
    if (adapter->wants_write)
        poll_write(adapter, true); /* the socket is full */
}
