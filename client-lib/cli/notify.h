/* Messages to the service manager, as sd_notify(3) sends them, without its library. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct notify {
    int fd; /* -1: no service manager */
    struct sockaddr_un address;
    socklen_t length;
    int64_t watchdog_ns; /* WATCHDOG=1 is due at least this often; 0: not */
};

/* Takes $NOTIFY_SOCKET and $WATCHDOG_USEC out of the environment: they are not for children. False when
 * $NOTIFY_SOCKET is no usable address; then, and when it is not set, nothing is sent. */
bool notify_init(struct notify *notify);

void notify_deinit(struct notify *notify);

/* Sends "STATE\nSTATUS=text"; either may be NULL. The text becomes one line. False when the message was not
 * accepted in time; true without a service manager. */
bool notify_send(const struct notify *notify, const char *state, const char *text);
