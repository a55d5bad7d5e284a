/* Replaces tls.c where hiredis has no TLS. */
#include <errno.h>
#include <stdio.h>

#include "io/node/tls.h"

bool tls_built_in(void) {
    return false;
}

int tls_new(const struct config_node *node, const char **ret_option, char *reason, size_t size,
            struct tls **ret) {
    (void) node;
    (void) ret;
    *ret_option = "tls";
    (void) snprintf(reason, size,
                    "this redlockd was built without TLS: expected one that was built with hiredis_ssl "
                    "(hiredis 1.0 or later)");
    return -EINVAL;
}

struct tls *tls_share(const struct tls *tls) {
    (void) tls;
    return NULL;
}

struct tls *tls_free(struct tls *tls) {
    (void) tls;
    return NULL;
}

int tls_begin(struct tls *tls, struct redisContext *context, char *reason, size_t size) {
    (void) tls;
    (void) context;
    (void) snprintf(reason, size, "this redlockd was built without TLS");
    return -ENOTSUP;
}

bool tls_explain(struct tls *tls, char *reason, size_t size) {
    (void) tls;
    (void) reason;
    (void) size;
    return false;
}
