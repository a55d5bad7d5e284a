/* A shard in a test, with given time and votes. Records its requests and reports. */
#pragma once

#include "core/shard.h"

enum { SENDS_MAX = 256, REPORTS_MAX = 256 };

struct sent {
    enum operation operation;
    node_set nodes;
    bool quiet, left;
    uint32_t ttl_ms;
    uint64_t ticket;
    int64_t token, token_last;
    uint8_t secret[SECRET_BYTES];
    bool orphan;
    char tail[64]; /* of the text */
    bool has_former;
    uint8_t former[SECRET_BYTES];
    unsigned predecessors; /* their number */
};

/* One shard, its requests and reports, and the time. */
struct shard_harness {
    struct shard shard;
    struct sent sends[SENDS_MAX];
    unsigned n_sends;
    struct report reports[REPORTS_MAX];
    char texts[REPORTS_MAX][512];
    unsigned n_reports;
    unsigned foreign;                       /* REPORT_FOREIGN, which is only counted */
    enum node_state node_states[NODES_MAX]; /* as reported last, with the reason */
    char reasons[NODES_MAX][NODE_TROUBLE_BYTES];
    unsigned cuts;
    uint64_t listens;                                 /* the subscribed request */
    unsigned probes[NODES_MAX], blessings[NODES_MAX]; /* asked for */
    uint32_t marks[NODES_MAX];                        /* of the last probe */
    bool leaves[NODES_MAX], disowned[NODES_MAX];
    node_set known[NODES_MAX];           /* of the fleet, as the last probe of each node says */
    uint32_t mark_max_ttl_ms[NODES_MAX]; /* in the agent's mark */
    int64_t withdrawn_us[NODES_MAX];
    struct blessing blessed[NODES_MAX]; /* what for */
    unsigned amendments[NODES_MAX];
    struct amendment amended[NODES_MAX];
    bool fencing; /* what contend() asks for */
    uint8_t secrets;
    instant_ns now_ns;
    void *memory;
    size_t memory_bytes;
};

extern struct shard_harness harness;

/* Answers to probes, without the node's clock. */
extern const struct probe new_node, marked_node, blessed_node, shortly_blessed_node;

void node_joins(unsigned node);
void shard_harness_begin(unsigned nodes);
void shard_harness_begin_named(unsigned nodes, const char *const names[]); /* `names` stay */
void command(enum command_kind kind, uint64_t request);
void contend_with(uint64_t request, bool persist, uint32_t heartbeat_ms, uint32_t max_hold_ms);
void contend(uint64_t request, bool persist);
void vote_with(unsigned node, uint64_t ticket, const struct vote *vote);
void vote(unsigned node, const struct sent *sent, enum vote_kind kind);
void trusted_nodes_answer(void); /* to outstanding probes */
void pass_ms(int64_t ms);
struct sent pass_to_extension(void);
const struct sent *last_sent(enum operation operation);
unsigned count_sent(enum operation operation);
const struct report *last_report(enum report_kind kind);
unsigned count_reports(enum report_kind kind);
void hold(uint64_t request);
