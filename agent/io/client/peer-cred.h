/* The process that has connected, see unix(7), SO_PEERCRED. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

/* Process, user and group at the time of connect(2). 0, or a negative errno: the client must be rejected. */
int peer_cred_identify(int fd, struct ucred *ret);

/* The supplementary groups at that time, to be freed; NULL: none. 0, or a negative errno: unknown. */
int peer_cred_groups(int fd, gid_t **ret, size_t *ret_n);

/* A pidfd, which becomes readable when the process ends; -1: the process has ended, or the kernel has none;
 * *logged is set when that is logged, once. 0; -EMFILE, -ENFILE or -ENOMEM: there is no room for it. */
int peer_cred_open(int fd, pid_t pid, bool *logged, int *ret);

/* Whether the process has certainly ended; one of another pid namespace (pid 0) counts as alive. */
bool peer_cred_is_dead(pid_t pid);
