#include "unit-guard.h"

#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

enum {
    AGAIN_MS = 5,          /* between two passes */
    ORPHAN_MS = 10 * 1000, /* after the parent's end: how long the guard tries to kill */
    ORDER_KILL = 'k',      /* to the guard */
    ORDER_LOOK = 'l',      /* the instant is earlier than before */
    ANSWER_EMPTY = 'e',    /* from the guard: no process is left */
    ANSWER_DEADLINE = 'd', /* processes ran at the instant */
};

/* --- the guard --- */

struct watch {
    struct unit_cgroup *cgroup;
    const char *unit;
    const _Atomic int64_t *kill_ns;
    int fd, timer_fd;
    bool orphaned;          /* the parent has ended */
    bool ordered;           /* the parent has ordered the end, and waits for an answer */
    bool deadline_reported; /* reported for this instant */
    bool failure_told;
};

static void kill_once(struct watch *watch) {
    int r = unit_cgroup_kill(watch->cgroup);

    if (r < 0 && !watch->failure_told)
        cli_complain("%s: can't kill its processes: %s", watch->unit, strerror(-r));
    watch->failure_told = watch->failure_told || r < 0;
}

static void answer(const struct watch *watch, char word) {
    (void) send(watch->fd, &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Until `at_ns`, or until the parent sends an order or ends. */
static void wait_for_order(struct watch *watch, int64_t at_ns) {
    const struct itimerspec timer = {.it_value = {.tv_sec = at_ns / NS_PER_S, .tv_nsec = at_ns % NS_PER_S}};
    struct pollfd fds[] = {{.fd = watch->orphaned ? -1 : watch->fd, .events = POLLIN},
                           {.fd = watch->timer_fd, .events = POLLIN}};
    char word;

    /* CLOCK_BOOTTIME counts the time of a suspended machine. */
    (void) timerfd_settime(watch->timer_fd, TFD_TIMER_ABSTIME, &timer, NULL);
    if (poll(fds, 2, -1) <= 0 || fds[0].revents == 0)
        return;
    ssize_t n = recv(watch->fd, &word, 1, MSG_DONTWAIT);
    if (n > 0)
        watch->ordered = watch->ordered || word == ORDER_KILL;
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        watch->orphaned = true;
}

/* Kills the remaining processes. True when the guard's work is over. */
static bool kill_due(struct watch *watch, int64_t since_ns) {
    bool populated = unit_cgroup_is_populated(watch->cgroup);

    if (populated) {
        kill_once(watch);
    } else if (watch->ordered) {
        answer(watch, ANSWER_EMPTY);
        watch->ordered = false;
    }
    if (populated && !watch->ordered && !watch->orphaned && !watch->deadline_reported) {
        watch->deadline_reported = true;
        answer(watch, ANSWER_DEADLINE);
    }
    if (populated && watch->orphaned && cli_now_ns() - since_ns > ORPHAN_MS * NS_PER_MS) {
        cli_complain("%s: a process can't be killed, and runs on without the lease", watch->unit);
        return true;
    }
    return !populated && watch->orphaned;
}

__attribute__((noreturn)) static void keep_watch(struct watch *watch) {
    int64_t orphaned_ns = 0;

    for (;;) {
        int64_t at_ns = cli_now_ns(), kill_ns = atomic_load(watch->kill_ns);
        if (watch->orphaned && kill_ns == INT64_MAX)
            _exit(STATUS_DONE);
        if (watch->orphaned && orphaned_ns == 0)
            orphaned_ns = at_ns;
        if (at_ns >= kill_ns || watch->ordered || watch->orphaned) {
            if (kill_due(watch, orphaned_ns))
                _exit(STATUS_DONE);
            wait_for_order(watch, at_ns + AGAIN_MS * NS_PER_MS);
        } else {
            watch->deadline_reported = false;
            wait_for_order(watch, kill_ns < INT64_MAX ? kill_ns : at_ns + 3600 * NS_PER_S);
        }
    }
}

/* Signals are for the parent, whose end shows in the socket. */
__attribute__((noreturn)) static void guard_main(const struct unit_guard *guard, struct unit_cgroup *cgroup,
                                                 int fd) {
    struct watch watch = {.cgroup = cgroup, .unit = guard->unit, .kill_ns = guard->kill_ns, .fd = fd};
    sigset_t all;

    (void) sigfillset(&all);
    (void) sigprocmask(SIG_SETMASK, &all, NULL);
    (void) prctl(PR_SET_NAME, "redlock-guard");
    cli_never_wait_for_reader();
    watch.timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (watch.timer_fd < 0)
        _exit(STATUS_SYSTEM);
    keep_watch(&watch);
}

/* --- its parent --- */

/* The process that talks to the agent has no right to kill. */
static int drop_capabilities(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

    if (geteuid() == 0)
        return 0; /* root runs hooks as root */
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return -errno;
    return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

int unit_guard_init(struct unit_guard *guard, const char *unit) {
    int pair[2], r;

    *guard = (struct unit_guard){.fd = -1};
    if (!unit)
        return 0;
    r = unit_cgroup_init(&guard->cgroup, unit);
    if (r < 0)
        return r;
    void *memory =
        mmap(NULL, sizeof(*guard->kill_ns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -errno;
    guard->kill_ns = memory;
    guard->unit = unit;
    atomic_store(guard->kill_ns, INT64_MAX);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    pid_t pid = fork();
    if (pid == 0) {
        (void) close(pair[0]);
        guard_main(guard, &guard->cgroup, pair[1]);
    }
    r = -errno;
    (void) close(pair[1]);
    guard->fd = pair[0];
    return pid < 0 ? r : drop_capabilities();
}

void unit_guard_set(struct unit_guard *guard, int64_t kill_ns) {
    const char order = ORDER_LOOK;

    /* Two readings of the clock make the instant a little earlier now and then. */
    if (guard->kill_ns && kill_ns < atomic_exchange(guard->kill_ns, kill_ns) - NS_PER_MS)
        (void) send(guard->fd, &order, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* A message of the guard; 0: none in time. */
static char receive_word(struct unit_guard *guard, int timeout_ms) {
    struct pollfd fd = {.fd = guard->fd, .events = POLLIN};
    char word = 0;

    if (guard->fd < 0 || poll(&fd, 1, timeout_ms) <= 0 || recv(guard->fd, &word, 1, MSG_DONTWAIT) > 0)
        return word;
    (void) close(guard->fd);
    guard->fd = -1;
    return 0;
}

enum unit_guard_event unit_guard_dispatch(struct unit_guard *guard) {
    if (!guard->unit)
        return UNIT_GUARD_QUIET;
    char word = receive_word(guard, 0);
    if (guard->fd < 0)
        return UNIT_GUARD_GONE;
    return word == ANSWER_DEADLINE ? UNIT_GUARD_KILLED : UNIT_GUARD_QUIET;
}

bool unit_guard_end_unit(struct unit_guard *guard, int timeout_ms) {
    int64_t until_ns = cli_now_ns() + timeout_ms * NS_PER_MS;
    const char order = ORDER_KILL;

    if (!guard->unit || !unit_cgroup_is_populated(&guard->cgroup))
        return true;
    cli_complain("%s: killed, because it still ran just before the end of the lease", guard->unit);
    if (guard->fd < 0 || send(guard->fd, &order, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
        return false;
    for (int64_t left_ns; (left_ns = until_ns - cli_now_ns()) > 0 && guard->fd >= 0;)
        if (receive_word(guard, (int) (left_ns / NS_PER_MS) + 1) == ANSWER_EMPTY)
            return true;
    return !unit_cgroup_is_populated(&guard->cgroup);
}

void unit_guard_deinit(struct unit_guard *guard) {
    if (guard->fd >= 0)
        (void) close(guard->fd);
    if (guard->kill_ns)
        (void) munmap((void *) guard->kill_ns, sizeof(*guard->kill_ns));
    *guard = (struct unit_guard){.fd = -1};
}
