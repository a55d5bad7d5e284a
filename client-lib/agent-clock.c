#include "agent-clock.h"

void agent_clock_init(struct agent_clock *clock) {
    clock->low_ns = INT64_MIN;
    clock->high_ns = INT64_MAX;
    clock->shift_ns = 0;
}

void agent_clock_bound(struct agent_clock *clock, int64_t agent_ns, int64_t vague_ns, int64_t sent_ns,
                       int64_t received_ns) {
    int64_t low_ns = sent_ns - agent_ns - vague_ns, high_ns = received_ns - agent_ns;

    /* The new bounds contradict the old ones: this agent's time namespace differs from the last one's. */
    if (low_ns > clock->high_ns || high_ns < clock->low_ns)
        agent_clock_init(clock);
    if (low_ns > clock->low_ns)
        clock->low_ns = low_ns;
    if (high_ns < clock->high_ns)
        clock->high_ns = high_ns;
    clock->shift_ns = clock->low_ns <= 0 && clock->high_ns >= 0 ? 0 : clock->low_ns;
}

void agent_clock_bound_grant(struct agent_clock *clock, int64_t deadline_ns, int64_t validity_ms,
                             int64_t sent_ns, int64_t received_ns) {
    agent_clock_bound(clock, deadline_ns - (validity_ms + 1) * NS_PER_MS, NS_PER_MS, sent_ns, received_ns);
}

int64_t agent_clock_here_ns(const struct agent_clock *clock, int64_t agent_ns) {
    int64_t here_ns;

    return __builtin_add_overflow(agent_ns, clock->shift_ns, &here_ns) ? agent_ns : here_ns;
}
