#include "core/send.h"

#include <assert.h>

#include "core/leader-query.h"
#include "core/lease-table.h"
#include "core/token.h"

static uint64_t ticket_of(uint32_t slot, uint32_t serial) {
    return (uint64_t) serial << 32 | slot;
}

static void send_to(struct shard *shard, const struct send *send, instant_ns now_ns) {
    assert((send->nodes & shard_askable(shard)) == send->nodes);

    for (unsigned i = 0; i < shard->config.nodes; i++)
        if (send->nodes & node_set_of(i))
            node_sent(&shard->nodes[i], now_ns);
    if (send->nodes != 0)
        shard->sink.send(shard->sink.userdata, send);
}

void send_round(struct shard *shard, struct lease *lease, enum operation operation, node_set nodes,
                instant_ns now_ns) {
    lease->serial++;
    quorum_begin(&lease->round, 0);
    send_more(shard, lease, operation, nodes, now_ns);
}

void send_more(struct shard *shard, struct lease *lease, enum operation operation, node_set nodes,
               instant_ns now_ns) {
    bool has_former = lease_state_is_past_attempts(lease) && lease->former;
    struct send send = {
        .operation = operation,
        .orphan = lease->orphan,
        .nodes = nodes,
        .quiet = lease->quiet,
        .ttl_ms = lease_state_key_ttl_ms(lease, now_ns),
        .ticket = ticket_of(lease_table_slot(shard, lease), lease->serial),
        .secret = lease->secret,
        .text = lease->text,
        .token = lease->token,
        .token_last = token_last(lease),
        .former = has_former ? lease->former_secret : NULL,
        .former_text = has_former ? lease->former : NULL,
    };
    assert(!(lease->round.asked & nodes));

    lease->round.asked |= nodes;
    send_to(shard, &send, now_ns);
}

void send_query(struct shard *shard, struct leader_query *query, node_set nodes, instant_ns now_ns) {
    uint32_t slot = shard->leases.capacity + pool_index(&shard->queries, struct leader_query, query);
    struct send send = {
        .operation = OPERATION_QUERY,
        .nodes = nodes,
        .token = query->fencing,
        .ticket = ticket_of(slot, query->serial),
        .text = query->text,
    };
    send_to(shard, &send, now_ns);
}
