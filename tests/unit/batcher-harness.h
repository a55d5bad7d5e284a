/* A batcher with two nodes: records the calls that each node gets, parsed as the server does, and the votes
 * that the shard gets for their answers. */
#pragma once

#include "io/node/batcher.h"
#include "io/node/script.h"

enum { CALLS_MAX = 512, ITEMS_MAX = 512, NODES = 2, NAMES_MAX = 600, VOTES_MAX = 512 };

struct redis {
    unsigned index;
    bool down;
    const char *epoch;
    struct user_rights rights;
    unsigned n_calls;
    struct sent_call {
        enum script_id script;
        size_t n_keys, n_items;
        void *tag;
        struct redis_call shared;
        uint64_t shared_hash; /* of its bytes when they were sent */
        char items[ITEMS_MAX][64];
    } calls[CALLS_MAX];
};

struct seen_vote {
    uint64_t ticket;
    struct vote vote;
};

extern struct redis nodes[NODES];
extern struct seen_vote votes[VOTES_MAX];
extern unsigned n_votes;
extern int64_t reported_time_us; /* -1: none */
extern unsigned overwritten;     /* calls whose bytes changed before their answer */
extern unsigned misfits;         /* answers that no script has */
extern struct batcher *batcher;
extern instant_ns harness_now_ns;

enum { PLAIN = 0, FENCED = 1000, BLOCK = 2000 };

void batcher_harness_begin(void);
void batcher_harness_end(void);

/* Another batcher, with this fence_skew. The fence_retention is an hour. */
void batcher_harness_configure(int64_t fence_skew_ms);

/* Adds a request for the name with this number. */
void ask_for(node_set to, enum operation operation, unsigned name, uint64_t ticket, int64_t token,
             uint32_t ttl_ms);
void ask_nodes(node_set to, enum operation operation, unsigned name, uint64_t ticket, int64_t token);
void ask(enum operation operation, unsigned name);

/* For a lease that had another lock value before. */
void ask_with_former(enum operation operation, unsigned name);

/* Sends what was added; forgets former calls and votes. */
void flush(void);

/* The index of the first lock among the keys. */
size_t first_lock(const struct sent_call *call);
size_t count_locks(const struct sent_call *call);

/* The calls to node 0 as text: "acquire 1 2; release 1;". */
const char *calls_text(void);

/* NULL: the connection breaks. */
void answer(unsigned node, const struct sent_call *call, const redisReply *reply);
void answer_all(const redisReply *reply);

redisReply integer(long long number);
redisReply string(char *text);
redisReply array(redisReply **elements, size_t count);
