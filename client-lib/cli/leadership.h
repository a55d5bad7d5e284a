/* Who leads a name, as leader and watch print it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redlock;

struct leadership {
    const char *name;
    const char *state; /* NULL: held, and not to be told; else "held", "free" or "unknown" */
    const char *holder, *host, *data, *type; /* type: of a key that is no lock; else empty */
    size_t holder_length, host_length, data_length, type_length;
    uint64_t fence;      /* 0: none */
    int64_t since_us;    /* of the wall clock, at the latest; -1: not known but from the token */
    int64_t validity_ms; /* -1: not known */
};

/* One line. */
void leadership_print(const struct leadership *leadership, bool json);

/* Asks a majority of the nodes who holds `name`, and prints it; its token too, 0 when there is none.
 * STATUS_DONE: held; STATUS_HELD: by nobody; or another exit status, told. */
int leadership_show(struct redlock *connection, const char *name, bool json, uint64_t *ret_fence);

/* Microseconds since 1970. */
int64_t leadership_wall_clock_us(void);
