#include "io/node/handshake.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "io/node/tls.h"

enum { AUTH_BYTES_MAX = 96 /* but for user and password */, REASON_BYTES = 128 };

void handshake_set_options(int fd) {
    const int one = 1;
    const unsigned user_timeout_ms = 5000;

    (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void) setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    (void) setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof(user_timeout_ms));
}

int handshake_load_tls(const struct config_node *node, struct tls **tls, char *reason, size_t size) {
    char why[REASON_BYTES];
    const char *option;

    if (!node->tls || *tls)
        return 0;
    int r = tls_new(node, &option, why, sizeof(why), tls);
    if (r < 0)
        (void) snprintf(reason, size, "%s: %s", option, why);
    return r;
}

int handshake_tls(const struct config_node *node, struct tls **tls, struct redisContext *context,
                  char *reason, size_t size) {
    int r = handshake_load_tls(node, tls, reason, size);

    return r < 0 ? r : tls_begin(*tls, context, reason, size);
}

int handshake_format(const struct config_node *node, char **ret) {
    assert(node->password);

    /* Not by hiredis, which leaves copies on the heap. */
    size_t user = node->user ? strlen(node->user) : 0, password = strlen(node->password);
    size_t room = user + password + AUTH_BYTES_MAX;
    char *bytes = malloc(room);
    if (!bytes)
        return -ENOMEM;
    int length = node->user ? snprintf(bytes, room, "*3\r\n$4\r\nAUTH\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", user,
                                       node->user, password, node->password)
                            : snprintf(bytes, room, "*2\r\n$4\r\nAUTH\r\n$%zu\r\n%s\r\n", password,
                                       node->password);
    assert(length > 0 && (size_t) length < room);
    *ret = bytes;
    return length;
}

int handshake_error_length(const struct config_node *node, const char *error) {
    const char *arguments = strstr(error, ", with args beginning with"), *password = NULL;
    size_t length = arguments ? (size_t) (arguments - error) : strlen(error);

    /* In any other form, too. */
    if (node->password && node->password[0] != '\0')
        password = strstr(error, node->password);
    if (password && (size_t) (password - error) < length)
        length = (size_t) (password - error);
    return (int) length;
}
