/* Resolves host names without blocking a loop: numeric ones at once, others by getaddrinfo(3) in a
 * short-lived thread. */
#pragma once

#include <netinet/in.h>
#include <systemd/sd-event.h>

struct resolve;

enum {
    RESOLVED_BYTES = INET6_ADDRSTRLEN,
    RESOLVE_ABANDONED_MAX = 32, /* questions of the process whose answer is no longer awaited */
};

/* `address` is numeric; NULL on failure, with the reason in `error`. The owner frees the object afterwards;
 * the handler may do so. */
typedef void (*resolve_handler)(void *userdata, const char *address, const char *error);

/* 1 when `host` is numeric: nothing is started. 0: the handler will be called, with an error after
 * `timeout_ms` at the latest. Or a negative errno: -EAGAIN while too many earlier questions hang. Of several
 * addresses the handler gets the one in this place, counted round: 0 is the first, and after the last one it
 * comes again. */
int resolve_new(sd_event *event, const char *host, unsigned place, unsigned timeout_ms,
                resolve_handler handler, void *userdata, struct resolve **ret);

/* Cancels: the handler is not called. NULL is fine. Returns NULL. */
struct resolve *resolve_free(struct resolve *resolve);
