#include "core/round-trace.h"

#include "base/instant.h"
#include "core/ticket.h"

static struct round_trace_place *place_of(struct round_trace_place *places, uint64_t ticket) {
    return &places[ticket_slot(ticket) % ROUND_TRACES];
}

void round_trace_ask(struct round_trace_place *places, uint64_t ticket, node_set nodes) {
    struct round_trace_place *place = place_of(places, ticket);

    if (place->ticket != ticket)
        *place = (struct round_trace_place){.ticket = ticket};
    for (unsigned i = 0; i < NODES_MAX; i++)
        if (nodes & node_set_of(i))
            place->trace.answers[i] = ROUND_ANSWER_SILENT;
}

void round_trace_vote(struct round_trace_place *places, uint64_t ticket, unsigned node,
                      enum round_trace_answer answer, int64_t after_ns) {
    struct round_trace_place *place = place_of(places, ticket);
    int64_t steps = after_ns >> ROUND_TRACE_STEP_BITS;

    if (place->ticket != ticket)
        return;
    place->trace.answers[node] = (uint8_t) answer;
    place->trace.after[node] = (uint16_t) (steps < 0 ? 0 : instant_min(steps, UINT16_MAX));
}

void round_trace_clear(struct round_trace_place *places, uint64_t ticket) {
    if (place_of(places, ticket)->ticket == ticket)
        place_of(places, ticket)->ticket = 0;
}

struct round_trace round_trace_of(const struct round_trace_place *places, uint64_t ticket) {
    const struct round_trace_place *place = &places[ticket_slot(ticket) % ROUND_TRACES];

    return place->ticket == ticket ? place->trace : (struct round_trace){0};
}
