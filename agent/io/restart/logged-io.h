/* Sending to and receiving from a client, recorded in the ledger by the kernel: sendmmsg(2) and recvmmsg(2)
 * write the count of bytes into the ledger's memory before the process can be killed. So the next process
 * knows to the byte what was sent, and has what was received. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "local/recovery/ledger.h"

struct logged_io {
    int socket;
    const char *bytes;
    size_t length;
    int passed_fd;         /* sent with the first byte; -1: none */
    struct ledger *ledger; /* NULL: not recorded */
    struct ledger_transfer *record;
    uint32_t slot;
};

/* Records the send: its bytes are all that is unsent, and after them the client knows `state`. */
void logged_io_record(struct logged_io *io, struct ledger *ledger, uint32_t slot,
                      const struct ledger_state *state);

/* The number of bytes, or -1 and errno, as of send(2) without waiting. When a recorded send is partial, the
 * session is torn (ledger_tear()); after a complete one the caller calls ledger_sent(). */
ssize_t logged_io_send(struct logged_io *io);

/* Receives up to `room` bytes into the ledger's scratch; `position` is that of the first one in the
 * session's stream. The number of bytes, 0 at the stream's end, or -1 and errno, as of recv(2) without
 * waiting. */
ssize_t logged_io_receive(int socket, size_t room, struct ledger *ledger, uint32_t slot, uint64_t position,
                          instant_ns now_ns);
