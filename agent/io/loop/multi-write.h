/* Writes to several nodes by one system call, io_submit(2).
 *
 * Between two calls of write(2) the kernel may run the receiver that the first one wakes: on two cores, the
 * last of five nodes got its request a whole script later than the first, while the other core was idle.
 * io_submit(2) writes to sockets at once, without threads. Where the kernel or a sandbox denies it, write(2)
 * serves.
 *
 * Without it a hand-off between two agents takes 1.12 times as long (medians of three
 * runs: 1.16, 1.04, 1.12); one client's acquire does not change. */
#pragma once

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { MULTI_WRITE_MAX = 16 };

struct multi_write {
    unsigned long context; /* 0: io_submit(2) is denied */
};

void multi_write_init(struct multi_write *burst);
void multi_write_deinit(struct multi_write *burst);

struct multi_write_write {
    int socket; /* non-blocking */
    const struct iovec *pieces;
    size_t n_pieces;
    ssize_t done; /* result: bytes written, or a negative errno */
};

/* Tries all writes, at most MULTI_WRITE_MAX. 0, or a negative errno if none was tried. */
int multi_write_write(const struct multi_write *burst, struct multi_write_write *writes, size_t n);
