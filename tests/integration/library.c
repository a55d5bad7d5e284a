/* library SOCKET AGENT-PID: libredlock against a real agent; prints TAP. Started by test_library.py. The
 * last tests stop and kill the agent. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"
#include "app.h"

#define is(got, want) is_int(got, want, #got " is " #want)

enum {
    BRIEF_MS = 2500, /* a ttl whose end a test awaits */
    LATE_MS = 1000,  /* of a busy machine */
};

static pid_t agent_pid;

/* --- blocking calls --- */

static void test_connect(void) {
    struct redlock *connection = NULL;
    bool texts = true;

    is(redlock_connect("/nonexistent/socket", &connection), REDLOCK_AGENT_AWAY);
    ok(!connection, "there is no connection");
    (void) setenv("REDLOCK_SOCKET", socket_path, 1);
    is(redlock_connect(NULL, &connection), REDLOCK_OK);
    redlock_close(connection);
    redlock_close(NULL);
    for (int error = REDLOCK_IN_USE; error <= REDLOCK_OK; error++)
        texts &= strlen(redlock_strerror(error)) > 3;
    ok(texts && strlen(redlock_strerror(-1000)) > 3, "each error has a text, unknown errors too");
}

static void test_blocking(void) {
    struct redlock *connection = connection_new(), *other = connection_new();
    struct redlock_options brief = options_of(50, 0), waiting = options_of(0, 50),
                           with_data = options_of(60000, 0);
    struct redlock_lease *lease = NULL, *second = NULL;
    struct redlock_leader leader = REDLOCK_LEADER_INIT;

    with_data.data = "at\0 home";
    with_data.data_length = 8;
    is(redlock_acquire(connection, "library", &with_data, &lease), REDLOCK_OK);
    ok(strcmp(redlock_lease_name(lease), "library") == 0 && redlock_lease_id(lease) > 0,
       "the lease has its name and id");
    int64_t left_ms = redlock_remaining_ns(lease) / 1000000;
    ok(left_ms > 40000 && left_ms < 60000, "and is valid for less than its ttl (%lld ms)",
       (long long) left_ms);
    ok(redlock_check(lease) > 40000, "CHECK returns the same");
    is(redlock_beat(lease), 1);
    is(redlock_acquire(other, "library", NULL, &second), REDLOCK_BUSY);
    ok(strstr(redlock_error_text(other), "held by"), "the text names the holder: %s",
       redlock_error_text(other));
    is(redlock_acquire(other, "library", &waiting, &second), REDLOCK_TIMED_OUT);
    is(redlock_acquire(other, "", NULL, &second), REDLOCK_BAD_NAME);
    is(redlock_acquire(other, "library", &brief, &second), REDLOCK_BAD_ARGUMENT);
    is(redlock_leader(other, "library", &leader), 1);
    ok(leader.data_length == 8 && memcmp(leader.data, "at\0 home", 8) == 0,
       "redlock_leader() returns the data, byte for byte");
    is(redlock_release(lease), 1);
    is(redlock_leader(other, "library", &leader), 0);
    is(redlock_acquire(other, "library", NULL, &second), REDLOCK_OK);
    is(redlock_release(second), 1);
    is(redlock_release(NULL), 0);
    redlock_close(connection);
    redlock_close(other);
}

/* Every subset of the options, blocking and asynchronous. */
static void test_options(void) {
    enum { TTL = 1, WAIT = 2, HEARTBEAT = 4, MAX_HOLD = 8, LINGER = 16, DATA = 32, ALL = 63 };
    struct redlock *connection = connection_new();
    struct events events;
    unsigned refused = 0;

    count_events(connection, &events);
    for (unsigned set = 0; set <= ALL && refused + events.failed == 0; set++) {
        struct redlock_options options = REDLOCK_OPTIONS_INIT;
        struct redlock_lease *lease = NULL, *async = NULL;
        options.ttl_ms = set & TTL ? 5000 : 0;
        options.wait_ms = set & WAIT ? 5000 : 0;
        options.heartbeat_ms = set & HEARTBEAT ? 5000 : 0;
        options.max_hold_ms = set & MAX_HOLD ? 5000 : 0;
        options.linger_ms = set & LINGER ? 5000 : 0;
        options.data = set & DATA ? "data" : NULL;
        options.data_length = set & DATA ? 4 : 0;
        refused += redlock_acquire(connection, "blocking", &options, &lease) != REDLOCK_OK;
        refused += redlock_acquire_async(connection, "async", &options, &async) != REDLOCK_OK;
        refused += !dispatch_until(connection, &events.granted, set + 1);
        if (refused + events.failed == 0)
            refused += redlock_release(lease) != 1 || redlock_release(async) != 1;
    }
    is(refused, 0);
    is(events.failed, 0);
    redlock_close(connection);
}

/* --- event loops --- */

static void test_event_loop(void) {
    struct redlock *connection = connection_new();
    struct redlock_options brief = options_of(0, 50);
    struct redlock_lease *leases[20], *again = NULL, *other = NULL;
    struct events events;
    char name[32];

    count_events(connection, &events);
    for (unsigned i = 0; i < 20; i++) {
        (void) snprintf(name, sizeof(name), "async-%u", i);
        is(redlock_acquire_async(connection, name, NULL, &leases[i]), REDLOCK_OK);
    }
    ok(dispatch_until(connection, &events.granted, 20), "twenty requests on one connection are granted");
    is(redlock_acquire_async(connection, "async-0", &brief, &other), REDLOCK_OK);
    ok(dispatch_until(connection, &events.failed, 1), "a request for a held lease fails after its wait");
    is(events.error, REDLOCK_TIMED_OUT);
    is(redlock_acquire_async(connection, "async-0", NULL, &again), REDLOCK_OK);
    ok(dispatch_until(connection, &events.failed, 2), "a request without wait fails at once");
    is(events.error, REDLOCK_BUSY);
    for (unsigned i = 0; i < 20; i++)
        is(redlock_release_async(leases[i]), REDLOCK_OK);
    is(redlock_acquire_async(connection, "async-0", NULL, &again), REDLOCK_OK);
    ok(dispatch_until(connection, &events.granted, 21), "a request after a release is granted");
    is(redlock_release(again), 1);
    is(events.lost, 0);
    redlock_close(connection);
}

/* Replaces libc's, and counts the calls. */
static unsigned timers_set;

__attribute__((visibility("default"))) int timerfd_settime(int fd, int flags, const struct itimerspec *at,
                                                           struct itimerspec *before) {
    timers_set++;
    return (int) syscall(SYS_timerfd_settime, fd, flags, at, before);
}

/* The timer is not set again while it fires before the next due time. */
static void test_timer(void) {
    struct redlock *connection = connection_new();
    struct redlock_lease *lease = NULL;
    struct events events;

    count_events(connection, &events);
    timers_set = 0;
    for (unsigned i = 1; i <= 20; i++) {
        is(redlock_acquire_async(connection, "timed", NULL, &lease), REDLOCK_OK);
        (void) dispatch_until(connection, &events.granted, i);
        is(redlock_release_async(lease), REDLOCK_OK);
    }
    is(timers_set, 2); /* for the first request, and earlier for the first lease */
    redlock_close(connection);
}

/* An event loop sees extensions: the lease stays valid beyond the first ttl. */
static void test_extension(void) {
    struct redlock *connection = connection_new();
    struct redlock_options options = options_of(BRIEF_MS, 0);
    struct redlock_lease *lease = NULL;
    struct events events;
    unsigned never = 0;
    int64_t begun_ms = now_ms();

    count_events(connection, &events);
    is(redlock_acquire_async(connection, "extended", &options, &lease), REDLOCK_OK);
    (void) dispatch_until(connection, &events.granted, 1);
    while (now_ms() - begun_ms < BRIEF_MS + 1500) {
        struct pollfd poll_fd = {.fd = redlock_fd(connection), .events = POLLIN};
        (void) poll(&poll_fd, 1, 50);
        (void) redlock_dispatch(connection);
        if (redlock_remaining_ns(lease) <= 0)
            never++;
    }
    is(never, 0);
    is(events.lost, 0);
    redlock_close(connection);
}

/* --- observing --- */

struct seen {
    unsigned count;
    enum redlock_leadership leadership;
    char name[64], holder[128], host[64], data[64];
    uint64_t fence;
};

static void on_leader(struct redlock *connection, const struct redlock_sighting *sighting, void *userdata) {
    struct seen *seen = userdata;
    (void) connection;
    seen->count++;
    seen->leadership = sighting->leadership;
    seen->fence = sighting->fence;
    (void) snprintf(seen->name, sizeof(seen->name), "%s", sighting->name);
    (void) snprintf(seen->holder, sizeof(seen->holder), "%s", sighting->holder);
    (void) snprintf(seen->host, sizeof(seen->host), "%s", sighting->host);
    (void) snprintf(seen->data, sizeof(seen->data), "%.*s", (int) sighting->data_length,
                    (const char *) sighting->data);
}

static struct redlock *observer_new(struct seen *seen) {
    const struct redlock_callbacks callbacks = {.size = sizeof(callbacks), .leader = on_leader};
    struct redlock *connection = connection_new();

    *seen = (struct seen){0};
    redlock_set_callbacks(connection, &callbacks, seen);
    return connection;
}

static void test_observe(void) {
    struct seen seen;
    struct redlock *connection = connection_new(), *observer = observer_new(&seen);
    struct redlock_options options = options_of(0, 0);
    struct redlock_lease *lease = NULL;

    options.data = "at home";
    options.data_length = 7;
    is(redlock_observe(observer, ""), REDLOCK_BAD_NAME);
    is(redlock_observe(observer, "redlockd:epoch"), REDLOCK_BAD_NAME);
    is(redlock_observe(observer, "observed"), REDLOCK_OK);
    is(redlock_observe(observer, "observed"), REDLOCK_OK);
    ok(dispatch_until(observer, &seen.count, 1) && seen.leadership == REDLOCK_LEADER_NONE,
       "an observer gets that the name is free");
    is(redlock_acquire(connection, "observed", &options, &lease), REDLOCK_OK);
    ok(dispatch_until(observer, &seen.count, 2) && seen.leadership == REDLOCK_LEADER_HELD,
       "then its holder");
    is_string(seen.name, "observed", "with the name");
    ok(seen.host[0] != '\0' && strncmp(seen.holder, seen.host, strlen(seen.host)) == 0, "the host");
    is_string(seen.data, "at home", "the data");
    ok(seen.fence == redlock_fence(lease), "the fencing token");
    is(redlock_release(lease), 1);
    ok(dispatch_until(observer, &seen.count, 3) && seen.leadership == REDLOCK_LEADER_NONE,
       "then that the name is free again");
    is(redlock_unobserve(observer, "observed"), 1);
    is(redlock_unobserve(observer, "observed"), 0);
    is(redlock_acquire(connection, "observed", NULL, &lease), REDLOCK_OK);
    is(redlock_check(lease) > 0, 1);
    is(redlock_dispatch(observer), REDLOCK_OK);
    is(seen.count, 3);
    redlock_close(connection);
    redlock_close(observer);
}

/* --- processes and threads --- */

/* The number of calls that are refused in the child. */
static int child_calls(struct redlock *connection, struct redlock_lease *lease) {
    struct redlock_lease *mine = NULL;
    struct redlock_leader leader = REDLOCK_LEADER_INIT;
    int refused = 0;

    refused += redlock_check(lease) == REDLOCK_FORKED;
    refused += redlock_beat(lease) == REDLOCK_FORKED;
    refused += redlock_remaining_ns(lease) <= 0;
    refused += redlock_acquire(connection, "of the child", NULL, &mine) == REDLOCK_FORKED;
    refused += redlock_acquire_async(connection, "of the child", NULL, &mine) == REDLOCK_FORKED;
    refused += redlock_leader(connection, "forked", &leader) == REDLOCK_FORKED;
    refused += redlock_observe(connection, "forked") == REDLOCK_FORKED;
    refused += redlock_unobserve(connection, "forked") == REDLOCK_FORKED;
    refused += redlock_dispatch(connection) == REDLOCK_FORKED;
    refused += redlock_release(lease) == REDLOCK_FORKED;
    redlock_close(connection);
    return refused;
}

static void test_fork(void) {
    struct redlock *connection = connection_new();
    struct redlock_lease *lease = NULL;
    int status = 0;

    is(redlock_acquire(connection, "forked", NULL, &lease), REDLOCK_OK);
    (void) fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(child_calls(connection, lease));
    (void) waitpid(child, &status, 0);
    is(WEXITSTATUS(status), 10);
    ok(redlock_check(lease) > 0, "the parent's lease survives the child's calls, close and exit");
    is(redlock_release(lease), 1);
    redlock_close(connection);
}

/* A process acquires a lease and dies; its child lives on with the inherited descriptors. */
static void test_orphan(void) {
    struct redlock *connection = connection_new();
    struct redlock_options waiting = options_of(0, 20000);
    struct redlock_lease *lease = NULL;
    int ready[2], status = 0;
    pid_t grandchild = 0;

    if (pipe(ready) < 0)
        abort();
    (void) fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct redlock *own = connection_new();
        struct redlock_lease *its = NULL;
        if (redlock_acquire(own, "orphaned", NULL, &its) != REDLOCK_OK)
            _exit(1);
        pid_t inner = fork();
        if (inner == 0) {
            (void) pause();
            _exit(0);
        }
        if (write(ready[1], &inner, sizeof(inner)) != sizeof(inner))
            _exit(2);
        (void) kill(getpid(), SIGKILL);
    }
    (void) waitpid(child, &status, 0);
    if (read(ready[0], &grandchild, sizeof(grandchild)) != sizeof(grandchild))
        grandchild = 0;
    int64_t begun_ms = now_ms();
    is(redlock_acquire(connection, "orphaned", &waiting, &lease), REDLOCK_OK);
    ok(now_ms() - begun_ms < 5000, "a forked child does not prolong its dead parent's lease");
    if (grandchild > 0)
        (void) kill(grandchild, SIGKILL);
    (void) close(ready[0]);
    (void) close(ready[1]);
    redlock_close(connection);
}

/* All descriptors of the library are close-on-exec. */
static void test_close_on_exec(void) {
    struct redlock *connection = connection_new();
    unsigned seen = 0, inherited = 0;
    struct dirent *entry;

    (void) redlock_fd(connection);
    DIR *directory = opendir("/proc/self/fd");
    if (!directory)
        abort();
    while ((entry = readdir(directory))) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || fd <= STDERR_FILENO)
            continue;
        seen++;
        if (!(fcntl(fd, F_GETFD) & FD_CLOEXEC))
            inherited++;
    }
    (void) closedir(directory);
    ok(seen > 1, "the library has descriptors (%u)", seen);
    is(inherited, 0);
    redlock_close(connection);
}

enum { THREADS = 4, TURNS = 100 };

static atomic_uint inside, together, turns;

/* Each thread with a connection of its own. */
static void *contend(void *userdata) {
    struct redlock *connection = connection_new();
    struct redlock_options waiting = options_of(0, -1);

    (void) userdata;
    for (unsigned i = 0; i < TURNS; i++) {
        struct redlock_lease *lease = NULL;
        if (redlock_acquire(connection, "threads", &waiting, &lease) != REDLOCK_OK)
            break;
        if (atomic_fetch_add(&inside, 1) != 0)
            atomic_fetch_add(&together, 1);
        atomic_fetch_add(&turns, 1);
        atomic_fetch_sub(&inside, 1);
        (void) redlock_release(lease);
    }
    redlock_close(connection);
    return NULL;
}

static void test_threads(void) {
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, contend, NULL) != 0)
            abort();
    for (unsigned i = 0; i < THREADS; i++)
        (void) pthread_join(threads[i], NULL);
    is(atomic_load(&turns), THREADS * TURNS);
    is(atomic_load(&together), 0);
}

/* --- an agent that does not reply --- */

static void test_stopped_agent(void) {
    struct redlock *connection = connection_new(), *loop = connection_new();
    struct redlock_options options = options_of(BRIEF_MS, 0), longer = options_of(30000, 0);
    struct redlock_lease *lease = NULL, *watched = NULL, *later = NULL;
    struct events events;

    count_events(loop, &events);
    is(redlock_acquire(connection, "stopped", &options, &lease), REDLOCK_OK);
    is(redlock_acquire_async(loop, "later", &longer, &later), REDLOCK_OK); /* sets the timer first */
    (void) dispatch_until(loop, &events.granted, 1);
    is(redlock_acquire_async(loop, "watched", &options, &watched), REDLOCK_OK);
    (void) dispatch_until(loop, &events.granted, 2);
    (void) kill(agent_pid, SIGSTOP);
    redlock_set_answer_timeout(connection, 100);
    int64_t deadline_ms = now_ms() + redlock_remaining_ns(watched) / 1000000;
    is(redlock_check(lease), REDLOCK_NO_ANSWER);
    ok(dispatch_until(loop, &events.lost, 1), "rule 13: the loss is reported while the agent is stopped");
    ok(events.lost_ms <= deadline_ms + 250, "at the deadline (%lld ms after it)",
       (long long) (events.lost_ms - deadline_ms));
    while (redlock_remaining_ns(lease) > 0 && now_ms() < deadline_ms + BRIEF_MS)
        (void) usleep(1000); /* it may have been extended just before the stop */
    ok(redlock_remaining_ns(watched) <= 0 && redlock_remaining_ns(lease) <= 0, "both leases have expired");
    (void) kill(agent_pid, SIGCONT);
    (void) redlock_release(watched);
    (void) redlock_release(lease);
    redlock_close(connection);
    redlock_close(loop);
}

/* A lease from a blocking call, with an event loop. */
static void test_stopped_agent_blocking(void) {
    struct redlock *connection = connection_new();
    struct redlock_options options = options_of(BRIEF_MS, 0);
    struct redlock_lease *lease = NULL;
    struct events events;

    count_events(connection, &events);
    struct pollfd fd = {.fd = redlock_fd(connection), .events = POLLIN};
    is(redlock_acquire(connection, "stopped blocking", &options, &lease), REDLOCK_OK);
    (void) kill(agent_pid, SIGSTOP);
    int64_t deadline_ms = now_ms() + redlock_remaining_ns(lease) / 1000000;
    while (events.lost == 0 && now_ms() < deadline_ms + LATE_MS)
        if (poll(&fd, 1, BRIEF_MS + LATE_MS) > 0)
            (void) redlock_dispatch(connection);
    ok(events.lost == 1 && events.lost_ms <= deadline_ms + 250,
       "the loss of a lease from a blocking call is reported at its deadline");
    (void) kill(agent_pid, SIGCONT);
    (void) redlock_release(lease);
    redlock_close(connection);
}

static void test_killed_agent(void) {
    struct redlock *connection = connection_new(), *loop = connection_new();
    struct redlock_options options = options_of(2 * BRIEF_MS, 0); /* at risk from half of it on */
    struct redlock_lease *lease = NULL, *watched = NULL;
    struct events events;
    struct seen seen;
    struct redlock *observer = observer_new(&seen);

    is(redlock_observe(observer, "observed"), REDLOCK_OK);
    (void) dispatch_until(observer, &seen.count, 1);
    redlock_set_answer_timeout(observer, 100);
    count_events(loop, &events);
    is(redlock_acquire(connection, "killed", &options, &lease), REDLOCK_OK);
    is(redlock_acquire_async(loop, "watched too", &options, &watched), REDLOCK_OK);
    (void) dispatch_until(loop, &events.granted, 1);
    (void) kill(agent_pid, SIGKILL);
    ok(dispatch_until(loop, &events.at_risk, 1),
       "the lease is reported at risk"); /* its sockets are closed */
    redlock_set_answer_timeout(connection, 100);
    is(redlock_check(lease), REDLOCK_AGENT_AWAY);
    ok(redlock_remaining_ns(lease) > 0, "the lease is valid until its deadline");
    ok(events.lost == 0 && redlock_remaining_ns(watched) > 0, "while still valid");
    is_string(events.reason, "agent-away", "with the reason");
    ok(dispatch_until(loop, &events.lost, 1), "then the lease is lost");
    ok(dispatch_until(loop, &events.disconnected, 1), "and the connection is over");
    ok(dispatch_until(observer, &seen.count, 2) && seen.leadership == REDLOCK_LEADER_UNKNOWN,
       "an observer gets that the leader is unknown");
    is(redlock_dispatch(observer), REDLOCK_OK); /* not over */
    redlock_close(observer);
    (void) redlock_check(lease); /* any result: its deadline has passed */
    is(redlock_acquire(connection, "more", NULL, &lease), REDLOCK_AGENT_AWAY);
    redlock_close(connection);
    redlock_close(loop);
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 64;
    socket_path = argv[1];
    agent_pid = atoi(argv[2]);
    test_connect();
    test_blocking();
    test_options();
    test_event_loop();
    test_timer();
    test_extension();
    test_observe();
    test_fork();
    test_orphan();
    test_close_on_exec();
    test_threads();
    test_stopped_agent();
    test_stopped_agent_blocking();
    test_killed_agent();
    return done_testing();
}
