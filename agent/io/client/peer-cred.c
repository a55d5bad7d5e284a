#include "io/client/peer-cred.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "io/loop/log.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

int peer_cred_identify(int fd, struct ucred *ret) {
    struct ucred peer = {0};
    socklen_t length = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
        return -errno;
    if (length != sizeof(peer) || peer.pid <= 0)
        return -EPERM;
    *ret = peer;
    return 0;
}

int peer_cred_groups(int fd, gid_t **ret, size_t *ret_n) {
    _cleanup_free_ gid_t *groups = NULL;
    socklen_t bytes = 0;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &bytes) < 0) {
        if (errno != ERANGE)
            return -errno;
        groups = malloc(bytes);
        if (!groups)
            return -ENOMEM;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &bytes) < 0)
            return -errno;
    }
    *ret_n = groups ? bytes / sizeof(groups[0]) : 0;
    *ret = groups;
    groups = NULL;
    return 0;
}

/* Linux 6.5 to 6.15 have no pidfd of a process that has ended. */
static bool has_ended(int error) {
    return error == ESRCH || error == EINVAL || error == ENODATA;
}

int peer_cred_open(int fd, pid_t pid, bool *logged, int *ret) {
    int pid_fd = -1;
    socklen_t length = sizeof(pid_fd);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pid_fd, &length) < 0) {
        if (has_ended(errno)) { /* its pid may be another process's by now */
            *ret = -1;
            return 0;
        }
        pid_fd = (int) syscall(SYS_pidfd_open, pid, 0);
    }
    if (pid_fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
        return -errno;
    if (pid_fd < 0 && errno != ESRCH && !*logged) {
        log_warning("clients: can't watch their processes (pidfd_open: %s); leases are released when "
                    "connections close",
                    strerror(errno));
        *logged = true;
    }
    *ret = pid_fd;
    return 0;
}

bool peer_cred_is_dead(pid_t pid) {
    return pid > 0 && kill(pid, 0) < 0 && errno == ESRCH;
}
