/* The control group of a systemd unit: whether processes are in it, and their end.
 *
 * The unit belongs to the service manager that started this process, usually the system's. The control group
 * is found by its name in the file system, without the service manager, which may be busy. */
#pragma once

#include <stdbool.h>

enum { UNIT_NAME_BYTES = 256, CGROUP_PATH_BYTES = 4096 };

struct unit_cgroup {
    char root[CGROUP_PATH_BYTES / 4]; /* of the service manager */
    char unit[UNIT_NAME_BYTES];
    char path[CGROUP_PATH_BYTES]; /* of the group, when it was found last; "": not found */
};

/* Whether `unit` can be the name of a unit. */
bool unit_cgroup_is_name(const char *unit);

/* 0 or a negative errno: -EINVAL for an invalid name of a unit, -EOPNOTSUPP without control groups version
 * 2. */
int unit_cgroup_init(struct unit_cgroup *cgroup, const char *unit);

/* Whether a process is in it, or in a group beneath. */
bool unit_cgroup_is_populated(struct unit_cgroup *cgroup);

/* Sends SIGKILL to all processes in the group and below. Processes that they fork meanwhile may be left:
 * repeat until the group is no longer populated. 0, or a negative errno when a process can't be killed. */
int unit_cgroup_kill(struct unit_cgroup *cgroup);
