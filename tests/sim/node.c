/* A Redis node, as the scripts see it: keys expire by the node's own clock. */

#include <string.h>

#include "clients.h"
#include "events.h"
#include "node.h"
#include "pubsub.h"

#define NODE_BIRTH_NS (INT64_C(1700000000) * NS_PER_S)
#define NOTED_US (INT64_C(180) * 1000000)

struct sim_node sim_nodes[SIM_NODES_MAX];
unsigned sim_n_nodes;

int64_t sim_keyed_ns[SIM_NAMES];

static void note_key(unsigned name) {
    sim_keyed_ns[name] = sim_now_ns;
}

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

/* Until the end of the fault; then the clock shows the time that it would have reached. */
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

int64_t node_clock_us(const struct sim_node *node) {
    return wall_us(node);
}

int64_t node_key_left_ns(const struct sim_node *node, unsigned name) {
    return node->data.keys[name].expires_ns - wall_ns(node);
}

void node_set_clock(struct sim_node *node, int64_t by_ns) {
    node->clock.offset_ns += by_ns;
    if (by_ns < 0)
        node->set_back_ns -= by_ns;
}

void node_forget(struct sim_node *node) {
    for (unsigned i = 0; i < SIM_NAMES; i++)
        note_key(i);
    node->data = (struct node_data){0};
    node->lost_ns = sim_now_ns;
}

void node_save(struct sim_node *node) {
    node->saved = node->data;
}

void node_load(struct sim_node *node) {
    for (unsigned i = 0; i < SIM_NAMES; i++)
        note_key(i);
    node->data = node->saved;
    node->lost_ns = sim_now_ns;
}

void node_restart(struct sim_node *node) {
    node->process++;
    memset(node->subscribers, 0, sizeof(node->subscribers));
}

void node_bless(struct sim_node *node, uint32_t max_ttl_ms, uint32_t fleet, bool rested,
                uint32_t fence_skew_ms) {
    node->data.epoch = node->process;
    node->data.floor_us = wall_us(node) + (int64_t) fence_skew_ms * 1000;
    node->data.max_ttl_ms = max_ttl_ms;
    node->data.proposed_ms = 0;
    node->data.generation = 0;
    node->data.fleet = fleet;
    node->data.rested = rested;
}

bool node_is_rested(const struct sim_node *node) {
    return node->data.epoch == node->process && node->data.rested;
}

bool node_has_mark(const struct sim_node *node, unsigned agent, unsigned keeper) {
    return node->data.marks[agent * SIM_KEEPERS_MAX + keeper].process == node->process;
}

static void forget_marks(struct node_data *data) {
    memset(data->marks, 0, sizeof(data->marks));
    memset(data->fleet_marked_us, 0, sizeof(data->fleet_marked_us));
    data->marked_ms = 0;
}

static bool is_marked(const struct sim_node *node, const struct event *probe) {
    unsigned keeper = (unsigned) probe->agent * SIM_KEEPERS_MAX + probe->keeper;

    return node->data.marks[keeper].number == probe->as.probe.mark &&
           node->data.marks[keeper].process == node->process;
}

/* The reply of probe.lua about an epoch; of amend.lua and bless.lua, in brief. */
static void reply_epoch(const struct sim_node *node, struct event *probe) {
    const struct node_data *data = &node->data;
    struct probe *answer = &probe->as.probe.answer;

    answer->blessed = true;
    answer->rested = data->rested;
    answer->foreign = data->fleet != probe->as.probe.fleet;
    answer->others = "others";
    answer->max_ttl_ms = data->max_ttl_ms;
    answer->proposed_ms = data->proposed_ms;
    answer->generation = data->generation;
    answer->floor_us = data->floor_us;
}

/* True if another fleet left its mark in the last ten seconds. */
static bool has_rival(struct sim_node *node, uint32_t fleet) {
    bool rival = false;

    node->data.fleet_marked_us[fleet] = wall_us(node);
    for (unsigned i = 0; i < SIM_FLEETS; i++) {
        int64_t age_us = wall_us(node) - node->data.fleet_marked_us[i];
        rival |= i != fleet && node->data.fleet_marked_us[i] != 0 && age_us < 10000000 && age_us > -10000000;
    }
    return rival;
}

static void look_for_mark(struct sim_node *node, struct event *probe) {
    unsigned keeper = (unsigned) probe->agent * SIM_KEEPERS_MAX + probe->keeper;
    struct probe *answer = &probe->as.probe.answer;
    struct node_data *data = &node->data;

    if (probe->as.probe.leave) {
        data->marks[keeper].number = probe->as.probe.mark;
        data->marks[keeper].process = node->process;
    }
    answer->marked = is_marked(node, probe);
    if (!answer->marked)
        return;
    if (data->marked_ms > answer->max_ttl_ms)
        answer->max_ttl_ms = data->marked_ms;
    if (data->marked_ms < probe->as.probe.max_ttl_ms)
        data->marked_ms = probe->as.probe.max_ttl_ms;
    answer->rival |= has_rival(node, probe->as.probe.fleet);
}

static bool is_noted(const struct sim_node *node, const struct sim_note *note, int64_t within_us) {
    int64_t age_us = wall_us(node) - note->at_us;

    return note->at_us != 0 && age_us < within_us && age_us > -within_us;
}

/* The addresses by which agents reach each other's nodes. */
static void note_addresses(struct sim_node *node, struct event *probe) {
    struct probe *answer = &probe->as.probe.answer;

    for (unsigned i = 0; i < probe->as.probe.n_nodes; i++) {
        struct sim_note *notes = node->data.notes[probe->as.probe.names[i]],
                        *own = &notes[probe->as.probe.at[i]];
        bool known = probe->as.probe.known & node_set_of(i), others_known = false, others_first = false;
        for (unsigned j = 0; j < SIM_ADDRESSES; j++) {
            bool other = &notes[j] != own && is_noted(node, &notes[j], NOTED_US);
            others_known |= other && notes[j].known;
            others_first |= other && !notes[j].known;
        }
        bool first = answer->marked && probe->as.probe.quarantine && !others_known && !others_first;
        bool due = !is_noted(node, own, NOTED_US / 3) || (known && !own->known);
        if (!answer->foreign && !answer->rival && (known || first) && due)
            *own = (struct sim_note){wall_us(node), known};
        bool is_own = is_noted(node, own, NOTED_US);
        if (!(is_own && own->known) && (others_known || (others_first && !is_own)))
            answer->elsewhere |= node_set_of(i);
    }
}

/* The epoch names the former process, whose data the node has. */
static bool is_heir(const struct sim_node *node, const struct event *probe) {
    const struct node_data *data = &node->data;

    return data->epoch != 0 && data->epoch != node->process && data->epoch == probe->as.probe.former &&
           (data->rested || !probe->as.probe.quarantine);
}

/* probe.lua */
static void examine(struct sim_node *node, struct event *probe) {
    struct node_data *data = &node->data;
    struct probe *answer = &probe->as.probe.answer;
    bool blessed = data->epoch == node->process;
    bool foreign = data->epoch != 0 && data->fleet != probe->as.probe.fleet;

    if (data->epoch != 0)
        answer->max_ttl_ms = data->max_ttl_ms;
    if (!foreign && blessed && probe->as.probe.withdraw_us == data->floor_us) {
        trace("node %u: its blessing is withdrawn by agent %u", (unsigned) (node - sim_nodes), probe->agent);
        data->epoch = 0;
        blessed = false;
    }
    if (!foreign && !blessed && probe->as.probe.disown)
        data->epoch = 0;
    answer->unrested = blessed && probe->as.probe.quarantine && !data->rested;
    if (blessed && !answer->unrested) {
        reply_epoch(node, probe);
    } else {
        answer->rival = answer->foreign = foreign;
        answer->others = "others";
        answer->heir = is_heir(node, probe);
        if (!answer->heir)
            look_for_mark(node, probe);
    }
    note_addresses(node, probe);
}

/* bless.lua */
static void bless(struct sim_node *node, struct event *probe) {
    struct node_data *data = &node->data;
    struct probe *answer = &probe->as.probe.answer;
    bool heir = is_heir(node, probe);

    answer->brief = true;
    if (data->epoch == node->process && (data->rested || !probe->as.probe.quarantine)) {
        reply_epoch(node, probe);
        return;
    }
    if (!heir) {
        if (!is_marked(node, probe))
            return;
        answer->max_ttl_ms = data->marked_ms;
        answer->marked = data->marked_ms > probe->as.probe.covered_ms;
        if (answer->marked)
            return;
    }
    trace("node %u is blessed by agent %u%s", (unsigned) (node - sim_nodes), probe->agent,
          heir ? ", as the process before it was" : "");
    sim_counts.inheritances += heir;
    sim_last_blessed = probe->node;
    if (heir) {
        data->epoch = node->process;
        data->generation++;
        data->proposed_ms = 0;
    } else {
        uint32_t longest_ms =
            data->marked_ms > probe->as.probe.max_ttl_ms ? data->marked_ms : probe->as.probe.max_ttl_ms;
        node_bless(node, longest_ms, probe->as.probe.fleet, probe->as.probe.quarantine,
                   probe->as.probe.fence_skew_ms);
    }
    if (data->rested)
        forget_marks(data);
    reply_epoch(node, probe);
}

/* amend.lua */
static void amend(struct sim_node *node, struct event *probe) {
    struct node_data *data = &node->data;

    probe->as.probe.answer.brief = true;
    if (data->epoch != node->process)
        return;
    if (data->floor_us == probe->as.probe.amended_floor_us &&
        data->generation == probe->as.probe.amended_generation) {
        sim_counts.amendments++;
        trace("node %u: its epoch is for %u ms now, with %u proposed, by agent %u",
              (unsigned) (node - sim_nodes), probe->as.probe.amendment.max_ttl_ms,
              probe->as.probe.amendment.proposed_ms, probe->agent);
        data->max_ttl_ms = probe->as.probe.amendment.max_ttl_ms;
        data->proposed_ms = probe->as.probe.amendment.proposed_ms;
        data->fleet = probe->as.probe.fleet;
        data->generation++;
    }
    reply_epoch(node, probe);
}

void node_probe(struct sim_node *node, struct event *probe) {
    probe->as.probe.answer = (struct probe){.time_us = wall_us(node), .sent_ns = probe->sent_ns};
    if (probe->as.probe.bless)
        bless(node, probe);
    else if (probe->as.probe.amend)
        amend(node, probe);
    else
        examine(node, probe);
    if (probe->as.probe.answer.others)
        probe->as.probe.answer.others_length = strlen(probe->as.probe.answer.others);
    probe->kind = EVENT_PROBED;
    probe->as.probe.epoch = node->data.epoch;
}

static int64_t expiry_ns(const struct sim_node *node, uint32_t ttl_ms) {
    return wall_ns(node) + (int64_t) ttl_ms * NS_PER_MS;
}

void node_overwrite(struct sim_node *node, unsigned name, uint32_t ttl_ms) {
    node->overwritten_ns = sim_now_ns;
    note_key(name);
    node->data.keys[name].set = true;
    node->data.keys[name].released = false;
    node->data.keys[name].owner = 0;
    for (unsigned i = 0; i < SECRET_BYTES; i++)
        node->data.keys[name].secret[i] = (uint8_t) random_next(&sim_random);
    node->data.keys[name].expires_ns = expiry_ns(node, ttl_ms);
}

/* The key, if it has this value. */
static struct sim_key *other_key(struct sim_node *node, unsigned name, const uint8_t secret[SECRET_BYTES]) {
    struct sim_key *key = &node->data.keys[name];

    return key->set && wall_ns(node) < key->expires_ns && key->owner == 0 &&
                   memcmp(key->secret, secret, SECRET_BYTES) == 0
               ? key
               : NULL;
}

bool node_other_set(struct sim_node *node, unsigned name, const uint8_t secret[SECRET_BYTES],
                    uint32_t ttl_ms) {
    struct sim_key *key = &node->data.keys[name];

    if (key->set && wall_ns(node) < key->expires_ns)
        return false;
    note_key(name);
    key->set = true;
    key->released = false;
    key->owner = 0;
    memcpy(key->secret, secret, SECRET_BYTES);
    key->expires_ns = expiry_ns(node, ttl_ms);
    return true;
}

bool node_other_extend(struct sim_node *node, unsigned name, const uint8_t secret[SECRET_BYTES],
                       uint32_t ttl_ms) {
    struct sim_key *key = other_key(node, name, secret);

    if (key)
        key->expires_ns = expiry_ns(node, ttl_ms);
    return key != NULL;
}

void node_other_delete(struct sim_node *node, unsigned name, const uint8_t secret[SECRET_BYTES]) {
    struct sim_key *key = other_key(node, name, secret);

    note_key(name);
    if (key)
        key->set = false;
}

/* A missing fence counts as the floor. */
static int64_t largest_token(const struct sim_node *node, unsigned name) {
    int64_t fence = node->data.keys[name].token;

    return fence > node->data.floor_us ? fence : node->data.floor_us;
}

/* The verdict of acquire.lua and raise.lua on a token. */
static enum token_verdict judge_token(struct sim_node *node, unsigned name,
                                      const struct sim_request *request, int64_t *ret_largest) {
    int64_t *fence = &node->data.keys[name].token, skew_us = (int64_t) request->fence_skew_ms * 1000;
    int64_t ahead_us = request->token_last - wall_us(node), behind_us = wall_us(node) - request->token;

    *ret_largest = largest_token(node, name);
    if (request->token <= *ret_largest)
        return TOKEN_SMALL;
    if (ahead_us > skew_us || behind_us > skew_us)
        return TOKEN_FAR;
    *ret_largest = *fence = request->token_last;
    node->data.keys[name].own_token = request->token;
    return TOKEN_ACCEPTED;
}

static void set_key(struct sim_node *node, unsigned name, const struct sim_request *request) {
    note_key(name);
    node->data.keys[name].set = true;
    node->data.keys[name].released_before = node->data.keys[name].released;
    node->data.keys[name].released = false;
    memcpy(node->data.keys[name].secret, request->secret, SECRET_BYTES);
    node->data.keys[name].owner = request->owner;
    node->data.keys[name].tail = request->tail;
    node->data.keys[name].expires_ns = expiry_ns(node, request->ttl_ms);
}

uint16_t node_number_of(const uint8_t secret[SECRET_BYTES]) {
    return (uint16_t) (secret[SECRET_BYTES - 2] << 8 | secret[SECRET_BYTES - 1]);
}

/* The lease's place among those that were resumed; SIM_MOVED: none. */
static unsigned moved_at(const struct sim_node *node, const uint8_t secret[SECRET_BYTES]) {
    unsigned at = 0;

    while (at < SIM_MOVED && (memcmp(node->data.moved[at].lease, secret, SECRET_LEASE_BYTES) != 0 ||
                              wall_ns(node) >= node->data.moved[at].expires_ns))
        at++;
    return at;
}

/* The lease's place becomes the first one; without a place, the last lease is forgotten. */
static void note_moved(struct sim_node *node, const struct sim_request *request) {
    struct node_data *data = &node->data;
    unsigned at = moved_at(node, request->secret);

    memmove(&data->moved[1], &data->moved[0],
            (at < SIM_MOVED ? at : SIM_MOVED - 1) * sizeof(data->moved[0]));
    memcpy(data->moved[0].lease, request->secret, SECRET_LEASE_BYTES);
    data->moved[0].number = node_number_of(request->secret);
    data->moved[0].owner = request->owner;
    data->moved[0].expires_ns = expiry_ns(node, 2 * request->ttl_ms);
}

/* adopt.lua: a search is a RESUME of a former process if the number changes. */
static void adopt(struct sim_node *node, unsigned name, const struct sim_request *request) {
    uint16_t number = node_number_of(node->data.keys[name].secret);

    set_key(node, name, request);
    if (request->operation == OPERATION_ADOPT || number != node_number_of(request->secret) ||
        moved_at(node, request->secret) < SIM_MOVED)
        note_moved(node, request);
}

/* Another agent has resumed the lease of this request, or another process. */
static bool is_moved(const struct sim_node *node, const struct sim_request *request) {
    unsigned at = moved_at(node, request->secret);

    if (at == SIM_MOVED)
        return false;
    uint16_t later = (uint16_t) (node->data.moved[at].number - node_number_of(request->secret));
    return later < 32768 && (later > 0 || node->data.moved[at].owner != request->owner);
}

/* True if the lease's value is the last one of a majority: the release is a holder's, whatever the agent
 * says. A failed attempt's release frees no name: the holder's key had expired before the attempt. */
static bool had_majority(unsigned name, const uint8_t secret[SECRET_BYTES]) {
    unsigned nodes = 0;

    for (unsigned i = 0; i < sim_n_nodes; i++)
        nodes += memcmp(sim_nodes[i].data.keys[name].secret, secret, SECRET_LEASE_BYTES) == 0;
    return nodes >= quorum_of(sim_n_nodes);
}

/* The key is free or has our value. */
static enum vote_kind execute_on_key(struct sim_node *node, unsigned name, const struct sim_request *request,
                                     bool ours, struct sim_reply *reply) {
    switch (request->operation) {
    case OPERATION_ACQUIRE:
        if (ours)
            return VOTE_FOREIGN; /* SET NX: even our own value prevents it */
        set_key(node, name, request);
        if (request->token != 0)
            reply->token_verdict = judge_token(node, name, request, &reply->token);
        return VOTE_YES;
    case OPERATION_RAISE:
        if (!ours)
            return VOTE_FOREIGN;
        sim_counts.raises++;
        reply->token_verdict = judge_token(node, name, request, &reply->token);
        return reply->token_verdict == TOKEN_ACCEPTED ? VOTE_YES : VOTE_BEHIND;
    case OPERATION_EXTEND:
        if (!ours && is_moved(node, request))
            return VOTE_FOREIGN;
        set_key(node, name, request);
        return ours ? VOTE_YES : VOTE_REPAIRED;
    case OPERATION_REFRESH:
        if (!ours && is_moved(node, request))
            return VOTE_FOREIGN;
        sim_counts.refreshes++;
        set_key(node, name, request);
        if (request->token != 0 && largest_token(node, name) >= request->token) {
            node->data.keys[name].token = instant_max(node->data.keys[name].token, request->token);
            node->data.keys[name].own_token = request->token;
        }
        return ours ? VOTE_YES : VOTE_REPAIRED;
    case OPERATION_ADOPT:
    case OPERATION_SEARCH:
        if (!ours)
            return VOTE_FREE;
        adopt(node, name, request);
        return VOTE_YES;
    case OPERATION_RELEASE:
        if (!ours)
            return VOTE_YES;
        clients_check_deletion(name, &node->data.keys[name]);
        note_key(name);
        node->data.keys[name].set = false;
        node->data.keys[name].released =
            !request->quiet || had_majority(name, request->secret) || node->data.keys[name].released_before;
        if (!request->quiet)
            pubsub_publish(node, name);
        return VOTE_YES;
    case OPERATION_QUERY:
        break;
    }
    return VOTE_FREE;
}

static bool refuses(const struct sim_node *node, enum operation operation) {
    return sim_now_ns < node->refuses_until_ns && operation != OPERATION_QUERY && chance(80);
}

/* The script changes or reads the node only if the node has the epoch that the keeper knows. */
static bool compares_epoch(enum operation operation) {
    return operation != OPERATION_RELEASE && operation != OPERATION_QUERY;
}

static bool is_same_tail(const struct sim_tail *a, const struct sim_tail *b) {
    return a->host == b->host && a->pid == b->pid && a->uid == b->uid && a->data == b->data;
}

/* The process that sends the request, or a former one of its agent, set the key. */
static bool is_of_agent(const struct sim_key *key, const struct sim_request *request) {
    uint32_t lives = request->owner - key->owner;

    return lives == 0 || (lives <= 32 && (request->predecessors >> (lives - 1) & 1) != 0);
}

/* As adopt.lua says: agent and process may differ. */
static bool may_adopt(const struct sim_key *key, const struct sim_request *request) {
    uint16_t later = (uint16_t) (node_number_of(request->secret) - node_number_of(key->secret));

    return memcmp(key->secret, request->secret, SECRET_LEASE_BYTES) == 0 && later < 32768 &&
           key->owner != 0 && key->tail.host == request->tail.host && key->tail.uid == request->tail.uid &&
           key->tail.data == request->tail.data &&
           (request->operation == OPERATION_ADOPT || later > 0 || is_of_agent(key, request));
}

/* The key has the request's value, or the former one. */
static bool is_ours(const struct sim_key *key, const struct sim_request *request) {
    bool same = memcmp(key->secret, request->secret, SECRET_BYTES) == 0;

    if (request->operation == OPERATION_ADOPT || request->operation == OPERATION_SEARCH)
        return may_adopt(key, request);
    return key->owner == request->owner &&
           ((same && is_same_tail(&key->tail, &request->tail)) ||
            (request->has_former && memcmp(key->secret, request->former, SECRET_BYTES) == 0 &&
             is_same_tail(&key->tail, &request->former_tail)));
}

struct sim_reply node_execute(struct sim_node *node, unsigned name, const struct sim_request *request) {
    struct node_data *data = &node->data;
    enum operation operation = request->operation;
    struct sim_reply reply = {.ticket = request->ticket, .kind = VOTE_YES, .ttl_left_ms = -1, .time_us = -1};

    if (data->keys[name].set && wall_ns(node) >= data->keys[name].expires_ns)
        data->keys[name].set = false;
    bool set = data->keys[name].set;
    bool ours = set && is_ours(&data->keys[name], request);

    if (compares_epoch(operation) && (request->epoch != data->epoch || request->floor_us != data->floor_us ||
                                      request->generation != data->generation)) {
        reply.kind = VOTE_EPOCH;
        return reply;
    }
    if (refuses(node, operation)) {
        reply.kind = VOTE_REFUSED;
        return reply;
    }
    if (compares_epoch(operation))
        reply.time_us = wall_us(node);
    if (set && !ours && operation != OPERATION_RAISE) {
        reply.ttl_left_ms = (data->keys[name].expires_ns - wall_ns(node)) / NS_PER_MS;
        memcpy(reply.secret, data->keys[name].secret, SECRET_BYTES);
        reply.owner = data->keys[name].owner;
        reply.tail = data->keys[name].tail;
        if (operation == OPERATION_QUERY && request->token != 0)
            reply.token = data->keys[name].own_token;
        if (operation != OPERATION_RELEASE)
            reply.kind = VOTE_FOREIGN;
        return reply;
    }
    reply.kind = execute_on_key(node, name, request, ours, &reply);
    return reply;
}

bool node_has_keys(const struct sim_node *node) {
    for (unsigned i = 0; i < SIM_NAMES; i++)
        if (node->data.keys[i].set && wall_ns(node) < node->data.keys[i].expires_ns)
            return true;
    return false;
}
