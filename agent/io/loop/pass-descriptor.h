/* A descriptor passed with a message on a Unix socket, see unix(7), SCM_RIGHTS. */
#pragma once

#include <string.h>
#include <sys/socket.h>

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
