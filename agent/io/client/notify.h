/* What the service manager is told (sd_notify(3)): that the agent serves, how it is, and that all of its
 * threads turn.
 *
 * sd_event_set_watchdog() would go on while a keeper is stuck. So the front mails all keepers a ping, four
 * times in a period of the watchdog, and tells the manager only when every one has answered the last. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/instant.h"
#include "local/front-state.h"

enum { NOTIFY_STATUS_BYTES = 512 };

struct notify {
    bool wanted; /* a manager listens */
    bool ready;  /* it was told */
    bool changed;
    unsigned awaited;           /* keepers that have not answered the last ping */
    uint32_t ping;              /* its number */
    int64_t ping_every_ns;      /* 0: no watchdog */
    instant_ns ping_ns;         /* when the next one is due; INSTANT_NEVER: never */
    instant_ns status_ns;       /* when the status is looked at next */
    instant_ns ready_latest_ns; /* then the manager is told, with or without a quorum; INSTANT_NEVER: done */
    char status[NOTIFY_STATUS_BYTES];
};

void notify_init(struct notify *notify, instant_ns now_ns);

/* Clients are served: the manager is told as soon as a quorum votes, or after a while without one. */
void notify_serving(struct notify *notify, const struct front_state *service, instant_ns now_ns);

/* A node has changed. */
void notify_changed(struct notify *notify, const struct front_state *service, instant_ns now_ns);

/* Does what is due. True when a ping with the number notify->ping is to be sent to all keepers. */
bool notify_tick(struct notify *notify, const struct front_state *service, instant_ns now_ns);
instant_ns notify_due_ns(const struct notify *notify);

/* A keeper has answered the ping with this number. */
void notify_pong(struct notify *notify, uint32_t ping);

/* The configuration is about to be read again, or was. */
void notify_reloading(const struct notify *notify);
void notify_reloaded(const struct notify *notify);

/* The end has begun. */
void notify_stopping(const struct notify *notify);
