#include "io/loop/service-manager.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/loop/pass-descriptor.h"

int service_manager_open(struct service_manager *ret) {
    const char *path = getenv("NOTIFY_SOCKET");
    size_t length = path ? strlen(path) : 0;
    struct service_manager manager = {.address.sun_family = AF_UNIX};

    if (length < 2 || (path[0] != '/' && path[0] != '@') || length >= sizeof(manager.address.sun_path))
        return -ENOTCONN;
    memcpy(manager.address.sun_path, path, length);
    if (path[0] == '@')
        manager.address.sun_path[0] = '\0';
    manager.length = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + length);
    manager.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (manager.fd < 0)
        return -errno;
    *ret = manager;
    return 0;
}

void service_manager_close(struct service_manager *manager) {
    if (manager->fd >= 0)
        (void) close(manager->fd);
    manager->fd = -1;
}

int service_manager_send(const struct service_manager *manager, const char *text, int fd) {
    union pass_descriptor_room passing = {0};
    struct iovec bytes = {.iov_base = (char *) (uintptr_t) text, .iov_len = strlen(text)};
    struct msghdr message = {.msg_name = (void *) (uintptr_t) &manager->address,
                             .msg_namelen = manager->length,
                             .msg_iov = &bytes,
                             .msg_iovlen = 1};

    if (fd >= 0)
        pass_descriptor(&message, &passing, fd);
    if (sendmsg(manager->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
        return 0;
    return errno == EINTR || errno == ENOBUFS || errno == ENOMEM ? -EAGAIN : -errno;
}
