/* The systemd unit of a client's process. */
#pragma once

#include <sys/types.h>

/* The system unit to which the process belongs by its cgroup: of processes of a user's own manager
 * "user@UID.service", whatever the user calls its units. To be freed; NULL: none. 0, or a negative errno: it
 * is unknown, for example because the process may be another one by now. */
int peer_unit_read(pid_t pid, uid_t uid, int pid_fd, char **ret);
