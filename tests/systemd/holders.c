/* A load for an agent: CONNECTIONS * LEASES leases that stay held, and names whose leases change hands at
 * full speed. Prints "held" when all leases are granted. At the end of standard input, prints counters: all
 * but the last must be 0. */

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "redlock.h"

enum { CONNECTIONS = 8, LEASES = 25, CHURNS = 4 };

struct holder {
    struct redlock *connection;
    struct redlock_lease *leases[LEASES];
    uint64_t fences[LEASES];
};

/* Two connections repeatedly acquire the same name. */
struct churn {
    struct redlock *connection;
    struct redlock_lease *lease;
    bool granted;
};

static struct holder holders[CONNECTIONS];
static struct churn churns[CHURNS];
static unsigned granted, lost, failed, invalid, other, churned;

static void on_granted(struct redlock_lease *lease, void *userdata) {
    (void) lease;
    (void) userdata;
    granted++;
}

static void on_failed(struct redlock_lease *lease, enum redlock_error error, const char *text,
                      void *userdata) {
    (void) lease;
    (void) error;
    (void) userdata;
    (void) fprintf(stderr, "failed: %s\n", text);
    failed++;
}

static void on_lost(struct redlock_lease *lease, const char *reason, const char *text, void *userdata) {
    (void) userdata;
    (void) fprintf(stderr, "%s lost: %s: %s\n", redlock_lease_name(lease), reason, text);
    lost++;
}

static void on_churn_granted(struct redlock_lease *lease, void *userdata) {
    (void) lease;
    ((struct churn *) userdata)->granted = true;
}

static void on_churn_failed(struct redlock_lease *lease, enum redlock_error error, const char *text,
                            void *userdata) {
    (void) lease;
    (void) error;
    (void) text; /* for example because the agent stops */
    ((struct churn *) userdata)->lease = NULL;
}

static struct redlock *connect_with(const struct redlock_callbacks *callbacks, void *userdata) {
    struct redlock *connection;

    if (redlock_connect(NULL, &connection) != REDLOCK_OK || redlock_fd(connection) < 0)
        abort();
    redlock_set_callbacks(connection, callbacks, userdata);
    return connection;
}

static void begin(void) {
    static const struct redlock_callbacks callbacks = {
        .size = sizeof(callbacks), .granted = on_granted, .failed = on_failed, .lost = on_lost};
    static const struct redlock_callbacks churn_callbacks = {
        .size = sizeof(churn_callbacks), .granted = on_churn_granted, .failed = on_churn_failed};
    struct redlock_options options = REDLOCK_OPTIONS_INIT;
    char name[32];

    options.wait_ms = 10000;
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        holders[i].connection = connect_with(&callbacks, NULL);
        for (unsigned j = 0; j < LEASES; j++) {
            (void) snprintf(name, sizeof(name), "load-%u-%u", i, j);
            if (redlock_acquire_async(holders[i].connection, name, &options, &holders[i].leases[j]) !=
                REDLOCK_OK)
                abort();
        }
    }
    for (unsigned i = 0; i < CHURNS; i++)
        churns[i].connection = connect_with(&churn_callbacks, &churns[i]);
}

static void churn(struct churn *churn, unsigned i) {
    struct redlock_options options = REDLOCK_OPTIONS_INIT;
    char name[32];

    if (redlock_dispatch(churn->connection) != REDLOCK_OK)
        return;
    if (churn->granted) {
        churned++;
        (void) redlock_release_async(churn->lease);
        churn->lease = NULL;
        churn->granted = false;
    }
    options.wait_ms = -1;
    (void) snprintf(name, sizeof(name), "churn-%u", i / 2);
    if (!churn->lease)
        (void) redlock_acquire_async(churn->connection, name, &options, &churn->lease);
}

/* Each check finds the same grants held. */
static void check_grants(void) {
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        for (unsigned j = 0; j < LEASES; j++) {
            uint64_t fence = redlock_fence(holders[i].leases[j]);
            if (holders[i].fences[j] == 0)
                holders[i].fences[j] = fence;
            invalid += !redlock_valid(holders[i].leases[j]);
            other += fence != holders[i].fences[j];
        }
    }
}

int main(void) {
    struct pollfd fds[1 + CONNECTIONS + CHURNS] = {{.fd = STDIN_FILENO, .events = POLLIN}};
    bool printed = false;

    begin();
    for (unsigned i = 0; i < CONNECTIONS + CHURNS; i++)
        fds[1 + i] = (struct pollfd){
            .fd = redlock_fd(i < CONNECTIONS ? holders[i].connection : churns[i - CONNECTIONS].connection),
            .events = POLLIN};
    while (fds[0].revents == 0) {
        (void) poll(fds, sizeof(fds) / sizeof(fds[0]), 20);
        for (unsigned i = 0; i < CONNECTIONS; i++)
            (void) redlock_dispatch(holders[i].connection);
        for (unsigned i = 0; i < CHURNS; i++)
            churn(&churns[i], i);
        if (granted == CONNECTIONS * LEASES) {
            if (!printed)
                (void) puts("held");
            (void) fflush(stdout);
            printed = true;
            check_grants();
        }
    }
    (void) printf("not-granted=%u lost=%u failed=%u invalid=%u other=%u churned=%u\n",
                  CONNECTIONS * LEASES - granted, lost, failed, invalid, other, churned);
    return 0;
}
