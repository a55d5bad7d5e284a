#include "core/send.h"

#include <assert.h>

#include "core/foreign-contender.h"
#include "core/lease-table.h"
#include "core/round-trace.h"
#include "core/token.h"

void send_to_nodes(struct shard *shard, const struct send *send, instant_ns now_ns) {
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
    const uint8_t *former = has_former ? lease->former_secret : NULL;
    const struct shared_string *former_text = has_former ? lease->former : NULL;

    if (operation == OPERATION_REFRESH && !has_former) { /* for the token alone */
        former = lease->secret;
        former_text = lease->text;
    }
    struct send send = {
        .operation = operation,
        .orphan = lease->orphan,
        .legacy_setnx = lease->terms.legacy_setnx && !lease->orphan,
        .nodes = nodes,
        .quiet = lease->quiet,
        .left = operation == OPERATION_RELEASE && !lease->quiet &&
                foreign_contender_was_met(shard, lease, now_ns),
        .ttl_ms = lease_state_key_ttl_ms(lease, now_ns),
        .ticket = lease_table_ticket(shard, lease),
        .secret = lease->secret,
        .text = lease->text,
        .token = lease->token,
        .token_last = token_last(lease),
        .former = former,
        .former_text = former_text,
        .predecessors = operation == OPERATION_SEARCH ? &shard->predecessors : NULL,
    };
    assert(!(lease->round.asked & nodes));

    lease->round.asked |= nodes;
    if (operation != OPERATION_RELEASE)
        round_trace_ask(shard->traces, send.ticket, nodes);
    send_to_nodes(shard, &send, now_ns);
}
