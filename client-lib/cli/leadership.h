/* Who leads a name, as leader and watch print it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Microseconds since 1970. */
int64_t wall_clock_us(void);
