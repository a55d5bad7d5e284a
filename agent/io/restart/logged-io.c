#include "io/restart/logged-io.h"

#include <assert.h>
#include <sys/socket.h>

#include "io/loop/pass-descriptor.h"

static_assert(sizeof(struct mmsghdr) <= LEDGER_MESSAGE_BYTES, "the kernel's note fits into the ledger");

void logged_io_note_whole(struct logged_io *transfer, struct ledger *ledger, uint32_t slot,
                          const struct ledger_state *state) {
    transfer->ledger = ledger;
    transfer->slot = slot;
    transfer->note = ledger_send(ledger, slot, state, transfer->length);
}

/* The kernel counts in *message. */
static ssize_t send_counted(const struct logged_io *transfer, struct mmsghdr *message) {
    union pass_descriptor_room passing = {0};
    struct iovec bytes = {.iov_base = (char *) (uintptr_t) transfer->bytes, .iov_len = transfer->length};

    *message = (struct mmsghdr){.msg_hdr = {.msg_iov = &bytes, .msg_iovlen = 1}};
    if (transfer->passed_fd >= 0)
        pass_descriptor(&message->msg_hdr, &passing, transfer->passed_fd);
    if (sendmmsg(transfer->socket, message, 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return -1;
    return (ssize_t) message->msg_len;
}

ssize_t logged_io_send(struct logged_io *transfer) {
    struct mmsghdr unnoted;

    if (!transfer->ledger && transfer->passed_fd < 0)
        return send(transfer->socket, transfer->bytes, transfer->length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (!transfer->ledger)
        return send_counted(transfer, &unnoted);
    ssize_t n = send_counted(transfer, (void *) transfer->note->message);
    if (n >= 0 && (size_t) n == transfer->length)
        return n;
    if (n > 0)
        ledger_tear(transfer->ledger, transfer->slot);
    ledger_not_sent(transfer->ledger);
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
