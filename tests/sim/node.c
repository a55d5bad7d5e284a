/* A Redis node, as far as the scripts show it: keys that expire by its own clock. */

#include <string.h>

#include "sim.h"

#define NODE_BIRTH_NS (INT64_C(1700000000) * NS_PER_S)

struct sim_node sim_nodes[SIM_NODES_MAX];
unsigned sim_n_nodes;

void node_reset(struct sim_node *node) {
    /* Rates that differ by less than the drift allowance of 1 %. */
    *node = (struct sim_node){.process = 1,
                              .clock = {.rate = 1 + (double) pick(-4500, 4500) / 1e6,
                                        .offset_ns = NODE_BIRTH_NS + pick(-50, 50) * NS_PER_MS}};
}

static int64_t wall_ns(const struct sim_node *node) {
    return clock_read(&node->clock);
}

static int64_t wall_us(const struct sim_node *node) {
    return wall_ns(node) / NS_PER_US;
}

void node_set_clock(struct sim_node *node, int64_t by_ns) {
    node->clock.offset_ns += by_ns;
    if (by_ns < 0)
        node->set_back_ns -= by_ns;
}

void node_forget(struct sim_node *node) {
    for (unsigned i = 0; i < SIM_NAMES; i++)
        node->keys[i].set = false;
    node->epoch = 0;
    memset(node->marks, 0, sizeof(node->marks));
}

void node_restart(struct sim_node *node) {
    node->process++;
}

/* What probe.lua and bless.lua do. */
void node_probe(struct sim_node *node, struct event *probe) {
    uint64_t *mark = &node->marks[probe->agent * SIM_KEEPERS_MAX + probe->keeper];
    bool blessed = node->epoch == node->process;

    if (blessed && !probe->as.probe.bless && probe->as.probe.withdraw_us == node->floor_us) {
        trace("node %u: its blessing is withdrawn by agent %u", probe->node, probe->agent);
        node->epoch = 0;
        blessed = false;
    }
    if (!blessed && probe->as.probe.leave)
        *mark = probe->as.probe.mark;
    bool marked = *mark == probe->as.probe.mark;
    if (!blessed && probe->as.probe.bless && marked) {
        trace("node %u is blessed by agent %u", probe->node, probe->agent);
        node->epoch = node->process;
        node->floor_us = wall_us(node) + SIM_FENCE_SKEW_MS * 1000;
        blessed = true;
        *mark = 0;
    }
    probe->kind = EVENT_PROBED;
    probe->as.probe.epoch = node->epoch;
    probe->as.probe.answer = (struct probe){.blessed = blessed,
                                            .marked = marked,
                                            .max_ttl_ms = blessed ? SIM_LONGEST_TTL_MS : 0,
                                            .floor_us = blessed ? node->floor_us : 0,
                                            .time_us = wall_us(node),
                                            .sent_ns = probe->sent_ns};
}

static int64_t expiry_ns(const struct sim_node *node, uint32_t ttl_ms) {
    return wall_ns(node) + (int64_t) ttl_ms * NS_PER_MS;
}

void node_overwrite(struct sim_node *node, unsigned name, uint32_t ttl_ms) {
    node->keys[name].set = true;
    for (unsigned i = 0; i < SECRET_BYTES; i++)
        node->keys[name].secret[i] = (uint8_t) random_next(&sim_random);
    node->keys[name].expires_ns = expiry_ns(node, ttl_ms);
}

struct event node_execute(struct sim_node *node, const struct event *request) {
    struct event reply = *request;
    uint32_t ttl_ms = request->as.request.ttl_ms;
    const uint8_t *secret = request->as.request.secret;

    if (node->keys[request->name].set && wall_ns(node) >= node->keys[request->name].expires_ns)
        node->keys[request->name].set = false;
    bool set = node->keys[request->name].set;
    bool ours = set && memcmp(node->keys[request->name].secret, secret, SECRET_BYTES) == 0;

    reply.kind = EVENT_REPLY;
    reply.as.reply.ticket = request->as.request.ticket;
    reply.as.reply.kind = VOTE_YES;
    reply.as.reply.ttl_left_ms = -1;
    reply.time_us = -1;
    if (request->as.request.operation == OPERATION_ACQUIRE ||
        request->as.request.operation == OPERATION_EXTEND) {
        if (request->as.request.epoch != node->epoch || request->as.request.floor_us != node->floor_us) {
            reply.as.reply.kind = VOTE_EPOCH;
            return reply;
        }
        reply.time_us = wall_us(node);
    }
    if (set && !ours) {
        reply.as.reply.ttl_left_ms = (node->keys[request->name].expires_ns - wall_ns(node)) / NS_PER_MS;
        if (request->as.request.operation != OPERATION_RELEASE)
            reply.as.reply.kind = VOTE_FOREIGN;
        return reply;
    }
    switch (request->as.request.operation) {
    case OPERATION_ACQUIRE:
    case OPERATION_EXTEND:
        if (ours && request->as.request.operation == OPERATION_ACQUIRE) {
            reply.as.reply.kind = VOTE_FOREIGN; /* SET NX: even our own is in the way */
            break;
        }
        if (!ours && request->as.request.operation == OPERATION_EXTEND)
            reply.as.reply.kind = VOTE_REPAIRED;
        node->keys[request->name].set = true;
        memcpy(node->keys[request->name].secret, secret, SECRET_BYTES);
        node->keys[request->name].expires_ns = expiry_ns(node, ttl_ms);
        break;
    case OPERATION_RELEASE:
        if (ours)
            clients_check_deletion(secret);
        node->keys[request->name].set = false;
        break;
    case OPERATION_LOOK:
        reply.as.reply.kind = VOTE_FREE;
        break;
    }
    return reply;
}

bool node_has_keys(const struct sim_node *node) {
    for (unsigned i = 0; i < SIM_NAMES; i++)
        if (node->keys[i].set && wall_ns(node) < node->keys[i].expires_ns)
            return true;
    return false;
}
