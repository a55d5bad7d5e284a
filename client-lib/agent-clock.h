/* Converts the agent's CLOCK_BOOTTIME to this process's. Pure. Both are the same clock, except in different
 * time namespaces, where they differ by a constant (time_namespaces(7)). Each reply with the agent's time
 * bounds that constant, because the agent wrote it after the request was sent and before the reply was
 * received.
 *
 * While 0 is within the bounds, the constant is taken as 0; else as the lower bound, with which a converted
 * deadline is never too late. */
#pragma once

#include <stdint.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

/* This process's clock minus the agent's. */
struct agent_clock {
    int64_t low_ns, high_ns;
    _Atomic int64_t shift_ns; /* the constant as taken; read by other threads */
};

/* Without bounds: for a new agent. */
void agent_clock_init(struct agent_clock *clock);

/* The agent's clock was between `agent_ns` and `agent_ns` + `vague_ns` when it wrote a reply that was
 * received at `received_ns`; its request was sent at `sent_ns`. */
void agent_clock_bound(struct agent_clock *clock, int64_t agent_ns, int64_t vague_ns, int64_t sent_ns,
                       int64_t received_ns);

/* The same from a deadline and the remaining validity in whole ms. */
void agent_clock_bound_grant(struct agent_clock *clock, int64_t deadline_ns, int64_t validity_ms,
                             int64_t sent_ns, int64_t received_ns);

/* Converts an instant of the agent's clock. Thread-safe. */
int64_t agent_clock_here_ns(const struct agent_clock *clock, int64_t agent_ns);
