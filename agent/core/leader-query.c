#include "core/leader-query.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "core/error-text.h"
#include "core/lease.h"
#include "core/shard-state.h"

#define FOR_EVER_MS INT64_MAX

static void leader_query_end(struct shard *shard, struct leader_query *look) {
    uint32_t index = pool_index(&shard->looks, struct leader_query, look);

    look->request = 0;
    look->serial++;
    look->text = shared_string_unref(&shard->texts, look->text);
    timer_queue_remove(&shard->due, shard->leases.capacity + index);
    pool_give(&shard->looks, index);
}

static void fail(struct shard *shard, uint64_t request, enum failure failure, const char *text,
                 size_t length) {
    shard_report(shard, &(struct report){.kind = REPORT_FAILED,
                                         .failure = failure,
                                         .request = request,
                                         .text = text,
                                         .text_length = (uint16_t) length});
}

void leader_query_begin(struct shard *shard, const struct command *command, instant_ns now_ns) {
    static const char full[] = "too many LEADER requests are under way: ask again";
    node_set nodes = shard_askable(shard);
    uint32_t index = pool_take(&shard->looks);
    struct shared_string *text =
        index == POOL_NONE ? NULL
                           : shared_string_new(&shard->texts, command->text, command->head_length, NULL, 0);

    if (!text) {
        if (index != POOL_NONE)
            pool_give(&shard->looks, index);
        fail(shard, command->request, FAILURE_QUOTA, full, sizeof(full) - 1);
        return;
    }
    struct leader_query *look = pool_at(&shard->looks, index);
    *look = (struct leader_query){.serial = look->serial + 1,
                                  .request = command->request,
                                  .text = text,
                                  .fencing = command->fencing,
                                  .asked = nodes};
    uint32_t item = shard->leases.capacity + index;
    timer_queue_set(&shard->due, item, now_ns + (int64_t) command->node_timeout_ms * NS_PER_MS);
    look->unsent = shard_may_gain_quorum(shard);
    if (look->unsent)
        return;
    if (node_set_count(nodes) < quorum_of(shard->config.nodes)) {
        leader_query_tick(shard, look);
        return;
    }
    shard_send_look(shard, look, item, nodes, now_ns);
}

void leader_query_node_judged(struct shard *shard, struct leader_query *look, instant_ns now_ns) {
    node_set nodes = shard_askable(shard);
    uint32_t index = pool_index(&shard->looks, struct leader_query, look);

    if (look->request == 0 || !look->unsent || shard_may_gain_quorum(shard))
        return;
    look->unsent = false;
    look->asked = nodes;
    if (node_set_count(nodes) < quorum_of(shard->config.nodes))
        leader_query_tick(shard, look);
    else
        shard_send_look(shard, look, shard->leases.capacity + index, nodes, now_ns);
}

/* The time until a majority's keys no longer agree on this value: the quorum-th longest of what is left. -1:
 * they have no expiry. */
static int64_t majority_ttl_left_ms(const struct shard *shard, const struct leader_query *look,
                                    uint64_t hash) {
    unsigned quorum = quorum_of(shard->config.nodes);
    int64_t best = -1;

    for (unsigned i = 0; i < shard->config.nodes; i++) {
        if (!(look->occupied & node_set_of(i)) || look->hash[i] != hash)
            continue;
        unsigned as_long = 0;
        for (unsigned j = 0; j < shard->config.nodes; j++)
            if ((look->occupied & node_set_of(j)) && look->hash[j] == hash &&
                look->ttl_left_ms[j] >= look->ttl_left_ms[i])
                as_long++;
        if (as_long >= quorum && look->ttl_left_ms[i] > best)
            best = look->ttl_left_ms[i];
    }
    return best == FOR_EVER_MS ? -1 : best;
}

/* The holder's token: the one on which a majority of its keys' nodes agrees; 0 as long as none is seen.
 * While the key stands, no other can have been accepted there. */
static int64_t majority_token(const struct shard *shard, const struct leader_query *look, uint64_t hash) {
    for (unsigned i = 0; i < shard->config.nodes; i++) {
        unsigned same = 0;
        for (unsigned j = 0; j < shard->config.nodes; j++)
            if ((look->occupied & node_set_of(j)) && look->hash[j] == hash &&
                look->token[j] == look->token[i])
                same++;
        if ((look->occupied & node_set_of(i)) && same >= quorum_of(shard->config.nodes))
            return look->token[i];
    }
    return 0;
}

/* Another's value may be of any size: what goes to the front is for people. */
static uint16_t reported_length(const struct vote *vote) {
    return vote->text_length < SHARED_STRING_BYTES_MAX ? (uint16_t) vote->text_length
                                                       : (uint16_t) SHARED_STRING_BYTES_MAX;
}

void leader_query_vote(struct shard *shard, struct leader_query *look, unsigned node,
                       const struct vote *vote) {
    const uint64_t key[2] = {vote->foreign_type, 0}; /* a type is no value of the same letters */
    unsigned quorum = quorum_of(shard->config.nodes), same = 0, largest_possible;
    node_set bit = node_set_of(node);

    if (!(look->asked & bit))
        return;
    look->asked &= (node_set) ~bit;
    if (vote->kind == VOTE_FREE || vote->kind == VOTE_FOREIGN)
        look->answered |= bit;
    if (vote->kind == VOTE_FOREIGN) {
        look->occupied |= bit;
        look->hash[node] = hash_bytes(key, vote->text, vote->text_length);
        look->ttl_left_ms[node] = vote->ttl_left_ms < 0 ? FOR_EVER_MS : vote->ttl_left_ms;
        look->token[node] = vote->token;
        for (unsigned i = 0; i < shard->config.nodes; i++)
            if ((look->occupied & node_set_of(i)) && look->hash[i] == look->hash[node])
                same++;
        if (same >= quorum) {
            shard_report(
                shard, &(struct report){.kind = REPORT_LOOKED,
                                        .request = look->request,
                                        .foreign_type = vote->foreign_type,
                                        .text = vote->text,
                                        .text_length = reported_length(vote),
                                        .token = majority_token(shard, look, look->hash[node]),
                                        .validity_ms = majority_ttl_left_ms(shard, look, look->hash[node])});
            leader_query_end(shard, look);
            return;
        }
    }
    largest_possible = node_set_count(look->occupied) + node_set_count(look->asked);
    if (look->asked == 0 || (largest_possible < quorum && node_set_count(look->answered) >= quorum))
        leader_query_tick(shard, look);
}

/* Whether the nodes that have not answered could make a majority of a value that some have. */
static bool is_undecided(const struct shard *shard, const struct leader_query *look) {
    unsigned nodes = shard->config.nodes, silent = nodes - node_set_count(look->answered);

    for (unsigned i = 0; i < nodes; i++) {
        unsigned same = 0;
        if (!(look->occupied & node_set_of(i)))
            continue;
        for (unsigned j = 0; j < nodes; j++)
            same += (look->occupied & node_set_of(j)) && look->hash[j] == look->hash[i];
        if (same + silent >= quorum_of(nodes))
            return true;
    }
    return false;
}

/* No majority has one value: nobody holds it, or too few nodes can tell. */
void leader_query_tick(struct shard *shard, struct leader_query *look) {
    char text[ERROR_TEXT_BYTES];

    if (node_set_count(look->answered) >= quorum_of(shard->config.nodes)) {
        shard_report(shard, &(struct report){.kind = REPORT_LOOKED,
                                             .request = look->request,
                                             .undecided = is_undecided(shard, look)});
    } else {
        size_t length = error_text_no_quorum(shard, look->answered, 0, text);
        fail(shard, look->request, FAILURE_NO_QUORUM, text, length);
    }
    leader_query_end(shard, look);
}
