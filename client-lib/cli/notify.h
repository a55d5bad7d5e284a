/* Tells the service manager how we are, as sd_notify(3) does, without its library. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct notify {
    int fd; /* -1: nobody wants to know */
    struct sockaddr_un address;
    socklen_t length;
    int64_t watchdog_ns; /* how often it wants WATCHDOG=1 at least; 0: it does not */
};

/* Takes $NOTIFY_SOCKET and $WATCHDOG_USEC, and out of the environment: they are not for our children. False
 * when it names nothing that we can send to; then, and when it is not set, nothing is sent. */
bool notify_init(struct notify *notify);

void notify_deinit(struct notify *notify);

/* Sends "STATE\nSTATUS=text", of which either may be NULL. The text becomes one line. False when it was not
 * taken in time; true also when nobody wants to know. */
bool notify_send(const struct notify *notify, const char *state, const char *text);
