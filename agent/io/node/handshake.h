/* What every connection to a node begins with, be it for commands or for messages: the socket's options, TLS
 * and the password. */
#pragma once

#include <stddef.h>

#include "config/config.h"

struct redisContext;
struct tls;

void handshake_set_options(int fd);

/* Begins the handshake on a connection that stands. `tls` is made the first time, and for the connections
 * of one place one after the other. 0, or a negative errno and the reason. */
int handshake_tls(const struct config_node *node, struct tls **tls, struct redisContext *context,
                  char *reason, size_t size);

/* AUTH as it goes over the wire, for a node with a password: its length, and the bytes to be given to
 * redisFreeCommand(). Negative: out of memory. */
int handshake_format(const struct config_node *node, char **ret);
