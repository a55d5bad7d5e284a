/* The calls of a keeper: requests collected over a turn, batched by the agent's own call plan, one message
 * for each call and node, and one for its answer. */

#include <assert.h>
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "core/leader-query.h"
#include "core/ticket.h"
#include "agent.h"
#include "calls.h"
#include "events.h"
#include "fault.h"
#include "leaders.h"
#include "observer.h"
#include "reload.h"
#include "trust.h"

enum { VALUE_BYTES = 96, SEARCH_LATE_MS = 3000 };

static int64_t keeper_now(const struct sim_keeper *keeper) {
    return clock_read(&keeper->agent->clock);
}

/* --- collecting --- */

void calls_reset(struct sim_keeper *keeper) {
    keeper->turn = (struct call_plan_turn){.items = keeper->items};
    keeper->n_bounced = 0;
    memset(keeper->observations, 0, sizeof(keeper->observations));
    keeper->hashes_meet = chance(10);
    /* Nodes whose ACL refuses some of our keys, as far as the agent knows. */
    bool has_alone = chance(20);
    for (unsigned i = 0; has_alone && i < CALL_PLAN_OPERATIONS; i++)
        keeper->turn.alone[i] = (node_set) pick(0, (1 << keeper->agent->n_nodes) - 1);
    for (unsigned i = 0; i < keeper->agent->n_nodes; i++)
        keeper->connections[i].first = keeper->connections[i].count = 0;
}

static uint16_t read_number(const char **at, const char *end) {
    uint16_t number = 0;

    while (*at < end && **at >= '0' && **at <= '9')
        number = (uint16_t) (number * 10 + *(*at)++ - '0');
    if (*at < end)
        ++*at;
    return number;
}

/* "pid:uid:data", where data is a letter and a number. */
static struct sim_tail read_tail(const struct sim_keeper *keeper, const struct shared_string *text) {
    const char *at = shared_string_tail(text), *end = at + text->tail_length;
    struct sim_tail tail = {.host = (uint8_t) (1 + keeper->agent->host)};

    tail.pid = read_number(&at, end);
    tail.uid = read_number(&at, end);
    if (at < end)
        at++;
    tail.data = read_number(&at, end);
    return tail;
}

/* An orphan's value without its random part, as write_value() writes it. */
static void read_orphan(const struct shared_string *text, struct sim_request *request) {
    char rest[VALUE_BYTES];
    unsigned host, owner, pid, uid, data = 0;

    (void) snprintf(rest, sizeof(rest), "%.*s", (int) text->tail_length, shared_string_tail(text));
    int n = sscanf(rest, ":h%u:%8x:%u:%u:d%u", &host, &owner, &pid, &uid, &data);
    assert(n >= 4);
    request->owner = owner;
    request->tail = (struct sim_tail){
        .host = (uint8_t) host, .pid = (uint16_t) pid, .uid = (uint16_t) uid, .data = (uint16_t) data};
}

/* As bits. */
static uint32_t read_predecessors(const struct shard_predecessors *predecessors, uint32_t owner) {
    uint32_t set = 0;

    for (unsigned i = 0; i < predecessors->count; i++) {
        unsigned host, life;
        int n = sscanf(predecessors->all[i].identity.bytes, ":h%u:%8x:", &host, &life);
        assert(n == 2 && life < owner);
        if (owner - life <= 32)
            set |= UINT32_C(1) << (owner - life - 1);
    }
    return set;
}

static void note_query(struct sim_keeper *keeper, unsigned name, uint64_t ticket) {
    const struct pool *queries = &keeper->shard.queries;
    const struct leader_query *query = pool_at(queries, ticket_slot(ticket) - keeper->shard.leases.capacity);

    if (query->origin != REPORT_ORIGIN_OBSERVE)
        return;
    keeper->observations[name].ticket = ticket;
    keeper->observations[name].due_ns = timer_queue_at(&keeper->shard.due, ticket_slot(ticket));
    keeper->observations[name].answered = 0;
}

void calls_add(struct sim_keeper *keeper, const struct send *send) {
    unsigned name = (unsigned) (send->text->bytes[0] - '0');

    assert(keeper->turn.count < SIM_TURN_MAX);
    observer_sent(keeper, name, send);
    trust_asks(keeper, send->operation, send->nodes);
    if (send->operation == OPERATION_QUERY)
        note_query(keeper, name, send->ticket);
    struct sim_asked *asked = &keeper->asked[keeper->turn.count];
    *asked = (struct sim_asked){.name = (uint8_t) name, .left = send->nodes, .number = ++keeper->n_asked};
    asked->request = (struct sim_request){.operation = send->operation,
                                          .number = asked->number,
                                          .quiet = send->quiet,
                                          .ttl_ms = send->ttl_ms,
                                          .ticket = send->ticket,
                                          .owner = keeper->agent->index << 24 | keeper->agent->life};
    if (send->predecessors)
        asked->request.predecessors = read_predecessors(send->predecessors, asked->request.owner);
    if (send->former) {
        memcpy(asked->request.former, send->former, SECRET_BYTES);
        asked->request.former_tail = read_tail(keeper, send->former_text);
    }
    if (send->orphan)
        read_orphan(send->text, &asked->request);
    else if (send->operation != OPERATION_QUERY)
        asked->request.tail = read_tail(keeper, send->text);
    if (send->secret)
        memcpy(asked->request.secret, send->secret, SECRET_BYTES);
    const struct call_plan_item *item = call_plan_add(
        &keeper->turn, send, keeper->hashes_meet ? 1 : (name + 1) * UINT64_C(0x9e3779b97f4a7c15));
    /* The words of a call are written by what the plan says of them. */
    asked->request.has_former = item->has_former;
    asked->request.token = item->has_token ? send->token : 0;
    asked->request.token_last = item->has_block ? send->token_last : asked->request.token;
}

bool calls_pending(const struct sim_keeper *keeper) {
    return keeper->turn.count > 0 || keeper->n_bounced > 0;
}

/* --- sending --- */

static struct sim_asked *asked_of(struct sim_keeper *keeper, const struct call_plan_call *draft,
                                  uint32_t i) {
    return &keeper->asked[draft->items[i] - keeper->items];
}

static void check_name(struct sim_keeper *keeper, node_set to, struct sim_asked *asked) {
    if (to & ~asked->left)
        violation("agent %u sends a request to a node twice, or to a wrong node", keeper->agent->index);
    asked->left &= (node_set) ~to;
    for (unsigned i = 0; i < keeper->agent->n_nodes; i++) {
        uint64_t *last = &keeper->connections[i].last_asked[asked->name];
        if (!(to & node_set_of(i)))
            continue;
        if (asked->number <= *last)
            violation("the order of agent %u's requests to node %u for name %u changes",
                      keeper->agent->index, i, asked->name);
        *last = asked->number;
    }
}

/* The arguments that a script gets once for all names of a call. */
static bool is_alike(const struct call_plan_item *a, const struct call_plan_item *b) {
    return a->operation == b->operation && a->quiet == b->quiet && a->has_former == b->has_former &&
           a->has_token == b->has_token && a->has_block == b->has_block;
}

static bool is_for_one(enum operation operation) {
    return operation == OPERATION_RAISE || operation == OPERATION_REFRESH || operation == OPERATION_QUERY;
}

static void check_call(struct sim_keeper *keeper, node_set to, const struct call_plan_call *draft) {
    enum operation operation = draft->items[0]->operation;
    bool seen[SIM_NAMES] = {false};

    if (draft->count > 1 && (is_for_one(operation) || (keeper->turn.alone[operation] & to)))
        violation("a call of agent %u has %u names, more than its operation allows", keeper->agent->index,
                  draft->count);
    for (uint32_t i = 0; i < draft->count; i++) {
        if (!is_alike(draft->items[i], draft->items[0]))
            violation("a call of agent %u mixes different requests", keeper->agent->index);
        struct sim_asked *asked = asked_of(keeper, draft, i);
        if (seen[asked->name])
            violation("a call of agent %u has name %u twice", keeper->agent->index, asked->name);
        seen[asked->name] = true;
        check_name(keeper, to, asked);
    }
}

bool calls_is_dropped(struct sim_connection *connection) {
    if (connection->silent && connection->true_unanswered_ns == 0)
        connection->true_unanswered_ns = sim_now_ns;
    return connection->silent;
}

void calls_transmit(struct sim_keeper *keeper, unsigned node, struct event *event) {
    struct sim_connection *connection = &keeper->connections[node];
    struct sim_call *call = &event->as.call;

    assert(connection->count < SIM_OUTSTANDING_MAX);
    bool is_dropped = calls_is_dropped(connection);
    connection->outstanding[(connection->first + connection->count++) % SIM_OUTSTANDING_MAX] = call->tickets;
    int64_t at_ns = sim_now_ns + network_delay_ns();
    if (sim_faults.bad_starts && !sim_calm && call->requests[0].operation == OPERATION_SEARCH && chance(75))
        at_ns += pick(0, SEARCH_LATE_MS) * NS_PER_MS; /* and the agent may be killed meanwhile */
    connection->request_ns = instant_max(at_ns, connection->request_ns + 1); /* keeps its order */
    event->at_ns = connection->request_ns;
    event->node = (uint8_t) node;
    event->process = agent_node(keeper->agent, node)->process;
    event->life = connection->life;
    if (!is_dropped)
        events_add(event);
    sim_counts.requests += call->tickets.count;
    sim_counts.calls++;
    sim_counts.shared_calls += call->tickets.count > 1;
}

static void send_to_node(struct sim_keeper *keeper, unsigned node, struct event *event) {
    struct sim_connection *connection = &keeper->connections[node];
    struct sim_call *call = &event->as.call;

    assert(keeper->n_bounced < SIM_OUTSTANDING_MAX);
    if (!connection->up) {
        keeper->bounced[keeper->n_bounced].node = node;
        keeper->bounced[keeper->n_bounced++].tickets = call->tickets;
        return;
    }
    call->epoch = connection->trusted.process;
    call->floor_us = connection->trusted.floor_us;
    call->generation = connection->trusted.generation;
    if (!reload_holds(connection, event))
        calls_transmit(keeper, node, event);
}

static void on_call(void *userdata, node_set to, const struct call_plan_call *draft) {
    struct sim_keeper *keeper = userdata;
    struct event event = {.kind = EVENT_CALL,
                          .agent = (uint8_t) keeper->agent->index,
                          .keeper = (uint8_t) keeper->index,
                          .sent_ns = keeper_now(keeper),
                          .true_sent_ns = sim_now_ns};

    check_call(keeper, to, draft);
    if (sim_violated)
        return;
    event.as.call.tickets.count = draft->count;
    for (uint32_t i = 0; i < draft->count; i++) {
        event.as.call.tickets.all[i] = draft->items[i]->ticket;
        event.as.call.names[i] = asked_of(keeper, draft, i)->name;
        event.as.call.requests[i] = asked_of(keeper, draft, i)->request;
    }
    for (unsigned i = 0; i < keeper->agent->n_nodes; i++)
        if (to & node_set_of(i))
            send_to_node(keeper, i, &event);
}

void calls_send(struct sim_keeper *keeper) {
    uint32_t count = keeper->turn.count;

    (void) call_plan_all(&keeper->turn, &(struct call_plan_sink){on_call, keeper});
    for (uint32_t i = 0; i < count && !sim_violated; i++)
        if (keeper->asked[i].left != 0)
            violation("a request of agent %u for name %u is never sent", keeper->agent->index,
                      keeper->asked[i].name);
}

/* --- answers --- */

static struct vote same_for_all(void *userdata, uint32_t index) {
    const enum vote_kind *kind = userdata;

    (void) index;
    return (struct vote){.kind = *kind, .text = ""};
}

void calls_end(struct sim_keeper *keeper, unsigned node, const struct sim_tickets *tickets,
               enum vote_kind kind) {
    const struct call_plan_answer answer = {.node = node,
                                            .count = tickets->count,
                                            .tickets = tickets->all,
                                            .time_us = -1,
                                            .vote = same_for_all,
                                            .userdata = &kind};

    call_plan_answered(&answer, &keeper->shard, keeper_now(keeper));
}

static void cut(struct sim_keeper *keeper, unsigned node, const struct sim_tickets *tickets) {
    calls_end(keeper, node, tickets, VOTE_CUT);
}

struct sim_tickets calls_next_outstanding(struct sim_connection *connection) {
    struct sim_tickets tickets = connection->outstanding[connection->first];

    assert(connection->count > 0);
    connection->count--;
    /* The same memory again, if there is no other call. */
    connection->first = connection->count == 0 ? 0 : (connection->first + 1) % SIM_OUTSTANDING_MAX;
    return tickets;
}

static void check_cut(const struct sim_keeper *keeper, unsigned node) {
    const struct node *known = &keeper->shard.nodes[node];
    uint32_t to_send = known->probing;

    for (uint32_t i = 0; i < keeper->turn.count; i++)
        to_send += keeper->items[i].nodes & node_set_of(node) ? 1 : 0;
    if (known->outstanding > to_send)
        violation("agent %u awaits answers of node %u, whose connection broke", keeper->agent->index, node);
}

void calls_cut(struct sim_keeper *keeper, unsigned node) {
    while (keeper->connections[node].count > 0) {
        const struct sim_tickets tickets = calls_next_outstanding(&keeper->connections[node]);
        cut(keeper, node, &tickets);
    }
    reload_cut(keeper, node);
    check_cut(keeper, node);
}

void calls_bounce(struct sim_keeper *keeper) {
    while (keeper->n_bounced > 0) {
        keeper->n_bounced--;
        cut(keeper, keeper->bounced[keeper->n_bounced].node, &keeper->bounced[keeper->n_bounced].tickets);
    }
}

struct answered {
    const struct event *event;
    char value[VALUE_BYTES];
};

static char *write_hex(char *at, const uint8_t *bytes, size_t count) {
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < count; i++) {
        *at++ = digits[bytes[i] >> 4];
        *at++ = digits[bytes[i] & 15];
    }
    return at;
}

static char *write_number(char *at, unsigned number) {
    if (number >= 10)
        at = write_number(at, number / 10);
    *at++ = (char) ('0' + number % 10);
    return at;
}

/* The value as it would be on the node. */
static size_t write_value(const struct sim_reply *reply, char value[VALUE_BYTES]) {
    const struct sim_tail *tail = &reply->tail;

    if (reply->owner == 0)
        return (size_t) (stpcpy(value, "other") - value);
    const uint32_t owner = htobe32(reply->owner);
    char *at = write_hex(value, reply->secret, SECRET_BYTES);
    at = write_number(stpcpy(at, ":h"), tail->host);
    at = write_hex(stpcpy(at, ":"), (const uint8_t *) &owner, sizeof(owner));
    at = write_number(stpcpy(at, ":"), tail->pid);
    at = write_number(stpcpy(at, ":"), tail->uid);
    at = stpcpy(at, ":");
    if (tail->data != 0)
        at = write_number(stpcpy(at, "d"), tail->data);
    return (size_t) (at - value);
}

static struct vote vote_at(void *userdata, uint32_t index) {
    struct answered *answered = userdata;
    const struct sim_reply *reply = &answered->event->as.answer.replies[index];
    size_t length = reply->kind == VOTE_FOREIGN ? write_value(reply, answered->value) : 0;

    return (struct vote){.kind = reply->kind,
                         .text = answered->value,
                         .text_length = length,
                         .ttl_left_ms = reply->ttl_left_ms,
                         .token_verdict = reply->token_verdict,
                         .token = reply->token};
}

static void note_answer(struct sim_keeper *keeper, unsigned node, const struct sim_reply *reply) {
    for (unsigned i = 0; i < SIM_NAMES; i++) {
        if (reply->ticket != keeper->observations[i].ticket ||
            (reply->kind != VOTE_FREE && reply->kind != VOTE_FOREIGN) ||
            keeper_now(keeper) >= keeper->observations[i].due_ns)
            continue;
        keeper->observations[i].answered |= node_set_of(node);
        if (node_set_count(keeper->observations[i].answered) == keeper->agent->n_nodes)
            leaders_all_answered(keeper->agent, i);
    }
}

void calls_answered(struct sim_keeper *keeper, const struct event *event) {
    const struct sim_tickets tickets = calls_next_outstanding(&keeper->connections[event->node]);
    struct answered answered = {.event = event};
    const struct call_plan_answer answer = {.node = event->node,
                                            .count = tickets.count,
                                            .tickets = tickets.all,
                                            .sent_ns = event->sent_ns,
                                            .time_us = event->time_us,
                                            .vote = vote_at,
                                            .userdata = &answered};

    assert(tickets.count == event->as.answer.tickets.count);
    assert(memcmp(tickets.all, event->as.answer.tickets.all, tickets.count * sizeof(tickets.all[0])) == 0);
    for (uint32_t i = 0; i < tickets.count; i++) {
        const struct sim_reply *reply = &event->as.answer.replies[i];
        note_answer(keeper, event->node, reply);
        if (reply->kind == VOTE_FOREIGN)
            observer_voted_foreign(keeper, event->node, reply->ticket);
    }
    reload_overtaken(keeper, event->node);
    call_plan_answered(&answer, &keeper->shard, keeper_now(keeper));
}
