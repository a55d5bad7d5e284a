#include "io/node/handshake.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "io/node/tls.h"

void handshake_set_options(int fd) {
    const int one = 1;
    const unsigned user_timeout_ms = 5000;

    (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void) setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    (void) setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof(user_timeout_ms));
}

int handshake_tls(const struct config_node *node, struct tls **tls, struct redisContext *context,
                  char *reason, size_t size) {
    const char *option;
    int r = *tls ? 0 : tls_new(node, &option, reason, size, tls);

    return r < 0 ? r : tls_begin(*tls, context, reason, size);
}

int handshake_format(const struct config_node *node, char **ret) {
    assert(node->password);

    return node->user ? redisFormatCommand(ret, "AUTH %s %s", node->user, node->password)
                      : redisFormatCommand(ret, "AUTH %s", node->password);
}
