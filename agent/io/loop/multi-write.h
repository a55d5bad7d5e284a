/* Writes to several sockets in one system call: to nodes, and to clients.
 *
 * Between two calls of write(2) the kernel may let run whom the first one has woken: on two cores the last
 * of five nodes got its request a whole script later than the first, while the other core had nothing to do.
 * Linux has one call for many sockets that needs neither threads nor waiting: io_submit(2) writes to a
 * socket at once. Where it can't be had, nothing is lost: what was not written here, write(2) writes. */
#pragma once

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { MULTI_WRITE_MAX = 16 };

struct multi_write {
    unsigned long context; /* 0: this kernel, or sandbox, has none */
};

void multi_write_init(struct multi_write *burst);
void multi_write_deinit(struct multi_write *burst);

struct multi_write_write {
    int socket; /* that never blocks */
    const struct iovec *pieces;
    size_t n_pieces;
    ssize_t done; /* afterwards: bytes written, or a negative errno */
};

/* Tries each of them, at most MULTI_WRITE_MAX. 0, or a negative errno when none was tried. */
int multi_write_write(const struct multi_write *burst, struct multi_write_write *writes, size_t n);
