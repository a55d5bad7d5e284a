#include "io/restart/logged-io.h"

#include <assert.h>
#include <sys/socket.h>

#include "io/loop/pass-descriptor.h"

static_assert(sizeof(struct mmsghdr) <= LEDGER_MESSAGE_BYTES, "the kernel's count fits into the ledger");

void logged_io_record(struct logged_io *io, struct ledger *ledger, uint32_t slot,
                      const struct ledger_state *state) {
    io->ledger = ledger;
    io->slot = slot;
    io->record = ledger_send(ledger, slot, state, io->length);
}

/* The kernel writes the number of bytes into *message. */
static ssize_t send_counted(const struct logged_io *io, struct mmsghdr *message) {
    union pass_descriptor_room passing = {0};
    struct iovec bytes = {.iov_base = (char *) (uintptr_t) io->bytes, .iov_len = io->length};

    *message = (struct mmsghdr){.msg_hdr = {.msg_iov = &bytes, .msg_iovlen = 1}};
    if (io->passed_fd >= 0)
        pass_descriptor(&message->msg_hdr, &passing, io->passed_fd);
    if (sendmmsg(io->socket, message, 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return -1;
    return (ssize_t) message->msg_len;
}

ssize_t logged_io_send(struct logged_io *io) {
    struct mmsghdr unrecorded;

    if (!io->ledger && io->passed_fd < 0)
        return send(io->socket, io->bytes, io->length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (!io->ledger)
        return send_counted(io, &unrecorded);
    ssize_t n = send_counted(io, (void *) io->record->message);
    if (n >= 0 && (size_t) n == io->length)
        return n;
    if (n > 0)
        ledger_tear(io->ledger, io->slot);
    ledger_not_sent(io->ledger);
    return n;
}

ssize_t logged_io_receive(int socket, size_t room, struct ledger *ledger, uint32_t slot, uint64_t position,
                          instant_ns now_ns) {
    struct iovec bytes = {.iov_base = ledger->header->scratch, .iov_len = room};
    struct mmsghdr *message = (void *) ledger_receive(ledger, slot, position)->message;

    *message = (struct mmsghdr){.msg_hdr = {.msg_iov = &bytes, .msg_iovlen = 1}};
    ssize_t n = recvmmsg(socket, message, 1, MSG_DONTWAIT, NULL) < 0 ? -1 : (ssize_t) message->msg_len;
    ledger_received(ledger, slot, position, n > 0 ? (size_t) n : 0, now_ns);
    return n;
}
