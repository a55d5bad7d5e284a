/* Other users can write to /tmp: everything below is opened relative to descriptors, and no symbolic link is
 * followed. */
#include "dev/dev-directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "io/loop/log.h"

#define PREFIX "redlockd-dev-"

enum {
    DEPTH_MAX = 8,
    PARENT_LENGTH_MAX = DEV_DIRECTORY_BYTES_MAX - (int) sizeof("/" PREFIX "2147483647-XXXXXX"),
};

static const int open_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;

/* $TMPDIR, unless a node's socket in it would have too long a path; otherwise /tmp. */
static const char *parent_path(void) {
    const char *path = secure_getenv("TMPDIR");

    return path && path[0] == '/' && strlen(path) <= PARENT_LENGTH_MAX ? path : "/tmp";
}

int dev_directory_make(char ret_path[static DEV_DIRECTORY_BYTES_MAX], int *ret_fd) {
    int fd, error;

    (void) snprintf(ret_path, DEV_DIRECTORY_BYTES_MAX, "%s/" PREFIX "%ld-XXXXXX", parent_path(),
                    (long) getpid());
    if (!mkdtemp(ret_path))
        return -errno;
    fd = open(ret_path, open_flags);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0) {
        error = -errno;
        if (fd >= 0)
            (void) close(fd);
        (void) rmdir(ret_path);
        return error;
    }
    *ret_fd = fd;
    return 0;
}

/* Removes the contents of the directory; `fd` stays open. */
static void empty(int fd, unsigned depth) {
    DIR *directory;
    struct dirent *entry;
    int own_fd = openat(fd, ".", open_flags);

    directory = own_fd >= 0 ? fdopendir(own_fd) : NULL;
    if (!directory) {
        if (own_fd >= 0)
            (void) close(own_fd);
        return;
    }
    while ((entry = readdir(directory))) {
        int inner_fd;

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            unlinkat(fd, entry->d_name, 0) == 0 || depth == DEPTH_MAX)
            continue;
        inner_fd = openat(fd, entry->d_name, open_flags);
        if (inner_fd < 0)
            continue;
        empty(inner_fd, depth + 1);
        (void) close(inner_fd);
        (void) unlinkat(fd, entry->d_name, AT_REMOVEDIR);
    }
    (void) closedir(directory);
}

void dev_directory_remove(const char *path, int fd) {
    if (fd < 0)
        return;
    empty(fd, 0);
    if (rmdir(path) < 0 && errno != ENOENT)
        log_warning("%s: can't be removed: %s; the next start with --dev removes it", path, strerror(errno));
    (void) close(fd);
}

/* The process id in a directory's name, or 0 for another name. */
static pid_t owner_of(const char *name) {
    char *end;
    long pid;

    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
        return 0;
    name += strlen(PREFIX);
    if (name[0] < '1' || name[0] > '9')
        return 0;
    errno = 0;
    pid = strtol(name, &end, 10);
    if (errno != 0 || pid > INT32_MAX || *end != '-' || strlen(end) != strlen("-XXXXXX"))
        return 0;
    return (pid_t) pid;
}

/* Removes the directory if its process has ended *and* its lock is free. Both, because the process may be in
 * another pid namespace, and a new directory is not locked at once. */
static void sweep_one(int parent_fd, const char *name, pid_t owner) {
    _cleanup_close_ int fd = -1;
    struct stat status;

    if (kill(owner, 0) == 0 || errno != ESRCH)
        return;
    fd = openat(parent_fd, name, open_flags);
    if (fd < 0 || fstat(fd, &status) < 0 || status.st_uid != geteuid() || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return;
    empty(fd, 0);
    (void) unlinkat(parent_fd, name, AT_REMOVEDIR);
}

void dev_directory_sweep(void) {
    DIR *parent = opendir(parent_path());
    struct dirent *entry;

    if (!parent)
        return;
    while ((entry = readdir(parent))) {
        pid_t owner = owner_of(entry->d_name);

        if (owner > 0)
            sweep_one(dirfd(parent), entry->d_name, owner);
    }
    (void) closedir(parent);
}
