/* The leader of a name, as `redlock leader` and `redlock watch` print it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redlock;

enum { LEADERSHIP_UNTIMED = -2 };

struct leadership {
    const char *name;
    const char *state;                       /* "held", "free" or "unknown"; NULL: held, and not printed */
    const char *holder, *host, *data, *type; /* type: of a Redis key that is no lock; else empty */
    size_t holder_length, host_length, data_length, type_length;
    uint64_t fence;      /* 0: none */
    int64_t since_us;    /* wall clock, at the latest; -1: only the token shows it */
    bool since_is_known; /* it is the time of the grant, whatever the token shows */
    int64_t cooling_ms;  /* the lease has ended, and the name stays taken for this long; 0: it has not */
    int64_t validity_ms; /* -1: no expiry; LEADERSHIP_UNTIMED: not printed */
};

/* One line. */
void leadership_print(const struct leadership *leadership, bool json);

/* What leadership_show() found out about a name that is held. */
struct leadership_facts {
    uint64_t fence;     /* 0: none, or unknown */
    int64_t cooling_ms; /* as above */
    bool is_agents;     /* the lock is a lease of an agent, not another program's */
};

/* Asks a majority of the nodes for the holder of `name`, and prints the answer. `ret` may be NULL.
 * STATUS_DONE: held; STATUS_HELD: not held; or another exit status, reported. */
int leadership_show(struct redlock *connection, const char *name, bool json, struct leadership_facts *ret);

/* The wall clock so long ago, in microseconds since 1970; not before 1970. */
int64_t leadership_wall_clock_us(int64_t ago_ms);
