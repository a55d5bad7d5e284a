/* How each connection to a node begins, for commands or for messages: socket options, TLS, password. */
#pragma once

#include <stddef.h>

#include "config/config.h"

struct redisContext;
struct tls;

void handshake_set_options(int fd);

/* Loads the files for TLS, if the node has TLS and *tls is NULL. To be called early, too: they may be
 * damaged later. 0, or a negative errno and the reason. */
int handshake_load_tls(const struct config_node *node, struct tls **tls, char *reason, size_t size);

/* Begins TLS on a connection. *tls is loaded if it is NULL, and serves the successive connections of one
 * owner. 0, or a negative errno and the reason. */
int handshake_tls(const struct config_node *node, struct tls **tls, struct redisContext *context,
                  char *reason, size_t size);

/* The AUTH command in RESP, for a node with a password. Returns its length, or a negative number without
 * memory. The caller frees *ret by secret_memory_free(). */
int handshake_format(const struct config_node *node, char **ret);

/* Of the server's error in answer to AUTH: how many bytes may be shown. A server that does not know the
 * command repeats its arguments, and so the password. */
int handshake_error_length(const struct config_node *node, const char *error);
