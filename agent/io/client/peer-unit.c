#include "io/client/peer-unit.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <systemd/sd-login.h>

#include "base/cleanup.h"

/* True if the process has not ended; then its pid is still its own. */
static bool is_alive(int pid_fd) {
    struct pollfd end = {.fd = pid_fd, .events = POLLIN};

    return poll(&end, 1, 0) == 0;
}

/* Kernels before 6.5 have no pidfd of the peer: if the peer ended before the agent opened one, its pid may
 * be another process's by now, even of another user. (The unit of the user's own process is no secret.) */
static bool is_of_user(pid_t pid, uid_t uid) {
    struct stat status;
    char path[32];

    (void) snprintf(path, sizeof(path), "/proc/%ld", (long) pid);
    return stat(path, &status) == 0 && status.st_uid == uid;
}

int peer_unit_read(pid_t pid, uid_t uid, int pid_fd, char **ret) {
    _cleanup_free_ char *unit = NULL;
    int r = sd_pid_get_unit(pid, &unit);

    /* The process is in no unit, or there are no units here. */
    if (r < 0 && r != -ENODATA && r != -ENOMEDIUM)
        return r;
    if (!is_of_user(pid, uid) || !is_alive(pid_fd))
        return -ESRCH;
    *ret = r < 0 ? NULL : unit;
    unit = r < 0 ? unit : NULL;
    return 0;
}
