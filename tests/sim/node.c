/* A Redis node, as far as the scripts show it: keys that expire by its own clock. */

#include <string.h>

#include "sim.h"

#define NODE_BIRTH_NS (INT64_C(1700000000) * NS_PER_S)

struct sim_node sim_nodes[SIM_NODES_MAX];
unsigned sim_n_nodes;

void node_reset(struct sim_node *node, int64_t clock_offset_ns) {
    /* Rates that differ by less than the drift allowance of 1 %. */
    *node = (struct sim_node){.process = 1,
                              .clock = {.rate = 1 + (double) pick(-4500, 4500) / 1e6,
                                        .offset_ns = NODE_BIRTH_NS + clock_offset_ns}};
}

static int64_t wall_ns(const struct sim_node *node) {
    int64_t odd_ns = sim_now_ns < node->odd_until_ns ? sim_now_ns - node->odd_from_ns : 0;

    return clock_read(&node->clock) - (node->reversed ? 2 * odd_ns : odd_ns);
}

/* Until then; afterwards it is what it would have been. */
void node_freeze_clock(struct sim_node *node, int64_t until_ns, bool reversed) {
    if (sim_now_ns < node->odd_until_ns)
        return;
    node->odd_from_ns = sim_now_ns;
    node->odd_until_ns = until_ns;
    node->reversed = reversed;
}

static int64_t wall_us(const struct sim_node *node) {
    return wall_ns(node) / NS_PER_US;
}

static int64_t fence_skew_us(void) {
    return (int64_t) sim_fence_skew_ms * 1000;
}

void node_set_clock(struct sim_node *node, int64_t by_ns) {
    node->clock.offset_ns += by_ns;
    if (by_ns < 0)
        node->set_back_ns -= by_ns;
}

void node_forget(struct sim_node *node) {
    node->data = (struct node_data){0};
}

void node_save(struct sim_node *node) {
    node->saved = node->data;
}

void node_load(struct sim_node *node) {
    node->data = node->saved;
}

void node_restart(struct sim_node *node) {
    node->process++;
    memset(node->told, 0, sizeof(node->told));
}

void node_bless(struct sim_node *node) {
    node->data.epoch = node->process;
    node->data.floor_us = wall_us(node) + fence_skew_us();
    memset(node->data.marks, 0, sizeof(node->data.marks));
}

/* What probe.lua and bless.lua do. */
void node_probe(struct sim_node *node, struct event *probe) {
    struct node_data *data = &node->data;
    unsigned keeper = (unsigned) probe->agent * SIM_KEEPERS_MAX + probe->keeper;
    bool blessed = data->epoch == node->process;

    if (blessed && !probe->as.probe.bless && probe->as.probe.withdraw_us == data->floor_us) {
        trace("node %u: its blessing is withdrawn by agent %u", probe->node, probe->agent);
        data->epoch = 0;
        blessed = false;
    }
    if (!blessed && probe->as.probe.disown)
        data->epoch = 0;
    bool heir = !blessed && probe->as.probe.former != 0 && data->epoch == probe->as.probe.former;
    if (!blessed && !heir && probe->as.probe.leave) {
        data->marks[keeper].number = probe->as.probe.mark;
        data->marks[keeper].process = node->process;
    }
    bool marked = !heir && data->marks[keeper].number == probe->as.probe.mark &&
                  data->marks[keeper].process == node->process;
    if (!blessed && probe->as.probe.bless && (heir || marked)) {
        trace("node %u is blessed by agent %u%s", probe->node, probe->agent,
              heir ? ", as the process before it was" : "");
        sim_counts.inheritances += heir;
        sim_last_blessed = probe->node;
        int64_t former_floor_us = data->floor_us;
        node_bless(node);
        if (heir)
            data->floor_us = former_floor_us;
        blessed = true;
    }
    probe->kind = EVENT_PROBED;
    probe->as.probe.epoch = data->epoch;
    probe->as.probe.answer = (struct probe){.blessed = blessed,
                                            .heir = heir && !blessed,
                                            .marked = marked,
                                            .max_ttl_ms = blessed ? SIM_LONGEST_TTL_MS : 0,
                                            .floor_us = blessed ? data->floor_us : 0,
                                            .time_us = wall_us(node),
                                            .sent_ns = probe->sent_ns};
}

static int64_t expiry_ns(const struct sim_node *node, uint32_t ttl_ms) {
    return wall_ns(node) + (int64_t) ttl_ms * NS_PER_MS;
}

void node_overwrite(struct sim_node *node, unsigned name, uint32_t ttl_ms) {
    node->data.keys[name].set = true;
    node->data.keys[name].let_go = false;
    node->data.keys[name].owner = 0;
    for (unsigned i = 0; i < SECRET_BYTES; i++)
        node->data.keys[name].secret[i] = (uint8_t) random_next(&sim_random);
    node->data.keys[name].expires_ns = expiry_ns(node, ttl_ms);
}

/* What acquire.lua and raise.lua make of a token. */
static enum token_verdict judge_token(struct sim_node *node, unsigned name, int64_t token, int64_t last,
                                      int64_t *ret_largest) {
    int64_t *fence = &node->data.keys[name].token;
    int64_t ahead_us = last - wall_us(node), behind_us = wall_us(node) - token;

    *ret_largest = *fence > node->data.floor_us ? *fence : node->data.floor_us;
    if (token <= *ret_largest)
        return TOKEN_SMALL;
    if (ahead_us > fence_skew_us() || behind_us > fence_skew_us())
        return TOKEN_FAR;
    *ret_largest = *fence = last;
    node->data.keys[name].own_token = token;
    return TOKEN_ACCEPTED;
}

static enum token_verdict judge_request_token(struct sim_node *node, const struct event *request,
                                              struct event *reply) {
    return judge_token(node, request->name, request->as.request.token, request->as.request.token_last,
                       &reply->as.reply.token);
}

static void set_key(struct sim_node *node, const struct event *request) {
    node->data.keys[request->name].set = true;
    node->data.keys[request->name].let_go = false;
    memcpy(node->data.keys[request->name].secret, request->as.request.secret, SECRET_BYTES);
    node->data.keys[request->name].owner = request->as.request.owner;
    node->data.keys[request->name].expires_ns = expiry_ns(node, request->as.request.ttl_ms);
}

/* The key is free or has our value. */
static enum vote_kind execute_on_key(struct sim_node *node, const struct event *request, bool ours,
                                     struct event *reply) {
    switch (request->as.request.operation) {
    case OPERATION_ACQUIRE:
        if (ours)
            return VOTE_FOREIGN; /* SET NX: even our own is in the way */
        set_key(node, request);
        if (request->as.request.token != 0)
            reply->as.reply.token_verdict = judge_request_token(node, request, reply);
        return VOTE_YES;
    case OPERATION_RAISE:
        if (!ours)
            return VOTE_FOREIGN;
        sim_counts.raises++;
        reply->as.reply.token_verdict = judge_request_token(node, request, reply);
        return reply->as.reply.token_verdict == TOKEN_ACCEPTED ? VOTE_YES : VOTE_BEHIND;
    case OPERATION_EXTEND:
        set_key(node, request);
        return ours ? VOTE_YES : VOTE_REPAIRED;
    case OPERATION_REFRESH:
        sim_counts.refreshes++;
        set_key(node, request);
        if (request->as.request.token != 0 &&
            node->data.keys[request->name].token >= request->as.request.token)
            node->data.keys[request->name].own_token = request->as.request.token;
        return ours ? VOTE_YES : VOTE_REPAIRED;
    case OPERATION_ADOPT:
        if (!ours)
            return VOTE_FREE;
        set_key(node, request);
        return VOTE_YES;
    case OPERATION_RELEASE:
        if (!ours)
            return VOTE_YES;
        clients_check_deletion(node->data.keys[request->name].secret);
        node->data.keys[request->name].set = false;
        node->data.keys[request->name].let_go = true;
        if (!request->as.request.quiet)
            ears_tell(node, request->name);
        return VOTE_YES;
    case OPERATION_LOOK:
        break;
    }
    return VOTE_FREE;
}

static bool refuses(const struct sim_node *node, enum operation operation) {
    return sim_now_ns < node->refuses_until_ns && operation != OPERATION_LOOK && chance(80);
}

struct event node_execute(struct sim_node *node, const struct event *request) {
    struct node_data *data = &node->data;
    struct event reply = *request;
    enum operation operation = request->as.request.operation;

    if (data->keys[request->name].set && wall_ns(node) >= data->keys[request->name].expires_ns)
        data->keys[request->name].set = false;
    bool set = data->keys[request->name].set;
    const uint8_t *value = data->keys[request->name].secret;
    bool former =
        request->as.request.has_former && memcmp(value, request->as.request.former, SECRET_BYTES) == 0;
    bool ours =
        set && (memcmp(value, request->as.request.secret, SECRET_BYTES) == 0 || former) &&
        (operation == OPERATION_ADOPT || data->keys[request->name].owner == request->as.request.owner);

    reply.kind = EVENT_REPLY;
    memset(&reply.as, 0, sizeof(reply.as));
    reply.as.reply.ticket = request->as.request.ticket;
    reply.as.reply.kind = VOTE_YES;
    reply.as.reply.ttl_left_ms = -1;
    reply.time_us = -1;
    if (operation != OPERATION_RELEASE && operation != OPERATION_LOOK) {
        if (request->as.request.epoch != data->epoch || request->as.request.floor_us != data->floor_us) {
            reply.as.reply.kind = VOTE_EPOCH;
            return reply;
        }
    }
    if (refuses(node, operation)) {
        reply.as.reply.kind = VOTE_REFUSED;
        return reply;
    }
    if (operation != OPERATION_RELEASE && operation != OPERATION_LOOK)
        reply.time_us = wall_us(node);
    if (set && !ours && operation != OPERATION_RAISE) {
        reply.as.reply.ttl_left_ms = (data->keys[request->name].expires_ns - wall_ns(node)) / NS_PER_MS;
        memcpy(reply.as.reply.secret, data->keys[request->name].secret, SECRET_BYTES);
        reply.as.reply.owner = data->keys[request->name].owner;
        if (operation != OPERATION_RELEASE)
            reply.as.reply.kind = VOTE_FOREIGN;
        return reply;
    }
    reply.as.reply.kind = execute_on_key(node, request, ours, &reply);
    return reply;
}

bool node_has_keys(const struct sim_node *node) {
    for (unsigned i = 0; i < SIM_NAMES; i++)
        if (node->data.keys[i].set && wall_ns(node) < node->data.keys[i].expires_ns)
            return true;
    return false;
}
