/* What a connection has to send, and how far it is sent. The buffer alone owns both, and the descriptor that
 * goes with one of the bytes: so no caller can drop the bytes and keep a position in them, or send a byte
 * that nobody has put here. Without I/O: the caller sends each part, and tells how much of it went. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct send_buffer {
    char *bytes;
    size_t sent, length, room; /* sent <= length <= room */
    int fd;                    /* owned; -1: none */
    size_t fd_at;              /* it goes with this byte */
};

/* The bytes that go by one call. */
struct send_buffer_part {
    const char *bytes;
    size_t length; /* at least 1 */
    int fd;        /* goes with the first byte; -1: none */
    bool whole;    /* nothing of what is in the buffer was sent before, and nothing is left behind it */
};

void send_buffer_init(struct send_buffer *buffer);
void send_buffer_deinit(struct send_buffer *buffer);

static inline size_t send_buffer_unsent(const struct send_buffer *buffer) {
    return buffer->length - buffer->sent;
}

/* Appends bytes. */
void send_buffer_append(struct send_buffer *buffer, const char *bytes, size_t length);

/* The next byte that is appended takes the descriptor along, which is the buffer's from now on. At most one
 * at a time. */
void send_buffer_attach(struct send_buffer *buffer, int fd);

/* The descriptor stays here: the bytes go without it. False when there is none. */
bool send_buffer_detach(struct send_buffer *buffer);

/* What is to be sent next; something must be unsent. Valid until the buffer changes. */
struct send_buffer_part send_buffer_part(const struct send_buffer *buffer);

/* `length` bytes of the part were sent; its descriptor went with the first. */
void send_buffer_advance(struct send_buffer *buffer, size_t length);

/* Forgets all of it: what is unsent, the position, the descriptor. Keeps a little memory for the next. */
void send_buffer_clear(struct send_buffer *buffer);
