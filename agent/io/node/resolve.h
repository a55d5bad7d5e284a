/* Resolves host names without blocking a loop: numeric ones at once, others by getaddrinfo(3) in a
 * short-lived thread. */
#pragma once

#include <netinet/in.h>
#include <systemd/sd-event.h>

struct resolve;

enum { RESOLVED_BYTES = INET6_ADDRSTRLEN };

/* `address` is numeric; NULL on failure, with the reason in `error`. The owner frees the object afterwards;
 * the handler may do so. */
typedef void (*resolve_handler)(void *userdata, const char *address, const char *error);

/* 1 when `host` is numeric: nothing is started. 0: the handler will be called. Or a negative errno. */
int resolve_new(sd_event *event, const char *host, resolve_handler handler, void *userdata,
                struct resolve **ret);

/* Cancels: the handler is not called. NULL is fine. Returns NULL. */
struct resolve *resolve_free(struct resolve *resolve);
