/* bench valid SOCKET clock|valid...: the cost of redlock_valid() beside that of reading the clock, in this
 * order. */

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "redlock.h"

enum { CALLS = 500000 };

static volatile bool sink;

static double clock_ns(void) {
    struct timespec t;
    double begun_us = now_us();

    for (unsigned i = 0; i < CALLS; i++)
        (void) clock_gettime(CLOCK_BOOTTIME, &t);
    return (now_us() - begun_us) * 1e3 / CALLS;
}

static double valid_ns(const struct redlock_lease *lease) {
    double begun_us = now_us();

    for (unsigned i = 0; i < CALLS; i++)
        sink = redlock_valid(lease);
    if (!sink)
        fail("the lease", "is not valid");
    return (now_us() - begun_us) * 1e3 / CALLS;
}

int run_valid(char **arguments) {
    struct redlock *connection;
    struct redlock_lease *lease;
    char name[32];

    for (unsigned i = 0; i < 2 || arguments[i]; i++)
        if (!arguments[i] ||
            (i > 0 && strcmp(arguments[i], "clock") != 0 && strcmp(arguments[i], "valid") != 0))
            fail("usage", "bench valid SOCKET clock|valid...");
    if (redlock_connect(arguments[0], &connection) != REDLOCK_OK)
        fail(arguments[0], "can't connect");
    (void) snprintf(name, sizeof(name), "valid-%d", (int) getpid());
    if (redlock_acquire(connection, name, NULL, &lease) != REDLOCK_OK)
        fail("redlock_acquire", redlock_error_text(connection));
    for (char **what = arguments + 1; *what; what++)
        (void) printf("%s\"%s_ns\": %.2f", what == arguments + 1 ? "{" : ", ", *what,
                      strcmp(*what, "clock") == 0 ? clock_ns() : valid_ns(lease));
    (void) printf("}\n");
    (void) redlock_release(lease);
    redlock_close(connection);
    return 0;
}
