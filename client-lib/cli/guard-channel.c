#include "guard-channel.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>

enum { TRIES = 200, PAUSE_MS = 5 };

/* A message that is not sent leaves the other process waiting: it is tried for a second without memory. */
bool guard_channel_send(int channel, enum guard_channel_word word, int value) {
    const struct guard_channel_message message = {.word = word, .value = value};

    for (unsigned i = 0; i < TRIES; i++) {
        if (send(channel, &message, sizeof(message), MSG_NOSIGNAL) == sizeof(message))
            return true;
        if (errno != EINTR && errno != ENOMEM && errno != ENOBUFS)
            break;
        (void) poll(NULL, 0, errno == EINTR ? 0 : PAUSE_MS);
    }
    return false;
}

bool guard_channel_receive(int channel, struct guard_channel_message *ret) {
    unsigned resets = 0; /* the other process has ended without reading all: what it has sent follows */
    ssize_t n;

    do
        n = recv(channel, ret, sizeof(*ret), 0);
    while (n < 0 && (errno == EINTR || errno == ENOMEM || (errno == ECONNRESET && resets++ == 0)));
    return n == sizeof(*ret);
}
