#include "io/client/send-buffer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/secret.h"
#include "io/loop/secret-memory.h"

enum { FIRST_BYTES = 512, KEPT_BYTES = 1024 /* after send_buffer_clear() */ };

void send_buffer_init(struct send_buffer *buffer) {
    *buffer = (struct send_buffer){.fd = -1};
}

void send_buffer_deinit(struct send_buffer *buffer) {
    (void) send_buffer_detach(buffer);
    secret_memory_free(buffer->bytes, buffer->length);
    send_buffer_init(buffer);
}

/* A client that reads slowly, but reads, never leaves the buffer empty: what is sent makes room. */
static void compact(struct send_buffer *buffer) {
    size_t unsent = send_buffer_unsent(buffer);

    if (buffer->sent < unsent)
        return;
    memmove(buffer->bytes, buffer->bytes + buffer->sent, unsent);
    secret_clear(buffer->bytes + unsent, buffer->sent);
    if (buffer->fd >= 0)
        buffer->fd_at -= buffer->sent;
    buffer->sent = 0;
    buffer->length = unsent;
}

int send_buffer_append(struct send_buffer *buffer, const char *bytes, size_t length) {
    if (buffer->room - buffer->length < length && buffer->sent > 0)
        compact(buffer);
    if (buffer->room - buffer->length < length) {
        size_t room = buffer->room ? buffer->room : FIRST_BYTES;
        while (room - buffer->length < length)
            room *= 2;
        char *larger = secret_memory_grow(buffer->bytes, buffer->length, room);
        if (!larger)
            return -ENOMEM;
        buffer->bytes = larger;
        buffer->room = room;
    }
    memcpy(buffer->bytes + buffer->length, bytes, length);
    buffer->length += length;
    assert(buffer->sent <= buffer->length && buffer->length <= buffer->room);
    return 0;
}

void send_buffer_attach(struct send_buffer *buffer, int fd) {
    assert(buffer->fd < 0 && fd >= 0);
    buffer->fd = fd;
    buffer->fd_at = buffer->length;
}

bool send_buffer_detach(struct send_buffer *buffer) {
    if (buffer->fd < 0)
        return false;
    (void) close(buffer->fd);
    buffer->fd = -1;
    return true;
}

struct send_buffer_part send_buffer_part(const struct send_buffer *buffer) {
    size_t end = buffer->length;
    int fd = -1;

    assert(buffer->sent < buffer->length);
    if (buffer->fd >= 0 && buffer->fd_at == buffer->sent)
        fd = buffer->fd;
    else if (buffer->fd >= 0 && buffer->fd_at < end)
        end = buffer->fd_at;
    assert(buffer->sent < end);
    return (struct send_buffer_part){.bytes = buffer->bytes + buffer->sent,
                                     .length = end - buffer->sent,
                                     .fd = fd,
                                     .whole = !buffer->begun && end == buffer->length};
}

void send_buffer_advance(struct send_buffer *buffer, size_t length) {
    const struct send_buffer_part part = send_buffer_part(buffer);

    assert(length > 0 && length <= part.length);
    buffer->sent += length;
    buffer->begun = true;
    if (part.fd >= 0)
        (void) send_buffer_detach(buffer);
}

void send_buffer_clear(struct send_buffer *buffer) {
    (void) send_buffer_detach(buffer);
    secret_clear(buffer->bytes, buffer->length);
    buffer->sent = buffer->length = 0;
    buffer->begun = false;
    if (buffer->room <= KEPT_BYTES)
        return;
    free(buffer->bytes);
    buffer->bytes = NULL;
    buffer->room = 0;
}
