/* A program with libredlock, a scenario a run: program SOCKET SCENARIO NAME. It prints what it got, a line
 * each, and ends with 0; after an error that the library returned, with 1 and its text. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "redlock.h"

enum { PATIENCE_MS = 5000, POLL_MS = 100 };

static struct redlock *connection;
static const char *name;
static unsigned granted, failed, disconnected, sighted;

static int64_t now_ms(void) {
    struct timespec now;

    (void) clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static unsigned descriptors(void) {
    DIR *directory = opendir("/proc/self/fd");
    unsigned n = 0;

    while (directory && readdir(directory))
        n++;
    if (directory)
        (void) closedir(directory);
    return n;
}

/* A refusal in order: the text of an error is never empty. */
static void refuse(const char *call, int error) {
    (void) printf("%s: %s\n", call, redlock_strerror(error));
    redlock_close(connection);
    connection = NULL;
}

static bool good(const char *call, int64_t outcome) {
    if (outcome < 0)
        refuse(call, (int) outcome);
    return outcome >= 0;
}

/* Of a lease: the library says 0 when it is lost, and redlock_valid() says so from then on. */
static bool held(const char *call, const struct redlock_lease *lease, int64_t outcome) {
    if (outcome == 0 && redlock_valid(lease))
        abort();
    if (outcome == 0)
        (void) printf("%s: the lease is lost\n", call);
    return good(call, outcome) && outcome > 0;
}

/* The lease is gone then. */
static bool released(struct redlock_lease *lease) {
    int r = redlock_release(lease);

    if (r == 0)
        (void) printf("release: the lease was lost\n");
    return good("release", r) && r > 0;
}

static struct redlock_lease *acquire(const struct redlock_options *options) {
    struct redlock_lease *lease = NULL;

    if (!good("acquire", redlock_acquire(connection, name, options, &lease)))
        return NULL;
    if (!redlock_valid(lease) || redlock_fence(lease) == 0 || strcmp(redlock_lease_name(lease), name) != 0)
        abort();
    (void) printf("fence %llu\n", (unsigned long long) redlock_fence(lease));
    return lease;
}

static bool blocking(void) {
    struct redlock_options options = REDLOCK_OPTIONS_INIT;

    options.wait_ms = 3000;
    options.data = "published";
    options.data_length = strlen("published");
    struct redlock_lease *lease = acquire(&options);
    if (!lease || !held("check", lease, redlock_check(lease)))
        return false;
    return released(lease);
}

static bool heartbeat(void) {
    struct redlock_options options = REDLOCK_OPTIONS_INIT;

    options.heartbeat_ms = 1000;
    options.wait_ms = 3000;
    struct redlock_lease *lease = acquire(&options);
    if (!lease || !held("beat", lease, redlock_beat(lease)))
        return false;
    return good("release", redlock_release_async(lease));
}

static void on_granted(struct redlock_lease *lease, void *userdata) {
    (void) userdata;
    granted++;
    if (!redlock_valid(lease))
        abort();
    (void) printf("fence %llu\n", (unsigned long long) redlock_fence(lease));
}

static void on_failed(struct redlock_lease *lease, enum redlock_error error, const char *text,
                      void *userdata) {
    (void) lease;
    (void) userdata;
    failed++;
    (void) printf("failed: %s: %s\n", redlock_strerror(error), text);
}

static void on_disconnected(struct redlock *ended, void *userdata) {
    (void) ended;
    (void) userdata;
    disconnected++;
}

static void on_leader(struct redlock *from, const struct redlock_sighting *sighting, void *userdata) {
    (void) from;
    (void) userdata;
    sighted += sighting->leadership == REDLOCK_LEADER_NONE;
}

/* As an event loop does, until one of them counts. */
static bool dispatch_until(const unsigned *counter) {
    int64_t until_ms = now_ms() + PATIENCE_MS;

    while (*counter == 0 && failed == 0 && disconnected == 0) {
        struct pollfd fd = {.fd = redlock_fd(connection), .events = (short) redlock_events(connection)};
        if (fd.fd < 0)
            return good("fd", fd.fd);
        (void) poll(&fd, 1, POLL_MS);
        if (!good("dispatch", redlock_dispatch(connection)))
            return false;
        if (now_ms() > until_ms) {
            (void) printf("no event within %d ms\n", PATIENCE_MS);
            exit(2);
        }
    }
    return *counter > 0;
}

static void listen_to(void) {
    const struct redlock_callbacks callbacks = {.size = sizeof(callbacks),
                                                .granted = on_granted,
                                                .failed = on_failed,
                                                .disconnected = on_disconnected,
                                                .leader = on_leader};

    (void) redlock_set_callbacks(connection, &callbacks, NULL);
}

static bool asynchronous(void) {
    struct redlock_options options = REDLOCK_OPTIONS_INIT;
    struct redlock_lease *lease = NULL;

    options.wait_ms = 3000;
    listen_to();
    if (!good("acquire_async", redlock_acquire_async(connection, name, &options, &lease)) ||
        !dispatch_until(&granted))
        return false;
    return released(lease);
}

static bool observing(void) {
    listen_to();
    if (!good("observe", redlock_observe(connection, name)) || !dispatch_until(&sighted))
        return false;
    return good("unobserve", redlock_unobserve(connection, name));
}

static bool leader(void) {
    struct redlock_leader found = REDLOCK_LEADER_INIT;

    if (!good("leader", redlock_leader(connection, name, &found)))
        return false;
    (void) printf("leader\n");
    return true;
}

/* The connection breaks while it has a lease: the library resumes the lease, or reports its end. */
static bool broken(void) {
    struct redlock_options options = REDLOCK_OPTIONS_INIT;

    options.wait_ms = 3000;
    struct redlock_lease *lease = acquire(&options);
    if (!lease)
        return false;
    for (int fd = 3; fd < 32; fd++) /* all that may be it */
        (void) shutdown(fd, SHUT_RDWR);
    int64_t left_ms = redlock_check(lease);
    (void) printf("after the break: %s\n", left_ms > 0    ? "held"
                                           : left_ms == 0 ? "lost"
                                                          : redlock_strerror((int) left_ms));
    (void) redlock_release(lease);
    return true;
}

static bool many(void) {
    struct redlock_lease *leases[20] = {0};
    bool all = true;
    char own[128];

    for (unsigned i = 0; i < 20 && all; i++) {
        (void) snprintf(own, sizeof(own), "%s-%u", name, i);
        all = good("acquire", redlock_acquire(connection, own, NULL, &leases[i]));
    }
    for (unsigned i = 0; i < 20 && all; i++)
        all = released(leases[i]);
    return all;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        bool (*run)(void);
    } scenarios[] = {{"blocking", blocking},
                     {"heartbeat", heartbeat},
                     {"asynchronous", asynchronous},
                     {"observing", observing},
                     {"leader", leader},
                     {"broken", broken},
                     {"many", many}};
    unsigned before = descriptors();
    bool done = false;

    if (argc != 4)
        return 64;
    (void) setvbuf(stdout, NULL, _IONBF, 0);
    name = argv[3];
    if (good("connect", redlock_connect(argv[1], &connection))) {
        redlock_set_answer_timeout(connection, 3000);
        for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
            if (strcmp(scenarios[i].name, argv[2]) == 0)
                done = scenarios[i].run();
        redlock_close(connection);
    }
    unsigned after = descriptors();
    if (before > 0 && after > before) {
        (void) printf("%u descriptors, %u before\n", after, before);
        return 3;
    }
    (void) printf("%s\n", done ? "done" : "refused");
    return done ? 0 : 1;
}
