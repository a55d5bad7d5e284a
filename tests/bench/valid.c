/* bench valid SOCKET: what redlock_valid() costs beside reading the clock. */

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "redlock.h"

enum { CALLS = 500000 };

static volatile bool sink;

int run_valid(char **arguments) {
    struct redlock *connection;
    struct redlock_lease *lease;
    struct timespec t;
    char name[32];

    if (!arguments[0] || redlock_connect(arguments[0], &connection) != REDLOCK_OK)
        fail("usage", "bench valid SOCKET");
    (void) snprintf(name, sizeof(name), "valid-%d", (int) getpid());
    if (redlock_acquire(connection, name, NULL, &lease) != REDLOCK_OK)
        fail("redlock_acquire", redlock_error_text(connection));
    double begun_us = now_us();
    for (unsigned i = 0; i < CALLS; i++)
        (void) clock_gettime(CLOCK_BOOTTIME, &t);
    double clock_us = now_us() - begun_us;
    begun_us = now_us();
    for (unsigned i = 0; i < CALLS; i++)
        sink = redlock_valid(lease);
    double valid_us = now_us() - begun_us;
    if (!sink)
        fail("the lease", "is not valid");
    (void) redlock_release(lease);
    redlock_close(connection);
    (void) printf("{\"valid_ns\": %.2f, \"clock_ns\": %.2f}\n", valid_us * 1e3 / CALLS,
                  clock_us * 1e3 / CALLS);
    return 0;
}
