/* The call plan of a turn of the loop: batches the turn's requests to the nodes into script calls, and
 * gives the answers back to the shard name by name.
 *
 * Requests of one kind share calls, as few as the order of each key allows. For each node:
 *  - all of its requests are sent, once, and no others;
 *  - the requests of one key are sent in their order;
 *  - no call has a key twice, nor more names than its operation allows.
 * Keys are compared by hashes: two equal hashes cost another call, and do no harm.
 *
 * Nodes with the same calls share them, so each call is encoded once. The agent encodes a call for the wire
 * (io/node/batcher.h); the simulator passes it to its nodes as it is. */
#pragma once

#include "core/shard.h"

enum {
    CALL_PLAN_OPERATIONS = OPERATION_SEARCH + 1,
    CALL_PLAN_KEYS_BITS = 4096, /* a power of two */
    CALL_PLAN_EXPECTED = 4,     /* a lease is prefetched so many votes ahead */
};

/* A request: the properties that decide which requests share a call. */
struct call_plan_item {
    enum operation operation;
    node_set nodes;
    bool quiet;
    bool left;
    bool has_former; /* a second value of ours may be in the key */
    bool has_token;
    bool has_block; /* reserves more than one token */
    bool again;     /* an earlier request of this turn may have the same key */
    uint64_t ticket;
    uint64_t key_hash;
};

/* A script call. */
struct call_plan_call {
    uint32_t count;
    const struct call_plan_item *items[BATCH_NAMES_MAX]; /* of the turn, in the order of the names */
};

struct call_plan_turn {
    struct call_plan_item *items; /* the caller's memory, with room for the next one */
    uint32_t count;
    uint64_t keys[CALL_PLAN_KEYS_BITS / 64]; /* the bits of the items' hashes */
    /* By operation: nodes whose ACL refused a call for one of its keys. Each name has a call of its own
     * there. */
    node_set alone[CALL_PLAN_OPERATIONS];
};

struct call_plan_sink {
    /* Send this call to these nodes. Must not add to the turn. */
    void (*call)(void *userdata, node_set to, const struct call_plan_call *call);
    void *userdata;
};

/* Adds a request to the turn, which begins zeroed and must have room. */
const struct call_plan_item *call_plan_add(struct call_plan_turn *turn, const struct send *send,
                                           uint64_t key_hash);

/* Gives all calls to the sink, and empties the turn. Returns the nodes that were sent a request. */
node_set call_plan_all(struct call_plan_turn *turn, const struct call_plan_sink *sink);

/* A node's answer to a call. */
struct call_plan_answer {
    unsigned node;
    uint32_t count;
    const uint64_t *tickets; /* of the call's names, in their order */
    instant_ns sent_ns;
    int64_t time_us; /* the node's TIME; negative: not in this answer */
    /* The vote for the name at this index. It is used before the next call. */
    struct vote (*vote)(void *userdata, uint32_t index);
    void *userdata;
};

/* Gives the vote of each name to the shard. A call that was cut off has an answer, too, which cuts off each
 * name. Inline, so that `vote` is no call through a pointer. */
static inline void call_plan_answered(const struct call_plan_answer *answer, struct shard *shard,
                                      instant_ns now_ns) {
    if (answer->time_us >= 0)
        node_trust_time(shard, answer->node, answer->time_us, answer->sent_ns, now_ns);
    for (uint32_t i = 0; i < answer->count; i++) {
        if (i + CALL_PLAN_EXPECTED < answer->count)
            shard_expect(shard, answer->tickets[i + CALL_PLAN_EXPECTED]);
        const struct vote vote = answer->vote(answer->userdata, i);
        shard_vote(shard, answer->node, answer->tickets[i], &vote, now_ns);
    }
}
