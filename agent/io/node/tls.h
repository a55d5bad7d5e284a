/* TLS for the connections to one node: the CA, the client certificate with its key, and the name that the
 * server's certificate must have. Uses hiredis_ssl; a build without it has tls-none.c, and the configuration
 * rejects the options.
 *
 * A struct tls belongs to one thread, and to the successive connections of one owner. Nothing here blocks:
 * the handshake proceeds with the socket, and the first commands follow. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "config/config-node.h"

struct redisContext;
struct tls;

/* Whether this build has TLS. */
bool tls_built_in(void);

/* Loads the node's files. 0, or -EINVAL with the wrong option and the reason. */
int tls_new(const struct config_node *node, const char **ret_option, char *reason, size_t size,
            struct tls **ret);

/* For another owner in the same thread: with the same files, which are not loaded again. NULL without
 * memory. */
struct tls *tls_share(const struct tls *tls);

/* NULL is fine. Returns NULL. */
struct tls *tls_free(struct tls *tls);

/* Begins the handshake on a connection. Files that changed are loaded again; if they are wrong, the former
 * ones stay in use, with a warning. 0, or a negative errno with the reason. */
int tls_begin(struct tls *tls, struct redisContext *context, char *reason, size_t size);

/* In the disconnect callback: whether TLS ended the connection, and the reason. Call at each end: this also
 * clears the thread's error queue of OpenSSL, which the next connection would see. */
bool tls_explain(struct tls *tls, char *reason, size_t size);
