/* A Redis node, as far as the scripts show it: keys that expire by its own clock. */

#include <string.h>

#include "sim.h"

struct sim_node sim_nodes[SIM_NODES_MAX];
unsigned sim_n_nodes;

void node_reset(struct sim_node *node) {
    /* Rates that differ by less than the drift allowance of 1 %. */
    *node = (struct sim_node){.process = 1, .clock = {.rate = 1 + (double) pick(-4500, 4500) / 1e6}};
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

    if (!blessed && probe->as.probe.leave)
        *mark = probe->as.probe.mark;
    bool marked = *mark == probe->as.probe.mark;
    if (!blessed && probe->as.probe.bless && marked) {
        trace("node %u is blessed by agent %u", probe->node, probe->agent);
        node->epoch = node->process;
        blessed = true;
        *mark = 0;
    }
    probe->kind = EVENT_PROBED;
    probe->as.probe.epoch = node->epoch;
    probe->as.probe.answer =
        (struct probe){.blessed = blessed, .marked = marked, .max_ttl_ms = blessed ? SIM_LONGEST_TTL_MS : 0};
}

static int64_t lasts_ns(const struct sim_node *node, uint32_t ttl_ms) {
    return (int64_t) ((double) ttl_ms * 1e6 / node->clock.rate);
}

void node_overwrite(struct sim_node *node, unsigned name, uint32_t ttl_ms) {
    node->keys[name].set = true;
    for (unsigned i = 0; i < SECRET_BYTES; i++)
        node->keys[name].secret[i] = (uint8_t) random_next(&sim_random);
    node->keys[name].expires_ns = sim_now_ns + lasts_ns(node, ttl_ms);
}

struct event node_execute(struct sim_node *node, const struct event *request) {
    struct event reply = *request;
    uint32_t ttl_ms = request->as.request.ttl_ms;
    const uint8_t *secret = request->as.request.secret;

    if (node->keys[request->name].set && sim_now_ns >= node->keys[request->name].expires_ns)
        node->keys[request->name].set = false;
    bool set = node->keys[request->name].set;
    bool ours = set && memcmp(node->keys[request->name].secret, secret, SECRET_BYTES) == 0;

    reply.kind = EVENT_REPLY;
    reply.as.reply.ticket = request->as.request.ticket;
    reply.as.reply.kind = VOTE_YES;
    reply.as.reply.ttl_left_ms = -1;
    if ((request->as.request.operation == OPERATION_ACQUIRE ||
         request->as.request.operation == OPERATION_EXTEND) &&
        request->as.request.epoch != node->epoch) {
        reply.as.reply.kind = VOTE_EPOCH;
        return reply;
    }
    if (set && !ours) {
        reply.as.reply.ttl_left_ms = (node->keys[request->name].expires_ns - sim_now_ns) / NS_PER_MS;
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
        node->keys[request->name].expires_ns = sim_now_ns + lasts_ns(node, ttl_ms);
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
        if (node->keys[i].set && sim_now_ns < node->keys[i].expires_ns)
            return true;
    return false;
}
