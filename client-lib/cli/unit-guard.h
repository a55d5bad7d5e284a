/* A process that ends what a unit runs in time, whatever happens to us and to the service manager.
 *
 * The service manager stops a led service by its own order and in its own time, and may be busy: a
 * daemon-reload takes it seconds. So a child of ours, the guard, kills what is left in the unit's control
 * group when a given instant comes, which we move on while the lease is extended; or at once when we have
 * ended without saying that all is well. It needs to be allowed to kill (CAP_KILL, or root), which we don't
 * keep. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "unit-cgroup.h"

enum unit_guard_event {
    UNIT_GUARD_QUIET,
    UNIT_GUARD_KILLED, /* the instant came, and the guard has killed what was left */
    UNIT_GUARD_GONE,   /* the guard is dead: the service manager alone stops the unit */
};

struct unit_guard {
    struct unit_cgroup cgroup;
    const char *unit;         /* NULL: there is no guard, and nothing below does anything */
    int fd;                   /* readable when unit_guard_dispatch() has something to say; -1: no guard */
    _Atomic int64_t *kill_ns; /* shared with the guard; CLOCK_BOOTTIME */
};

/* Before other descriptors and threads exist: forks the guard, and gives up what only it needs. 0 or a
 * negative errno. */
int unit_guard_init(struct unit_guard *guard, const char *unit);

/* The guard kills at this instant; with INT64_MAX not at all, nor when we end. */
void unit_guard_set(struct unit_guard *guard, int64_t kill_ns);

enum unit_guard_event unit_guard_dispatch(struct unit_guard *guard);

/* Nothing runs in the unit any more when this returns true; false: after `timeout_ms` something still did.
 */
bool unit_guard_end_unit(struct unit_guard *guard, int timeout_ms);

void unit_guard_deinit(struct unit_guard *guard);
