/* What one turn asks of the nodes, put together into script calls, and their answers taken apart again.
 *
 * What is alike goes together, in as few calls as the order of each key allows. For each node:
 *  - all that is asked of it goes out, once, and nothing else;
 *  - what is asked of one key goes out in the order in which it was asked;
 *  - no call has a key twice, nor more names than its operation may have.
 * Keys are known by their hashes here: two that are equal by chance, or by somebody's choice, make another
 * call, and nothing wrong.
 *
 * Nodes that are to get the same calls get them together, so that each is written only once. The agent makes
 * bytes of a call (io/node/batcher.h); the simulator carries it to its nodes as it is. */
#pragma once

#include "core/shard.h"

enum {
    CALL_PLAN_OPERATIONS = OPERATION_ADOPT + 1,
    CALL_PLAN_KEYS_BITS = 4096, /* a power of two */
    CALL_PLAN_EXPECTED = 4,     /* votes: as many are counted while a lease is fetched from memory */
};

/* Something that is asked: as much as decides what it goes along with. */
struct call_plan_item {
    enum operation operation;
    node_set nodes;
    bool quiet;
    bool has_former; /* another value that may stand there */
    bool has_token;
    bool has_block; /* of tokens: more than one */
    bool again;     /* something may have been asked of this key in this turn before */
    uint64_t ticket;
    uint64_t key_hash;
};

/* A script call. */
struct call_plan_call {
    uint32_t count;
    const struct call_plan_item *items[BATCH_NAMES_MAX]; /* of the turn; the names go in this order */
};

struct call_plan_turn {
    struct call_plan_item *items; /* the caller's, who sees to it that there is room */
    uint32_t count;
    uint64_t keys[CALL_PLAN_KEYS_BITS / 64]; /* of the items: a bit for each, by its hash */
    /* Nodes that have refused such a call for one of its keys: each name in a call of its own. What is held
     * there may be used there: extensions still go together. */
    node_set alone[CALL_PLAN_OPERATIONS];
};

struct call_plan_sink {
    /* This call goes to these nodes now. Must not add to the turn. */
    void (*call)(void *userdata, node_set to, const struct call_plan_call *draft);
    void *userdata;
};

/* Takes it in, as the last one; there must be room for it. A turn begins zeroed. Returns what is kept of
 * it. */
const struct call_plan_item *call_plan_add(struct call_plan_turn *turn, const struct send *send,
                                           uint64_t key_hash);

/* Gives all calls to the sink, and begins the turn anew. Returns the nodes that something was asked of. */
node_set call_plan_all(struct call_plan_turn *turn, const struct call_plan_sink *sink);

/* A node's answer to a call. */
struct call_plan_answer {
    unsigned node;
    uint32_t count;
    const uint64_t *tickets; /* of the call's names, in their order */
    instant_ns sent_ns;
    int64_t time_us; /* the node's; negative: it does not tell */
    /* The vote for the name at this place; it is used before the next one is asked for. */
    struct vote (*vote)(void *userdata, uint32_t index);
    void *userdata;
};

/* Gives each name's vote to the shard. One that was cut off is an answer too: it cuts off each name. It is
 * here so that a vote costs no call through a pointer. */
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
