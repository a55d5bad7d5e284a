/* What each node answered in the last round that may set or extend a key, and how long after the round's
 * start: why an acquisition took so long, or failed, or why a lease was lost. For people alone: no rule
 * depends on a trace, and a trace may be missing.
 *
 * Traces are a table of ROUND_TRACES places, a fixed amount of memory for all leases of a shard. A round
 * takes the place of an earlier one, which then has none: rounds under way are fewer than places. */
#pragma once

#include <stdint.h>

#include "core/limits.h"
#include "core/node-set.h"

enum { ROUND_TRACES = 1024, ROUND_TRACE_STEP_BITS = 16 /* times are multiples of 2^16 ns */ };

enum round_trace_answer {
    ROUND_ANSWER_NONE,     /* not asked: the node did not vote; or unknown */
    ROUND_ANSWER_SILENT,   /* asked, and not answered yet */
    ROUND_ANSWER_YES,      /* has the key */
    ROUND_ANSWER_REPAIRED, /* has the key again: counts from the next round on */
    ROUND_ANSWER_HELD,     /* the key has another's value */
    ROUND_ANSWER_BEHIND,   /* the fencing token was not accepted */
    ROUND_ANSWER_FREE,     /* no key */
    ROUND_ANSWER_REFUSED,  /* the node answered with an error */
    ROUND_ANSWER_EPOCH,    /* the node has another epoch */
    ROUND_ANSWER_CUT,      /* the connection broke */
    ROUND_ANSWER_COUNT
};

struct round_trace {
    uint16_t
        after[NODES_MAX]; /* of an answer: steps since the round's start; UINT16_MAX: at least so many */
    uint8_t answers[NODES_MAX];
};

/* A place of the table. */
struct round_trace_place {
    uint64_t ticket; /* of the round; 0: none */
    struct round_trace trace;
};

/* The round asks these nodes. The first request of a round begins its trace. `places`: ROUND_TRACES. */
void round_trace_ask(struct round_trace_place *places, uint64_t ticket, node_set nodes);

/* A node's answer in the round, so long after its start. */
void round_trace_vote(struct round_trace_place *places, uint64_t ticket, unsigned node,
                      enum round_trace_answer answer, int64_t after_ns);

/* A round that asks no node. */
void round_trace_clear(struct round_trace_place *places, uint64_t ticket);

/* The trace of the round; empty if there is none. */
struct round_trace round_trace_of(const struct round_trace_place *places, uint64_t ticket);

/* The time of an answer, in microseconds. */
static inline int64_t round_trace_us(const struct round_trace *trace, unsigned node) {
    return ((int64_t) trace->after[node] << ROUND_TRACE_STEP_BITS) / 1000;
}
