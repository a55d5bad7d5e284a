/* What the programs that test libredlock have in common: a clock, connections, and an event loop that counts
 * callbacks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "redlock.h"

extern const char *socket_path; /* the agent's */

int64_t now_ns(clockid_t clock);
int64_t now_ms(void); /* CLOCK_BOOTTIME */

/* Ends the program when there is none. */
struct redlock *connection_new(void);
struct redlock_options options_of(int64_t ttl_ms, int64_t wait_ms);

struct events {
    unsigned granted, failed, at_risk, extended, lost, disconnected;
    int error;
    char reason[32]; /* of the last one at risk or lost */
    int64_t lost_ms;
};

/* Counts the connection's callbacks, from 0 on. */
void count_events(struct redlock *connection, struct events *events);

/* Runs an event loop until the counter is at least `wanted`; false when it is not within 40 s. */
bool dispatch_until(struct redlock *connection, const unsigned *counter, unsigned wanted);

/* Runs an event loop for a while. */
void dispatch_for(struct redlock *connection, int64_t ms);
