/* Killing the processes of a unit's cgroup, in a directory that looks like one. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"
#include "unit-cgroup.h"

static int pidfd_errno; /* of pidfd_open(2) */

/* Instead of the C library's: the only callers here are those of unit-cgroup.c. */
long syscall(long number, ...) {
    errno = number == SYS_pidfd_open ? pidfd_errno : ENOSYS;
    return -1;
}

static pid_t begin_process(void) {
    pid_t pid = fork();

    if (pid == 0)
        for (;;)
            (void) pause();
    return pid;
}

/* The group of a unit with this process; the root has a file without a meaning, as the kernel's. */
static void make_group(struct unit_cgroup *cgroup, const char *root, pid_t pid) {
    char path[512];

    *cgroup = (struct unit_cgroup){0};
    (void) snprintf(cgroup->root, sizeof(cgroup->root), "%s", root);
    (void) snprintf(cgroup->unit, sizeof(cgroup->unit), "job.service");
    (void) snprintf(path, sizeof(path), "%s/job.service", root);
    ok(mkdir(path, 0700) == 0 || errno == EEXIST, "a unit's group");
    (void) snprintf(path, sizeof(path), "%s/job.service/cgroup.procs", root);
    FILE *file = fopen(path, "we");
    ok(file && fprintf(file, "%ld\n", (long) pid) > 0 && fclose(file) == 0, "with a process");
}

static void test_kill(const char *root) {
    static const int errors[] = {EMFILE, ENOSYS, ENOMEM};
    struct unit_cgroup cgroup;
    int status = 0;

    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        pid_t pid = begin_process();
        pidfd_errno = errors[i];
        make_group(&cgroup, root, pid);
        is_int(unit_cgroup_kill(&cgroup), 0, strerror(errors[i]));
        (void) alarm(20);
        ok(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
           "without a pidfd the process is killed by its pid");
        (void) alarm(0);
    }
    pid_t pid = begin_process();
    pidfd_errno = ESRCH;
    make_group(&cgroup, root, pid);
    is_int(unit_cgroup_kill(&cgroup), 0, "a process that has ended is nothing to kill");
    is_int(waitpid(pid, &status, WNOHANG), 0, "and its pid is not used");
    (void) kill(pid, SIGKILL);
    (void) waitpid(pid, &status, 0);
}

static bool write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "we");

    return file && fputs(text, file) >= 0 && fclose(file) == 0;
}

/* Whether the unit has processes, when this directory has them. */
static bool finds(const char *root, const char *unit, const char *directory) {
    struct unit_cgroup cgroup;
    char path[512];

    (void) unit_cgroup_init(&cgroup, unit); /* the tests may run without control groups */
    (void) snprintf(cgroup.root, sizeof(cgroup.root), "%s", root);
    (void) snprintf(path, sizeof(path), "%s/%s", root, directory);
    ok(mkdir(path, 0700) == 0, "%s", directory);
    (void) snprintf(path, sizeof(path), "%s/%s/cgroup.events", root, directory);
    ok(write_file(path, "populated 1\nfrozen 0\n"), "has processes");
    bool found = unit_cgroup_is_populated(&cgroup);
    (void) unlink(path);
    (void) snprintf(path, sizeof(path), "%s/%s", root, directory);
    (void) rmdir(path);
    return found;
}

/* Which names systemd escapes depends on its version. */
static void test_names(const char *root) {
    ok(finds(root, "job.service", "job.service"), "a unit's group has its name");
    ok(finds(root, "misc.service", "misc.service"), "that of a controller, too, which systemd may not know");
    ok(finds(root, "memory.service", "_memory.service"), "or an underscore before it");
    ok(finds(root, "bpf-firewall.service", "_bpf-firewall.service"), "whatever its name is");
    ok(finds(root, "_x.service", "__x.service"), "as a name that begins with one has");
    ok(!finds(root, "_memory.service", "_memory.service"), "another unit's group does not count");
    ok(!finds(root, "memory.service", "other.service"), "nor another name");
}

int main(void) {
    char root[] = "/tmp/test-unit-cgroup-XXXXXX", path[512];

    if (!mkdtemp(root))
        return 1;
    test_names(root);
    test_kill(root);
    (void) snprintf(path, sizeof(path), "%s/job.service/cgroup.procs", root);
    (void) unlink(path);
    (void) snprintf(path, sizeof(path), "%s/job.service", root);
    (void) rmdir(path);
    (void) rmdir(root);
    return done_testing();
}
