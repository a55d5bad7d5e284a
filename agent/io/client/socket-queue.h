/* The queues of a Unix stream socket, see unix(7), SIOCINQ and SIOCOUTQ. */
#pragma once

#include <linux/sockios.h>
#include <stdbool.h>
#include <sys/ioctl.h>

/* Whether the peer has read everything; also true if the kernel does not report it. The kernel counts its
 * own overhead, and one byte until it has seen that the last bytes were read. */
static inline bool socket_queue_is_read(int fd) {
    int unread = 0;

    return ioctl(fd, SIOCOUTQ, &unread) < 0 || unread <= 1;
}

/* Whether nothing is left to receive; false if the kernel does not report it. */
static inline bool socket_queue_is_empty(int fd) {
    int unread = 0;

    return ioctl(fd, SIOCINQ, &unread) == 0 && unread == 0;
}
