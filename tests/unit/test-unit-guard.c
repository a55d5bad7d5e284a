/* The guard of a led unit, a process of its own: kills at the instant that its parent sets, also when the
 * instant becomes earlier while the guard sleeps. */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "tap.h"
#include "unit-guard.h"

enum { LATE_MS = 20000, SECOND_NS = 1000000000 };

#define LATE_NS (LATE_MS * INT64_C(1000000)) /* of a busy machine */

/* The unit's processes, for parent and guard. */
static struct {
    atomic_bool populated;
    atomic_int kills;
} * unit;

int unit_cgroup_init(struct unit_cgroup *cgroup, const char *name) {
    *cgroup = (struct unit_cgroup){0};
    return name[0] == '\0' ? -EINVAL : 0;
}

bool unit_cgroup_is_populated(struct unit_cgroup *cgroup) {
    (void) cgroup;
    return unit->populated;
}

int unit_cgroup_kill(struct unit_cgroup *cgroup) {
    (void) cgroup;
    unit->kills++;
    unit->populated = false;
    return 0;
}

int64_t cli_now_ns(void) {
    struct timespec now;

    (void) clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * (int64_t) SECOND_NS + now.tv_nsec;
}

void cli_complain(const char *format, ...) {
    (void) format;
}

void cli_never_wait_for_reader(void) {}

/* Its timer is set for a second or more. */
static bool guard_sleeps(long guard_pid) {
    char path[64], line[128];
    bool set = false;

    for (int fd = 3; fd < 16 && !set; fd++) {
        (void) snprintf(path, sizeof(path), "/proc/%ld/fdinfo/%d", guard_pid, fd);
        FILE *file = fopen(path, "re");
        while (file && fgets(line, sizeof(line), file))
            set |= strncmp(line, "it_value: (", 11) == 0 && strncmp(line, "it_value: (0, ", 14) != 0;
        if (file)
            (void) fclose(file);
    }
    return set;
}

static long guard_pid(void) {
    char path[64];
    long pid = 0;

    (void) snprintf(path, sizeof(path), "/proc/self/task/%ld/children", (long) getpid());
    FILE *file = fopen(path, "re");
    if (!file || fscanf(file, "%ld", &pid) != 1)
        pid = 0;
    if (file)
        (void) fclose(file);
    return pid;
}

static void await_sleep(void) {
    int64_t until_ns = cli_now_ns() + LATE_NS;
    long pid = guard_pid();

    while (!guard_sleeps(pid) && cli_now_ns() < until_ns)
        (void) poll(NULL, 0, 1);
    ok(guard_sleeps(pid), "the guard sleeps");
}

/* Whether the guard reports within the time that it has killed. */
static bool kills_by(struct unit_guard *guard, int64_t until_ns) {
    struct pollfd fd = {.fd = guard->fd, .events = POLLIN};

    while (cli_now_ns() < until_ns)
        if (poll(&fd, 1, 10) == 1)
            return unit_guard_dispatch(guard) == UNIT_GUARD_KILLED;
    return false;
}

static void test_earlier(struct unit_guard *guard, int64_t before_ns, const char *what) {
    unit->populated = true;
    unit->kills = 0;
    unit_guard_set(guard, before_ns);
    await_sleep();
    int64_t at_ns = cli_now_ns() + SECOND_NS / 10;
    unit_guard_set(guard, at_ns);
    ok(kills_by(guard, at_ns + SECOND_NS) && unit->kills == 1, "%s: kills at the earlier instant", what);
    ok(cli_now_ns() >= at_ns, "and not before");
}

static void test_later(struct unit_guard *guard) {
    unit->populated = true;
    unit->kills = 0;
    int64_t at_ns = cli_now_ns() + INT64_C(4) * SECOND_NS;
    unit_guard_set(guard, at_ns);
    await_sleep();
    unit_guard_set(guard, at_ns + SECOND_NS / 5);
    ok(kills_by(guard, at_ns + SECOND_NS) && cli_now_ns() >= at_ns + SECOND_NS / 5,
       "a later instant counts alone");
}

static void test_order(struct unit_guard *guard) {
    unit_guard_set(guard, INT64_MAX);
    unit->populated = true;
    ok(unit_guard_end_unit(guard, LATE_MS) && !unit->populated, "an order kills at once");
    is_int(unit_guard_dispatch(guard), UNIT_GUARD_QUIET, "and leaves no event");
}

int main(void) {
    struct unit_guard guard;

    unit = mmap(NULL, sizeof(*unit), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!ok(unit != MAP_FAILED, "memory"))
        return done_testing();
    is_int(unit_guard_init(&guard, "led.service"), 0, "a guard");
    test_earlier(&guard, INT64_MAX, "the first lead");
    test_later(&guard);
    test_order(&guard);
    test_earlier(&guard, cli_now_ns() + INT64_C(100) * SECOND_NS, "a lease that ends earlier");
    unit_guard_deinit(&guard);
    return done_testing();
}
