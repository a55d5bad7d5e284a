#include "io/node/batcher.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/call-plan.h"
#include "io/loop/multi-write.h"
#include "io/node/batch.h"
#include "io/node/call-words.h"
#include "io/node/evalsha.h"
#include "io/node/script-replies.h"
#include "io/node/script.h"

/* The arguments of batcher_flush(). */
struct flush {
    struct batcher *batcher;
    struct redis *const *nodes;
    instant_ns now_ns;
};

struct batcher {
    const struct config *config;
    struct call_plan_turn turn;
    instant_ns alone_until_ns; /* the end of `turn.alone` */
    struct call_words *words;
    struct batch_pool batches;
    struct batch *bounced;
    node_set cut;
    struct multi_write burst;
};

int batcher_new(const struct config *config, const char *agent_id, struct batcher **ret) {
    struct batcher *batcher = calloc(1, sizeof(*batcher));

    if (!batcher || call_words_new(config, agent_id, &batcher->turn, &batcher->words) < 0) {
        free(batcher);
        return -ENOMEM;
    }
    batcher->config = config;
    batcher->alone_until_ns = INSTANT_NEVER;
    multi_write_init(&batcher->burst);
    *ret = batcher;
    return 0;
}

struct batcher *batcher_free(struct batcher *batcher) {
    if (!batcher)
        return NULL;
    batch_pool_deinit(&batcher->batches);
    multi_write_deinit(&batcher->burst);
    batcher->words = call_words_free(batcher->words);
    free(batcher);
    return NULL;
}

void batcher_add(struct batcher *batcher, const struct send *send) {
    call_words_add(batcher->words, send);
}

void batcher_cut(struct batcher *batcher, unsigned node) {
    batcher->cut |= node_set_of(node);
}

void batcher_node_ready(struct batcher *batcher, unsigned node) {
    for (unsigned i = 0; i < CALL_PLAN_OPERATIONS; i++)
        batcher->turn.alone[i] &= (node_set) ~node_set_of(node);
}

bool batcher_pending(const struct batcher *batcher) {
    return batcher->turn.count > 0 || batcher->cut != 0 || batcher->bounced;
}

/* --- sending --- */

/* Writes the bytes that all nodes share. */
static struct redis_call write_call(struct batcher *batcher, struct batch *batch,
                                    const struct call_words_call *words) {
    size_t wanted = EVALSHA_BEGIN_BYTES + evalsha_room(words->items, words->count);
    size_t n_arguments = words->count + words->n_own - words->n_keys;

    char *bytes = batch_room(&batcher->batches, batch, wanted);
    size_t split = evalsha_begin(bytes, script_sources[words->script].hash, words->n_keys, n_arguments);
    split += evalsha_put(bytes + split, words->items, words->own_at);
    size_t length =
        split + evalsha_put(bytes + split, words->items + words->own_at, words->count - words->own_at);
    assert(length <= batch->bytes_room);
    batch->bytes_used = length;
    return (struct redis_call){bytes, length, split};
}

static void send_call(struct batcher *batcher, struct redis *redis, const struct redis_call *call,
                      const struct call_words_call *words, const struct call_plan_item *first,
                      struct batch *batch) {
    struct evalsha_item own[CALL_WORDS_OWN_MAX];

    call_words_own(words, first, redis, own);
    if (batch->operation == OPERATION_RELEASE && !first->quiet && !redis_rights(redis)->listen)
        batch->silent |= node_set_of(redis_index(redis));
    if (redis_send(redis, call, own, words->n_own, batch) >= 0)
        return;
    if (batch->bounced == 0) {
        batch->next = batcher->bounced;
        batcher->bounced = batch;
    }
    batch->bounced |= node_set_of(redis_index(redis));
}

static void send_planned(void *userdata, node_set to, const struct call_plan_call *plan) {
    const struct flush *flush = userdata;
    struct batcher *batcher = flush->batcher;
    const struct call_plan_item *first = plan->items[0];
    struct batch *batch = batch_take(&batcher->batches, plan->count);
    struct call_words_call words;

    call_words_compose(batcher->words, plan, &words);
    batch->operation = first->operation;
    batch->awaited = to;
    batch->bounced = batch->silent = 0;
    batch->count = plan->count;
    for (uint32_t i = 0; i < plan->count; i++)
        batch->tickets[i] = plan->items[i]->ticket;
    batch->sent_ns = flush->now_ns;
    const struct redis_call call = write_call(batcher, batch, &words);
    for (unsigned i = 0; i < batcher->config->n_nodes; i++)
        if (to & node_set_of(i))
            send_call(batcher, flush->nodes[i], &call, &words, first, batch);
}

/* The connection broke during this turn: the same as cut off. */
static void return_bounced(struct batcher *batcher, struct shard *shard, instant_ns now_ns) {
    while (batcher->bounced) {
        struct batch *batch = batcher->bounced;
        node_set bounced = batch->bounced;
        batcher->bounced = batch->next;
        for (unsigned i = 0; i < batcher->config->n_nodes; i++)
            if (bounced & node_set_of(i))
                (void) batcher_answered(batcher, shard, i, batch, NULL, now_ns);
    }
}

static void forget_refused_names(struct batcher *batcher) {
    memset(batcher->turn.alone, 0, sizeof(batcher->turn.alone));
    batcher->alone_until_ns = INSTANT_NEVER;
}

void batcher_flush(struct batcher *batcher, struct redis *const nodes[NODES_MAX], struct shard *shard,
                   instant_ns now_ns) {
    unsigned n_nodes = batcher->config->n_nodes;
    node_set cut = batcher->cut;
    struct flush flush = {batcher, nodes, now_ns};

    if (now_ns >= batcher->alone_until_ns)
        forget_refused_names(batcher);
    node_set used = call_plan_all(&batcher->turn, &(struct call_plan_sink){send_planned, &flush});
    call_words_clear(batcher->words);
    batcher->cut = 0;
    if (cut == 0)
        redis_burst(&batcher->burst, nodes, n_nodes);
    for (unsigned i = 0; i < n_nodes; i++) {
        if (cut & node_set_of(i))
            redis_cut(nodes[i], "stopped answering");
        else if (used & node_set_of(i))
            redis_flush(nodes[i]);
    }
    return_bounced(batcher, shard, now_ns);
}

/* --- answers --- */

static bool is_key_refused(const redisReply *reply) {
    return reply && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOPERM", strlen("NOPERM")) == 0;
}

/* ACLs may forbid some keys: one request for such a key must not fail the others of its call for long. */
static void note_refused_name(struct batcher *batcher, unsigned node, const struct batch *batch,
                              instant_ns now_ns) {
    if (batch->count > 1)
        batcher->turn.alone[batch->operation] |= node_set_of(node);
    batcher->alone_until_ns = now_ns + BATCHER_ALONE_MS * NS_PER_MS;
}

/* A node's answer to a call. */
struct answer {
    enum operation operation;
    const redisReply *reply;
    bool silent;
};

static struct vote vote_at(void *userdata, uint32_t index) {
    const struct answer *answer = userdata;
    struct vote vote = script_replies_vote(answer->operation, answer->reply, index);
    bool yes = vote.kind == VOTE_YES || vote.kind == VOTE_REPAIRED;

    vote.written = yes && answer->operation != OPERATION_RELEASE; /* which may find nothing to delete */
    vote.received |= answer->silent && vote.kind == VOTE_YES;
    return vote;
}

bool batcher_answered(struct batcher *batcher, struct shard *shard, unsigned node, void *tag,
                      const redisReply *reply, instant_ns now_ns) {
    struct batch *batch = tag;
    bool fits = !reply || script_replies_fit(batch->operation, batch->count, reply);
    struct answer answer = {batch->operation, fits ? reply : NULL, batch->silent & node_set_of(node)};
    int64_t time_us = script_replies_time_us(batch->operation, answer.reply);

    assert(batch->awaited & node_set_of(node));
    if (is_key_refused(reply))
        note_refused_name(batcher, node, batch, now_ns);
    call_plan_answered(&(struct call_plan_answer){.node = node,
                                                  .count = batch->count,
                                                  .tickets = batch->tickets,
                                                  .sent_ns = batch->sent_ns,
                                                  .time_us = time_us,
                                                  .vote = vote_at,
                                                  .userdata = &answer},
                       shard, now_ns);
    batch->awaited &= (node_set) ~node_set_of(node);
    if (batch->awaited == 0)
        batch_give(&batcher->batches, batch);
    return fits;
}
