/* The listening Unix socket: made or inherited, and watched. */
#pragma once

#include <sys/types.h>
#include <systemd/sd-event.h>

struct listener;

/* Binds and listens on `path` with this mode and group ((gid_t) -1: the process's own). A stale socket file,
 * on which nobody listens, is replaced. Returns the descriptor, or a negative errno as of
 * listener_remove_stale(). */
int listener_bind(const char *path, mode_t mode, gid_t group);

/* Removes a socket file on which nobody listens, and nothing else. 0, also when nothing is there;
 * -EADDRINUSE: somebody listens there; -ENOTSOCK: something else is there; or another negative errno. */
int listener_remove_stale(const char *path);

/* Sets the socket file's mode and group. 0 or a negative errno. */
int listener_set_access(const char *path, mode_t mode, gid_t group);

/* Takes the listening descriptor over in any case; watches nothing before listener_enable(). `on_client`
 * gets each accepted connection and owns it; `on_full` one that can't be served, since descriptors have run
 * out. 0 or a negative errno. */
int listener_new(sd_event *event, int fd, void (*on_client)(void *userdata, int fd),
                 void (*on_full)(void *userdata, int fd), void *userdata, struct listener **ret);
int listener_enable(struct listener *listener);
struct listener *listener_free(struct listener *listener);
