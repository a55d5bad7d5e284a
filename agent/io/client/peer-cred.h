/* The process at a client's end of a connection. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

/* Who connected: process, user and group then. Who can't be identified is denied: 0 or a negative errno. */
int peer_cred_identify(int fd, struct ucred *ret);

/* A descriptor that polls readable when the process ends; -1 when the kernel has none to give, which is told
 * once (`told`). */
int peer_cred_open(int fd, pid_t pid, bool *told);

/* Whether it has ended for sure: a process that is not seen from here counts as alive. */
bool peer_cred_is_dead(pid_t pid);
