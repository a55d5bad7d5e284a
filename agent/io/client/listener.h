/* The listening Unix socket: bound by the agent or passed by systemd, and accepted from. */
#pragma once

#include <sys/types.h>
#include <systemd/sd-event.h>

#include "local/work-share.h"

struct listener;

/* Listens on `path` with this mode and group ((gid_t) -1: the process's own), in place of a stale socket
 * file. A descriptor, or a negative errno as of listener_remove_stale(). */
int listener_bind(const char *path, mode_t mode, gid_t group);

/* Removes a socket file where no process listens, or this one. 0, also without a file; -EADDRINUSE: another
 * process listens there; -ENOTSOCK: the file is no socket; or another negative errno. */
int listener_remove_stale(const char *path);

/* Sets mode and group of the socket file. 0 or a negative errno. */
int listener_set_access(const char *path, mode_t mode, gid_t group);

/* Owns the listening descriptor in any case; accepts nothing before listener_enable(). `on_client` gets each
 * connection, `on_full` a connection that can't be served for want of descriptors; each owns it. `share`
 * sets the rate while several users ask, and must stay. 0 or a negative errno. */
int listener_new(sd_event *event, int fd, const struct work_share *share,
                 void (*on_client)(void *userdata, int fd), void (*on_full)(void *userdata, int fd),
                 void *userdata, struct listener **ret);
int listener_enable(struct listener *listener);
struct listener *listener_free(struct listener *listener);
