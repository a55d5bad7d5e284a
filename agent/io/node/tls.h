/* TLS on the way to one node: whom we trust (the CA), who we are (a certificate with its key), and whose
 * name the server must show. hiredis_ssl does the work beneath the commands; where the build has none,
 * tls-none.c stands here, and the configuration says that it can't be had.
 *
 * A struct tls belongs to one thread, and to the connections of one node, one after the other. Nothing in
 * here waits: the handshake goes on as the socket allows, with the first commands behind it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

struct redisContext;
struct tls;

/* Whether this build can do it. */
bool tls_built_in(void);

/* Loads the node's files. 0, or -EINVAL with the option that is wrong and why. */
int tls_new(const struct config_node *node, const char **ret_option, char *reason, size_t size,
            struct tls **ret);

/* NULL is fine. Returns NULL. */
struct tls *tls_free(struct tls *tls);

/* Begins the handshake on a connection that stands. Files that have changed are loaded again; if they are
 * wrong now, what was loaded before goes on, with a warning. 0, or a negative errno with the reason. */
int tls_begin(struct tls *tls, struct redisContext *context, char *reason, size_t size);

/* In the disconnect callback: whether TLS is why it ended, and the reason. To be called at each end, since
 * it also clears what OpenSSL keeps for the thread and would take for the next connection's. */
bool tls_explain(struct tls *tls, char *reason, size_t size);
