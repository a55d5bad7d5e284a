#include "guard-channel.h"

#include <errno.h>
#include <sys/socket.h>

bool guard_channel_send(int channel, enum guard_channel_word word, int value) {
    const struct guard_channel_message message = {.word = word, .value = value};

    return send(channel, &message, sizeof(message), MSG_NOSIGNAL) == sizeof(message);
}

bool guard_channel_receive(int channel, struct guard_channel_message *ret) {
    ssize_t n;

    do
        n = recv(channel, ret, sizeof(*ret), 0);
    while (n < 0 && errno == EINTR);
    return n == sizeof(*ret);
}
