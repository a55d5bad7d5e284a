/* libredlock with a scripted agent, which does what a real agent rarely does: reports a lease as over and
 * dies before the push, runs in another time namespace, sends late. */
#pragma once

#include <stdatomic.h>

#include "redlock.h"
#include "scripted-agent.h"

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)
#define is(got, want) is_int(got, want, #got " is " #want)

enum { TIMEOUT_MS = 20000 };

/* Callbacks of the last connection. */
struct library_events {
    unsigned granted, failed, lost, at_risk, extended;
    enum redlock_error error; /* of the last that failed */
    char reason[64], text[256];
};

extern struct library_events events;

struct redlock *connect_scripted(void);
struct redlock_lease *acquire(struct redlock *connection);

/* Runs an event loop until the counter is at least `wanted`. */
bool dispatch_until(struct redlock *connection, const unsigned *counter, unsigned wanted);

/* Waits for the scripted agent's counter. */
bool counts_to(const _Atomic unsigned *counter, unsigned wanted);
