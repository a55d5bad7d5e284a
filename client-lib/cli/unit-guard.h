/* A process that ends a unit's processes in time, whatever happens to `redlock hold` and to the service
 * manager.
 *
 * The service manager stops a led service in its own time, and may be busy: a daemon-reload takes seconds.
 * So a child process, the guard, kills all remaining processes of the unit's control group at a given
 * instant, which the parent postpones while the lease is extended; or at once, when the parent ends without
 * having cleared this instant. The guard needs the right to kill (CAP_KILL, or root), which the parent gives
 * up. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "unit-cgroup.h"

enum unit_guard_event {
    UNIT_GUARD_QUIET,
    UNIT_GUARD_KILLED, /* at the instant, the guard has killed the remaining processes */
    UNIT_GUARD_GONE,   /* the guard is dead: the service manager alone stops the unit */
};

struct unit_guard {
    struct unit_cgroup cgroup;
    const char *unit;         /* NULL: no guard; then the functions below do nothing */
    int fd;                   /* readable when unit_guard_dispatch() has an event; -1: no guard */
    _Atomic int64_t *kill_ns; /* shared with the guard; CLOCK_BOOTTIME */
};

/* Forks the guard, before other descriptors and threads exist, and gives up the right to kill. 0 or a
 * negative errno. */
int unit_guard_init(struct unit_guard *guard, const char *unit);

/* The guard kills at this instant; with INT64_MAX neither then nor when the parent ends. */
void unit_guard_set(struct unit_guard *guard, int64_t kill_ns);

enum unit_guard_event unit_guard_dispatch(struct unit_guard *guard);

/* Ends the unit's processes. True: none is left; false: some are left after `timeout_ms`. */
bool unit_guard_end_unit(struct unit_guard *guard, int timeout_ms);

void unit_guard_deinit(struct unit_guard *guard);
