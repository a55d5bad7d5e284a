/* The agent's CLOCK_BOOTTIME on this process's own. Both are one clock, except in another time namespace:
 * there they differ by a constant. Each message that has the agent's time bounds that constant, since it was
 * written after its question was sent and before it was received. Pure.
 *
 * As long as 0 is within the bounds it is taken for the constant; else the lower one, with which a deadline
 * is never later than the agent means it. */
#pragma once

#include <stdint.h>

/* This process's clock minus the agent's. */
struct agent_clock {
    int64_t low_ns, high_ns;
    _Atomic int64_t shift_ns; /* what is taken for it; read by other threads too */
};

/* Of an agent that has told nothing yet. */
void agent_clock_init(struct agent_clock *clock);

/* The agent's clock was within `agent_ns` and `agent_ns` + `vague_ns` when it wrote what was received at
 * `received_ns`. Not before `sent_ns`, when it was asked for that. */
void agent_clock_told(struct agent_clock *clock, int64_t agent_ns, int64_t vague_ns, int64_t sent_ns,
                      int64_t received_ns);

/* The same of a deadline and the validity, in whole ms, that was left until then. */
void agent_clock_granted(struct agent_clock *clock, int64_t deadline_ns, int64_t validity_ms,
                         int64_t sent_ns, int64_t received_ns);

/* An instant of the agent's by this process's clock. Thread-safe. */
int64_t agent_clock_here_ns(const struct agent_clock *clock, int64_t agent_ns);
