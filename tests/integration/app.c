#include "app.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { PATIENCE_MS = 40000, POLL_MS = 100 };

const char *socket_path;

int64_t now_ns(clockid_t clock) {
    struct timespec now;

    (void) clock_gettime(clock, &now);
    return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t now_ms(void) {
    return now_ns(CLOCK_BOOTTIME) / 1000000;
}

struct redlock *connection_new(void) {
    struct redlock *connection = NULL;

    if (redlock_connect(socket_path, &connection) != REDLOCK_OK) {
        (void) printf("Bail out! can't connect to %s\n", socket_path);
        exit(1);
    }
    return connection;
}

struct redlock_options options_of(int64_t ttl_ms, int64_t wait_ms) {
    struct redlock_options options = REDLOCK_OPTIONS_INIT;

    options.ttl_ms = ttl_ms;
    options.wait_ms = wait_ms;
    return options;
}

static void on_granted(struct redlock_lease *lease, void *userdata) {
    struct events *events = userdata;

    (void) lease;
    events->granted++;
}

static void on_failed(struct redlock_lease *lease, enum redlock_error error, const char *text,
                      void *userdata) {
    struct events *events = userdata;

    (void) lease;
    (void) text;
    events->failed++;
    events->error = error;
}

static void on_at_risk(struct redlock_lease *lease, int64_t left_ms, const char *reason, void *userdata) {
    struct events *events = userdata;

    (void) lease;
    (void) left_ms;
    events->at_risk++;
    (void) snprintf(events->reason, sizeof(events->reason), "%s", reason);
}

static void on_extended(struct redlock_lease *lease, void *userdata) {
    struct events *events = userdata;

    (void) lease;
    events->extended++;
}

static void on_lost(struct redlock_lease *lease, const char *reason, const char *text, void *userdata) {
    struct events *events = userdata;

    (void) lease;
    (void) text;
    events->lost++;
    events->lost_ms = now_ms();
    (void) snprintf(events->reason, sizeof(events->reason), "%s", reason);
}

static void on_disconnected(struct redlock *connection, void *userdata) {
    struct events *events = userdata;

    (void) connection;
    events->disconnected++;
}

void count_events(struct redlock *connection, struct events *events) {
    const struct redlock_callbacks callbacks = {
        .size = sizeof(callbacks),
        .granted = on_granted,
        .failed = on_failed,
        .at_risk = on_at_risk,
        .extended = on_extended,
        .lost = on_lost,
        .disconnected = on_disconnected,
    };

    *events = (struct events){0};
    redlock_set_callbacks(connection, &callbacks, events);
}

static void dispatch(struct redlock *connection) {
    struct pollfd fd = {.fd = redlock_fd(connection), .events = (short) redlock_events(connection)};

    if (poll(&fd, 1, POLL_MS) > 0) /* as an event loop does: the descriptor must become readable */
        (void) redlock_dispatch(connection);
}

bool dispatch_until(struct redlock *connection, const unsigned *counter, unsigned wanted) {
    int64_t until_ms = now_ms() + PATIENCE_MS;

    while (*counter < wanted && now_ms() < until_ms)
        dispatch(connection);
    return *counter >= wanted;
}

void dispatch_for(struct redlock *connection, int64_t ms) {
    int64_t until_ms = now_ms() + ms;

    while (now_ms() < until_ms)
        dispatch(connection);
}
