/* One system call that moves bytes of a client, noted in the ledger by the kernel: sendmmsg(2) and
 * recvmmsg(2) write the count of bytes into memory that outlives us, before the process can be killed. So
 * the next one knows what was sent and has what was read, to the byte. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "local/recovery/ledger.h"

struct logged_io {
    int socket;
    const char *bytes;
    size_t length;
    int passed_fd;         /* goes with the first byte; -1: none */
    struct ledger *ledger; /* NULL: not noted */
    struct ledger_transfer *note;
    uint32_t slot;
};

/* These bytes are all that is unsent: with the last of them, the client knows `state`. */
void logged_io_note_whole(struct logged_io *transfer, struct ledger *ledger, uint32_t slot,
                          const struct ledger_state *state);

/* How many bytes were sent, or -1 and errno, as of send(2) without waiting. When that was noted and not all
 * were sent, the session is torn; otherwise ledger_sent() is still to be called. */
ssize_t logged_io_send(struct logged_io *transfer);

/* Receives up to `room` bytes of the session, at this position of its stream, into the ledger's scratch. How
 * many, 0 at the stream's end, or -1 and errno, as of recv(2) without waiting. */
ssize_t logged_io_receive(int socket, size_t room, struct ledger *ledger, uint32_t slot, uint64_t position,
                          instant_ns now_ns);
