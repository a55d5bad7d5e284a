/* The service manager's socket, see sd_notify(3). A manager that reads no messages (while it reloads all
 * units, say) takes nothing: sd_notify() would wait for it, and so would all clients. These messages don't
 * wait. */
#pragma once

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

struct service_manager {
    int fd; /* -1: there is none */
    struct sockaddr_un address;
    socklen_t length;
};

/* 0, -ENOTCONN without a service manager ($NOTIFY_SOCKET), or another negative errno. */
int service_manager_open(struct service_manager *ret);

/* Idempotent. */
void service_manager_close(struct service_manager *manager);

/* Sends a message, with a descriptor or -1. 0; -EAGAIN: the manager is slow; or another negative errno. */
int service_manager_send(const struct service_manager *manager, const char *text, int fd);
