/* A descriptor passed with a message on a Unix socket, see unix(7), SCM_RIGHTS. */
#pragma once

#include <string.h>
#include <sys/socket.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

union pass_descriptor_room {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

/* Attaches the descriptor. `room`, zeroed, must live until the message is sent. */
static inline void pass_descriptor(struct msghdr *message, union pass_descriptor_room *room, int fd) {
    message->msg_control = room;
    message->msg_controllen = sizeof(room->bytes);
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof(int));
}

/* The kernel passes no descriptors to this socket from now on, nor to those that a listening socket makes:
 * the sender gets EPERM. The receiver would close them in its own thread, and may wait there: for a TCP
 * socket with SO_LINGER, say. Without an effect before Linux 6.16. */
static inline void pass_descriptor_refuse(int fd) {
    const int off = 0;

    (void) setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));
}
