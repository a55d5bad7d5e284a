#include "notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/* A service manager that does not read must not delay the end before the deadline. */
enum { SEND_TIMEOUT_US = 200000 };

static int64_t watchdog_ns(void) {
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    bool ours = usec && (!pid || strtoll(pid, NULL, 10) == getpid());
    long long us = ours ? strtoll(usec, NULL, 10) : 0;

    (void) unsetenv("WATCHDOG_USEC");
    (void) unsetenv("WATCHDOG_PID");
    return us > 0 && us <= INT32_MAX * INT64_C(1000) ? us * 1000 : 0;
}

bool notify_init(struct notify *notify) {
    const char *path = getenv("NOTIFY_SOCKET");
    const struct timeval timeout = {.tv_usec = SEND_TIMEOUT_US};

    *notify = (struct notify){.fd = -1, .address.sun_family = AF_UNIX};
    if (!path || path[0] == '\0')
        return true;
    size_t length = strlen(path);
    if ((path[0] != '/' && path[0] != '@') || length >= sizeof(notify->address.sun_path))
        return false;
    memcpy(notify->address.sun_path, path, length);
    if (path[0] == '@')
        notify->address.sun_path[0] = '\0'; /* an abstract name has no terminating NUL */
    else
        length++;
    notify->length = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + length);
    notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (notify->fd < 0)
        return false;
    (void) setsockopt(notify->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    (void) unsetenv("NOTIFY_SOCKET");
    notify->watchdog_ns = watchdog_ns();
    return true;
}

void notify_deinit(struct notify *notify) {
    if (notify->fd >= 0)
        (void) close(notify->fd);
    notify->fd = -1;
}

bool notify_send(const struct notify *notify, const char *state, const char *text) {
    char message[1024];
    ssize_t n;

    if (notify->fd < 0)
        return true;
    int head = snprintf(message, sizeof(message), "%s%s%s", state ? state : "", state && text ? "\n" : "",
                        text ? "STATUS=" : "");
    int length = head + snprintf(message + head, sizeof(message) - (size_t) head, "%s", text ? text : "");
    if (length >= (int) sizeof(message))
        length = (int) sizeof(message) - 1;
    /* The text contains other programs' strings: a line break in them would begin another message. */
    for (int i = head; i < length; i++)
        if ((unsigned char) message[i] < ' ')
            message[i] = ' ';
    do
        n = sendto(notify->fd, message, (size_t) length, MSG_NOSIGNAL,
                   (const struct sockaddr *) &notify->address, notify->length);
    while (n < 0 && errno == EINTR);
    return n == length;
}
