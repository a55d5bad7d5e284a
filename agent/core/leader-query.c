#include "core/leader-query.h"

#include "base/hash.h"
#include "core/error-text.h"
#include "core/lock-value.h"
#include "core/send.h"
#include "core/ticket.h"
#include "core/window.h"

#define FOR_EVER_MS INT64_MAX

static uint32_t slot_of(const struct shard *shard, const struct leader_query *query) {
    return shard->leases.capacity + pool_index(&shard->queries, struct leader_query, query);
}

static void leader_query_end(struct shard *shard, struct leader_query *query) {
    query->request = 0;
    query->serial++;
    query->text = shared_string_unref(&shard->texts, query->text);
    timer_queue_remove(&shard->due, slot_of(shard, query));
    pool_give(&shard->queries, pool_index(&shard->queries, struct leader_query, query));
}

static void fail(struct shard *shard, uint64_t request, enum report_origin origin, enum failure failure,
                 const char *text, size_t length) {
    shard_report(shard, &(struct report){.kind = REPORT_FAILED,
                                         .origin = origin,
                                         .failure = failure,
                                         .request = request,
                                         .text = text,
                                         .text_length = (uint16_t) length});
}

static void set_due(struct shard *shard, const struct leader_query *query, instant_ns due_ns) {
    timer_queue_set(&shard->due, slot_of(shard, query), due_ns);
}

static void ask(struct shard *shard, const struct leader_query *query, instant_ns now_ns) {
    send_to_nodes(shard,
                  &(struct send){.operation = OPERATION_QUERY,
                                 .nodes = query->asked,
                                 .token = query->fencing,
                                 .ticket = ticket_of(slot_of(shard, query), query->serial),
                                 .text = query->text},
                  now_ns);
}

/* The time for which a majority has this value: the quorum-th longest time left. -1: no expiry. */
static int64_t majority_ttl_left_ms(const struct shard *shard, const struct leader_query *query,
                                    uint64_t hash) {
    unsigned quorum = quorum_of(shard->config.nodes);
    int64_t best = -1;

    for (unsigned i = 0; i < shard->config.nodes; i++) {
        if (!(query->occupied & node_set_of(i)) || query->hash[i] != hash)
            continue;
        unsigned as_long = 0;
        for (unsigned j = 0; j < shard->config.nodes; j++)
            if ((query->occupied & node_set_of(j)) && query->hash[j] == hash &&
                query->ttl_left_ms[j] >= query->ttl_left_ms[i])
                as_long++;
        if (as_long >= quorum && query->ttl_left_ms[i] > best)
            best = query->ttl_left_ms[i];
    }
    return best == FOR_EVER_MS ? -1 : best;
}

/* The holder's token: the one that a majority of the nodes with its key has; 0: none. While a node has the
 * key, it accepts no other holder's token. */
static int64_t majority_token(const struct shard *shard, const struct leader_query *query, uint64_t hash) {
    for (unsigned i = 0; i < shard->config.nodes; i++) {
        unsigned same = 0;
        for (unsigned j = 0; j < shard->config.nodes; j++)
            if ((query->occupied & node_set_of(j)) && query->hash[j] == hash &&
                query->token[j] == query->token[i])
                same++;
        if ((query->occupied & node_set_of(i)) && same >= quorum_of(shard->config.nodes))
            return query->token[i];
    }
    return 0;
}

/* A foreign value may have any length. Values that differ only behind the part that the script returns
 * count, and are shown, as one value. An agent's value is shorter than this part. */
static uint16_t reported_length(const struct vote *vote) {
    return vote->text_length < SHARED_STRING_BYTES_MAX ? (uint16_t) vote->text_length
                                                       : (uint16_t) SHARED_STRING_BYTES_MAX;
}

static void note_value(struct leader_query *query, unsigned node, const struct vote *vote) {
    const uint64_t key[2] = {vote->foreign_type, 0}; /* a type differs from a value with the same letters */
    size_t length = vote->text_length;
    const char *value = lock_value_skip_time(vote->text, &length);
    struct lock_value parts;

    query->hash[node] = hash_bytes(key, vote->text, vote->text_length);
    query->lease_hash[node] = query->agent_hash[node] = 0;
    if (vote->foreign_type || !lock_value_read(value, length, &parts))
        return;
    query->lease_hash[node] = hash_bytes(key, value, LOCK_VALUE_LEASE_BYTES);
    query->agent_hash[node] = hash_bytes(key, parts.holder, parts.agent_length);
}

static bool have_one_value(const struct leader_query *query, unsigned one, unsigned other) {
    return query->hash[one] == query->hash[other];
}

/* A RESUME changes a lease's value on one node after another, and the agent of a lease that was handed off
 * replaces the value by another one of its own. */
static bool may_have_one_lease(const struct leader_query *query, unsigned one, unsigned other) {
    return have_one_value(query, one, other) ||
           (query->agent_hash[one] != 0 && (query->agent_hash[one] == query->agent_hash[other] ||
                                            query->lease_hash[one] == query->lease_hash[other]));
}

/* True if values that are alike may have a majority with the nodes that have not answered. */
static bool may_gain_majority(const struct shard *shard, const struct leader_query *query,
                              bool are_alike(const struct leader_query *, unsigned, unsigned)) {
    unsigned nodes = shard->config.nodes, silent = nodes - node_set_count(query->answered);

    for (unsigned i = 0; i < nodes; i++) {
        unsigned same = 0;
        if (!(query->occupied & node_set_of(i)))
            continue;
        for (unsigned j = 0; j < nodes; j++)
            same += (query->occupied & node_set_of(j)) && are_alike(query, i, j);
        if (same + silent >= quorum_of(nodes))
            return true;
    }
    return false;
}

/* No value has a majority: the name is free, or too few nodes answered. */
static void conclude(struct shard *shard, struct leader_query *query) {
    static const char full[] = "too many requests are under way to the nodes: repeat the request";
    enum report_origin origin = (enum report_origin) query->origin;
    char text[ERROR_TEXT_BYTES];

    if (shard_is_majority(shard, query->answered)) {
        shard_report(shard, &(struct report){.kind = REPORT_LEADER,
                                             .origin = origin,
                                             .request = query->request,
                                             .undecided = may_gain_majority(shard, query, have_one_value),
                                             .changing =
                                                 may_gain_majority(shard, query, may_have_one_lease)});
    } else if (query->unsent && shard_has_quorum(shard)) {
        fail(shard, query->request, origin, FAILURE_NO_QUORUM, full, sizeof(full) - 1);
    } else {
        node_set unasked = query->unsent ? shard_askable(shard) : 0; /* not their fault */
        size_t length = error_text_no_quorum(shard, query->answered, unasked, text);
        fail(shard, query->request, origin, FAILURE_NO_QUORUM, text, length);
    }
    leader_query_end(shard, query);
}

void leader_query_node_judged(struct shard *shard, struct leader_query *query, instant_ns now_ns) {
    if (query->request == 0 || !query->unsent || shard_may_gain_quorum(shard))
        return;
    if (!shard_has_quorum(shard)) {
        conclude(shard, query);
        return;
    }
    query->asked = window_for_query(shard, now_ns);
    if (query->asked == 0)
        return;
    query->unsent = false;
    set_due(shard, query, query->until_ns);
    ask(shard, query, now_ns);
}

/* Without room on a majority the query is held back: it has a place in the window's queue. */
static void try_to_ask(struct shard *shard, struct leader_query *query, instant_ns now_ns) {
    set_due(shard, query, query->until_ns);
    leader_query_node_judged(shard, query, now_ns);
    if (query->request != 0 && query->unsent && shard_has_quorum(shard))
        set_due(shard, query, instant_min(window_place_ns(shard, now_ns), query->until_ns));
}

void leader_query_begin(struct shard *shard, const struct command *command, instant_ns now_ns) {
    static const char full[] = "too many LEADER requests are under way: repeat the request";
    uint32_t index = pool_take(&shard->queries);
    struct shared_string *text =
        index == POOL_NONE ? NULL
                           : shared_string_new(&shard->texts, command->text, command->head_length, NULL, 0);

    if (!text) {
        if (index != POOL_NONE)
            pool_give(&shard->queries, index);
        fail(shard, command->request, command->origin, FAILURE_QUOTA, full, sizeof(full) - 1);
        return;
    }
    instant_ns until_ns = now_ns + (int64_t) command->terms.node_timeout_ms * NS_PER_MS;
    struct leader_query *query = pool_at(&shard->queries, index);
    *query = (struct leader_query){.serial = query->serial + 1,
                                   .request = command->request,
                                   .origin = (uint8_t) command->origin,
                                   .text = text,
                                   .fencing = command->terms.fencing,
                                   .unsent = true,
                                   .until_ns = until_ns};
    try_to_ask(shard, query, now_ns);
}

void leader_query_vote(struct shard *shard, struct leader_query *query, unsigned node,
                       const struct vote *vote) {
    unsigned quorum = quorum_of(shard->config.nodes), same = 0, largest_possible;
    node_set bit = node_set_of(node);

    if (!(query->asked & bit))
        return;
    query->asked &= (node_set) ~bit;
    if (vote->kind == VOTE_FREE || vote->kind == VOTE_FOREIGN)
        query->answered |= bit;
    if (vote->kind == VOTE_FOREIGN) {
        query->occupied |= bit;
        note_value(query, node, vote);
        query->ttl_left_ms[node] = vote->ttl_left_ms < 0 ? FOR_EVER_MS : vote->ttl_left_ms;
        query->token[node] = vote->token;
        for (unsigned i = 0; i < shard->config.nodes; i++)
            if ((query->occupied & node_set_of(i)) && query->hash[i] == query->hash[node])
                same++;
        if (same >= quorum) {
            shard_report(shard, &(struct report){.kind = REPORT_LEADER,
                                                 .origin = (enum report_origin) query->origin,
                                                 .request = query->request,
                                                 .foreign_type = vote->foreign_type,
                                                 .text = vote->text,
                                                 .text_length = reported_length(vote),
                                                 .token = majority_token(shard, query, query->hash[node]),
                                                 .validity_ms =
                                                     majority_ttl_left_ms(shard, query, query->hash[node])});
            leader_query_end(shard, query);
            return;
        }
    }
    largest_possible = node_set_count(query->occupied) + node_set_count(query->asked);
    if (query->asked == 0 || (largest_possible < quorum && node_set_count(query->answered) >= quorum))
        conclude(shard, query);
}

void leader_query_tick(struct shard *shard, struct leader_query *query, instant_ns now_ns) {
    if (query->unsent && now_ns < query->until_ns)
        try_to_ask(shard, query, now_ns);
    else
        conclude(shard, query);
}
