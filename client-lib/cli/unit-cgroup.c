#include "unit-cgroup.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum {
    SLICES_DEEP = 16,
    GROUPS_DEEP = 16,
    KILLED_AT_ONCE = 256, /* as many descriptors */
};

/* --- the group's path --- */

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), end_length = strlen(end);
    return length > end_length && strcmp(text + length - end_length, end) == 0;
}

bool unit_cgroup_is_name(const char *unit) {
    size_t length = strlen(unit);

    if (length == 0 || length >= UNIT_NAME_BYTES || unit[0] == '.' || !strchr(unit, '.'))
        return false;
    for (const char *at = unit; *at; at++)
        if (!isalnum((unsigned char) *at) && !strchr(":-_.\\@", *at))
            return false;
    return true;
}

/* systemd puts '_' before a unit's name that begins with '_', or that would clash with a file of the control
 * group ("memory.service"), which depends on its version. No other unit has such a directory. */
static bool is_group_of(const char *unit, const char *directory) {
    return (directory[0] == '_' && strcmp(directory + 1, unit) == 0) ||
           (unit[0] != '_' && strcmp(directory, unit) == 0);
}

/* This process's own group, in version 2: "/system.slice/redlock-leader@x.service". */
static bool read_own_group(char *ret, size_t size) {
    FILE *file = fopen("/proc/self/cgroup", "re");
    char line[CGROUP_PATH_BYTES];
    bool found = false;

    while (file && !found && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        size_t length = strlen(line);
        found = strncmp(line, "0::/", 4) == 0 && length - 3 < size;
        if (found)
            memcpy(ret, line + 3, length - 3 + 1);
    }
    if (file)
        (void) fclose(file);
    return found;
}

/* The service manager's group: the own group's path without its last part and the slices before it. */
static void cut_to_manager(char *group) {
    char *last = strrchr(group, '/');

    if (last)
        *last = '\0';
    while ((last = strrchr(group, '/')) && ends_with(last, ".slice"))
        *last = '\0';
}

int unit_cgroup_init(struct unit_cgroup *cgroup, const char *unit) {
    static const char *const mounts[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
    char group[CGROUP_PATH_BYTES / 8], path[CGROUP_PATH_BYTES];

    *cgroup = (struct unit_cgroup){.path = ""};
    if (!unit_cgroup_is_name(unit))
        return -EINVAL;
    (void) snprintf(cgroup->unit, sizeof(cgroup->unit), "%s", unit);
    if (!read_own_group(group, sizeof(group)))
        return -EOPNOTSUPP;
    for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
        (void) snprintf(path, sizeof(path), "%s%s/cgroup.procs", mounts[i], group);
        if (access(path, R_OK) < 0)
            continue;
        cut_to_manager(group);
        (void) snprintf(cgroup->root, sizeof(cgroup->root), "%s%s", mounts[i], group);
        return 0;
    }
    return -EOPNOTSUPP;
}

/* Units are in slices, and these in slices. */
static bool search(struct unit_cgroup *cgroup, char *path, unsigned depth) {
    size_t length = strlen(path);
    DIR *directory = opendir(path);
    const struct dirent *entry;
    bool found = false;

    if (!directory)
        return false;
    while (!found && (entry = readdir(directory))) {
        bool wanted = is_group_of(cgroup->unit, entry->d_name);
        if (entry->d_type != DT_DIR || (!wanted && !ends_with(entry->d_name, ".slice")) ||
            length + strlen(entry->d_name) + 2 > CGROUP_PATH_BYTES)
            continue;
        path[length] = '/';
        (void) snprintf(path + length + 1, CGROUP_PATH_BYTES - length - 1, "%s", entry->d_name);
        found = wanted || (depth > 0 && search(cgroup, path, depth - 1));
        if (!found)
            path[length] = '\0';
    }
    (void) closedir(directory);
    return found;
}

/* A descriptor of the group's directory; -1: there is none, so no process runs in the unit. */
static int open_group(struct unit_cgroup *cgroup) {
    int fd = cgroup->path[0] ? open(cgroup->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    if (fd >= 0)
        return fd;
    (void) snprintf(cgroup->path, sizeof(cgroup->path), "%s", cgroup->root);
    if (search(cgroup, cgroup->path, SLICES_DEEP))
        return open(cgroup->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cgroup->path[0] = '\0';
    return -1;
}

static FILE *open_file(int directory_fd, const char *name) {
    int fd = openat(directory_fd, name, O_RDONLY | O_CLOEXEC);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;

    if (fd >= 0 && !file)
        (void) close(fd);
    return file;
}

bool unit_cgroup_is_populated(struct unit_cgroup *cgroup) {
    int fd = open_group(cgroup);
    FILE *file = fd >= 0 ? open_file(fd, "cgroup.events") : NULL;
    char line[64];
    bool populated = false;

    while (file && fgets(line, sizeof(line), file))
        populated = populated || strcmp(line, "populated 1\n") == 0;
    if (file)
        (void) fclose(file);
    if (fd >= 0)
        (void) close(fd);
    return populated;
}

/* --- killing --- */

struct batch {
    pid_t pids[KILLED_AT_ONCE];
    int fds[KILLED_AT_ONCE];
    unsigned n;
};

static bool read_pid(FILE *file, pid_t *ret) {
    long number;

    /* NOLINTNEXTLINE(cert-err34-c): the kernel's own pids are in range */
    if (fscanf(file, "%ld", &number) != 1)
        return false;
    *ret = (pid_t) number;
    return true;
}

static void open_batch(struct batch *batch, FILE *file) {
    pid_t pid;

    batch->n = 0;
    while (batch->n < KILLED_AT_ONCE && read_pid(file, &pid)) {
        int fd = (int) syscall(SYS_pidfd_open, pid, 0);
        if (fd < 0 && errno == ESRCH)
            continue; /* ended */
        batch->pids[batch->n] = pid;
        batch->fds[batch->n++] = fd;
    }
}

static int kill_process(pid_t pid, int fd) {
    long r = fd >= 0 ? syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) : kill(pid, SIGKILL);

    return r < 0 && errno != ESRCH ? -errno : 0;
}

/* A pid may have been reused before its descriptor was opened: kills only processes that are still in the
 * group. Without a descriptor (-1: too many are open, or an old kernel) the pid alone must do, since a
 * process that lives on after the lease is worse. */
static int kill_batch(struct batch *batch, int directory_fd) {
    FILE *again = open_file(directory_fd, "cgroup.procs");
    pid_t pid;
    int r = 0;

    while (again && read_pid(again, &pid))
        for (unsigned i = 0; i < batch->n; i++) {
            int killed = batch->pids[i] == pid ? kill_process(pid, batch->fds[i]) : 0;
            r = killed < 0 ? killed : r;
        }
    if (again)
        (void) fclose(again);
    for (unsigned i = 0; i < batch->n; i++)
        if (batch->fds[i] >= 0)
            (void) close(batch->fds[i]);
    return r;
}

/* Kills the whole group through cgroup.kill; false: no permission (usually root has it), or an old kernel.
 * */
static bool kill_by_kernel(int directory_fd) {
    int fd = openat(directory_fd, "cgroup.kill", O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, "1", 1) == 1;

    if (fd >= 0)
        (void) close(fd);
    return done;
}

static int kill_tree(int directory_fd, unsigned depth) {
    FILE *file = open_file(directory_fd, "cgroup.procs");
    int own_fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
    DIR *directory = own_fd >= 0 ? fdopendir(own_fd) : NULL;
    const struct dirent *entry;
    struct batch batch;

    do {
        batch.n = 0;
        if (file)
            open_batch(&batch, file);
        int killed = kill_batch(&batch, directory_fd);
        r = killed < 0 ? killed : r;
    } while (batch.n == KILLED_AT_ONCE);
    if (file)
        (void) fclose(file);
    while (depth > 0 && directory && (entry = readdir(directory))) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        int fd = openat(directory_fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int killed = fd >= 0 ? kill_tree(fd, depth - 1) : 0;
        r = killed < 0 ? killed : r;
        if (fd >= 0)
            (void) close(fd);
    }
    if (directory)
        (void) closedir(directory);
    else if (own_fd >= 0)
        (void) close(own_fd);
    return r;
}

int unit_cgroup_kill(struct unit_cgroup *cgroup) {
    int fd = open_group(cgroup), r = 0;

    if (fd < 0)
        return 0;
    if (!kill_by_kernel(fd))
        r = kill_tree(fd, GROUPS_DEEP);
    (void) close(fd);
    return r;
}
