#include "library-harness.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct library_events events;

static void on_granted(struct redlock_lease *lease, void *userdata) {
    (void) lease;
    (void) userdata;
    events.granted++;
}

static void on_failed(struct redlock_lease *lease, enum redlock_error error, const char *text,
                      void *userdata) {
    (void) userdata;
    events.failed++;
    events.error = error;
    (void) snprintf(events.text, sizeof(events.text), "%s", text);
    (void) redlock_valid(lease);
}

static void on_at_risk(struct redlock_lease *lease, int64_t left_ms, const char *reason, void *userdata) {
    (void) left_ms;
    (void) reason;
    (void) userdata;
    events.at_risk++;
    (void) redlock_lease_id(lease);
}

static void on_extended(struct redlock_lease *lease, void *userdata) {
    (void) userdata;
    events.extended++;
    (void) redlock_lease_id(lease);
}

static void on_lost(struct redlock_lease *lease, const char *reason, const char *text, void *userdata) {
    (void) userdata;
    events.lost++;
    (void) snprintf(events.reason, sizeof(events.reason), "%s", reason);
    (void) snprintf(events.text, sizeof(events.text), "%s", text);
    (void) redlock_valid(lease);
}

struct redlock *connect_scripted(void) {
    const struct redlock_callbacks callbacks = {.size = sizeof(callbacks),
                                                .granted = on_granted,
                                                .failed = on_failed,
                                                .at_risk = on_at_risk,
                                                .extended = on_extended,
                                                .lost = on_lost};
    struct redlock *connection = NULL;

    memset(&events, 0, sizeof(events));
    if (redlock_connect(scripted.path, &connection) != REDLOCK_OK)
        abort();
    (void) redlock_set_callbacks(connection, &callbacks, NULL);
    redlock_set_answer_timeout(connection, TIMEOUT_MS);
    return connection;
}

struct redlock_lease *acquire(struct redlock *connection) {
    struct redlock_lease *lease = NULL;

    if (redlock_acquire(connection, "x", NULL, &lease) != REDLOCK_OK)
        abort();
    return lease;
}

bool dispatch_until(struct redlock *connection, const unsigned *counter, unsigned wanted) {
    int64_t until_ns = boottime_ns() + TIMEOUT_MS * NS_PER_MS;

    while (*counter < wanted && boottime_ns() < until_ns) {
        struct pollfd fd = {.fd = redlock_fd(connection), .events = POLLIN};
        (void) poll(&fd, 1, 10);
        (void) redlock_dispatch(connection);
    }
    return *counter >= wanted;
}

bool counts_to(const _Atomic unsigned *counter, unsigned wanted) {
    int64_t until_ns = boottime_ns() + TIMEOUT_MS * NS_PER_MS;

    while (*counter < wanted && boottime_ns() < until_ns)
        (void) usleep(200);
    return *counter >= wanted;
}
