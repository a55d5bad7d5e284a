/* The output of a connection: its bytes, the position up to which they are sent, and a descriptor that
 * goes with one of them (SCM_RIGHTS). Without I/O: the caller sends part by part and reports how much was
 * sent. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct send_buffer {
    char *bytes;
    size_t sent, length, room; /* sent <= length <= room */
    bool begun;                /* a part was sent since the buffer was empty */
    int fd;                    /* owned; -1: none */
    size_t fd_at;              /* the byte that takes it along */
};

/* What one system call sends. */
struct send_buffer_part {
    const char *bytes;
    size_t length; /* at least 1 */
    int fd;        /* goes with the first byte; -1: none */
    bool whole;    /* the part is everything: nothing was sent before, nothing is left */
};

void send_buffer_init(struct send_buffer *buffer);
void send_buffer_deinit(struct send_buffer *buffer);

static inline size_t send_buffer_unsent(const struct send_buffer *buffer) {
    return buffer->length - buffer->sent;
}

/* 0, or -ENOMEM and nothing is appended. */
int send_buffer_append(struct send_buffer *buffer, const char *bytes, size_t length);

/* Attaches a descriptor to the next byte that is appended, and owns it. At most one at a time. */
void send_buffer_attach(struct send_buffer *buffer, int fd);

/* Closes the descriptor: the bytes go without it. False when there is none. */
bool send_buffer_detach(struct send_buffer *buffer);

/* The next part; some bytes must be unsent. Valid until the buffer changes. */
struct send_buffer_part send_buffer_part(const struct send_buffer *buffer);

/* `length` bytes of the part were sent, and the descriptor with the first. */
void send_buffer_advance(struct send_buffer *buffer, size_t length);

/* Drops bytes, position and descriptor, and clears the bytes. Keeps little memory. */
void send_buffer_clear(struct send_buffer *buffer);
