/* Notifications to the service manager, see sd_notify(3): readiness, the status line, and the watchdog.
 *
 * sd_event_set_watchdog() watches one thread. Instead the front sends a ping to all keepers, four times in a
 * watchdog period, and feeds the watchdog when the last keeper replies. So the manager acts one period after
 * the last sign of life of a thread that hangs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/instant.h"
#include "local/front-state.h"

enum { NOTIFY_STATUS_BYTES = 512 };

struct notify {
    bool wanted;                /* there is a service manager */
    bool ready;                 /* READY=1 is sent */
    bool changed;               /* the status, since the last one sent */
    unsigned n_awaited;         /* keepers that have not replied to the last ping */
    uint32_t ping;              /* number of the last ping */
    int64_t ping_every_ns;      /* 0: no watchdog */
    instant_ns ping_ns;         /* when the next ping is due; INSTANT_NEVER: no watchdog */
    instant_ns status_ns;       /* when the status is composed next */
    instant_ns ready_latest_ns; /* READY=1 is sent then, even without a quorum; INSTANT_NEVER: it is sent */
    char status[NOTIFY_STATUS_BYTES];
};

void notify_init(struct notify *notify, instant_ns now_ns);

/* Clients are served: READY=1 follows when a quorum of nodes votes, or after a second. */
void notify_serving(struct notify *notify, const struct front_state *local, instant_ns now_ns);

/* A node's state has changed. */
void notify_changed(struct notify *notify, const struct front_state *local, instant_ns now_ns);

/* Sends what is due. True when the caller must send a ping with the number notify->ping to all keepers. */
bool notify_tick(struct notify *notify, const struct front_state *local, instant_ns now_ns);
instant_ns notify_due_ns(const struct notify *notify);

/* A keeper has replied to the ping with this number: the last reply feeds the watchdog. */
void notify_pong(struct notify *notify, uint32_t ping);

/* Around the reading of a new configuration. */
void notify_reloading(const struct notify *notify);
void notify_reloaded(const struct notify *notify);

/* Reports that the agent stops. */
void notify_stopping(const struct notify *notify);
