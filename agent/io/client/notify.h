/* Notifications to the service manager, see sd_notify(3): readiness, the status line, and the watchdog.
 *
 * sd_event_set_watchdog() watches one thread. Instead the front sends a ping to all keepers, four times in a
 * watchdog period, and feeds the watchdog when the last keeper replies. So the manager acts one period after
 * the last sign of life of a thread that hangs.
 *
 * Nothing here waits for the manager. A status that it does not take is dropped. Other messages are sent
 * again until it takes them, in their order: without them a start or a reload would not end, or the manager
 * would replace an agent that works. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/instant.h"
#include "io/loop/service-manager.h"
#include "local/front-state.h"

enum { NOTIFY_STATUS_BYTES = 512 };

struct notify {
    struct service_manager manager;
    bool ready;                 /* READY=1 is sent, or is the first one unsent */
    unsigned unsent;            /* what the manager has not taken, as bits */
    instant_ns retry_ns;        /* when that is sent again; INSTANT_NEVER: there is nothing */
    int64_t reloading_us;       /* when the unsent reload began, by CLOCK_MONOTONIC */
    bool changed;               /* the status, since the last one sent */
    unsigned n_awaited;         /* keepers that have not replied to the last ping */
    uint32_t ping;              /* number of the last ping */
    int64_t ping_every_ns;      /* 0: no watchdog */
    instant_ns ping_ns;         /* when the next ping is due; INSTANT_NEVER: no watchdog */
    instant_ns status_ns;       /* when the status is composed next */
    instant_ns ready_latest_ns; /* READY=1 is sent then, even without a quorum; INSTANT_NEVER: it is sent */
    char status[NOTIFY_STATUS_BYTES];
};

/* Without a service manager: enough for notify_deinit(). */
void notify_clear(struct notify *notify);

/* 0, also without a service manager, or a negative errno. */
int notify_init(struct notify *notify, instant_ns now_ns);

/* Idempotent. */
void notify_deinit(struct notify *notify);

/* Clients are served: READY=1 follows when a quorum of nodes votes, or after a second. */
void notify_serving(struct notify *notify, const struct front_state *local, instant_ns now_ns);

/* A node's state has changed. */
void notify_changed(struct notify *notify, const struct front_state *local, instant_ns now_ns);

/* Sends what is due. True when the caller must send a ping with the number notify->ping to all keepers. */
bool notify_tick(struct notify *notify, const struct front_state *local, instant_ns now_ns);
instant_ns notify_due_ns(const struct notify *notify);

/* A keeper has replied to the ping with this number: the last reply feeds the watchdog. */
void notify_pong(struct notify *notify, uint32_t ping, instant_ns now_ns);

/* Around the reading of a new configuration. */
void notify_reloading(struct notify *notify, instant_ns now_ns);
void notify_reloaded(struct notify *notify, instant_ns now_ns);

/* Reports that the agent stops: tried once. */
void notify_stopping(const struct notify *notify);
