/* What protocol.md says of nodes that lost their data, of epochs, of another fleet's nodes, and of clocks.
 * An agent could see at the nodes what is checked here. */

#include <string.h>

#include "agent.h"
#include "core/lease-table.h"
#include "core/ticket.h"
#include "events.h"
#include "node.h"
#include "trust.h"

enum {
    MARGIN_MS = 950,      /* a quarantine is a second longer than the ttl, by a clock that may be fast */
    STEP_MS = 10,         /* smaller steps of a clock may be ignored */
    STEPS_APART_MS = 5000 /* if two clocks are set within this time, the host's may have been set instead */
};

/* What a keeper's last answer of a node showed. */
struct shown {
    bool foreign; /* another fleet's epoch */
    uint32_t max_ttl_ms;
    bool timed;
    int64_t true_timed_ns;   /* since this instant of true time, on this connection */
    int64_t low_ns, high_ns; /* the node's clock is ahead of the host's by so much, */
    int64_t sent_ns;         /* since this instant of the host */
    int64_t step_ns;         /* by the last answer to a call, its clock was set by so much at least; 0: no */
    int64_t true_agreed_ns;  /* the last answer before the clock was set, on any connection; 0: none */
};

/* A keeper has seen that the node's clock was set. */
struct stepped {
    uint32_t life;             /* of the agent */
    int64_t true_ns, floor_us; /* then, and under this epoch; 0: never */
};

static struct {
    int64_t true_voted_ns[SIM_NODES_MAX][SIM_AGENTS_MAX]; /* its last request was sent then; 0: none */
    int64_t true_unsure_ns[SIM_NODES_MAX];                /* the node lost its data, or restarted */
    int64_t true_lost_ns[SIM_NODES_MAX];                  /* it lost its data; 0: and has voted since */
    int64_t true_examined_ns[SIM_NODES_MAX][SIM_AGENTS_MAX][SIM_KEEPERS_MAX]; /* its last probe */
    int64_t true_until_ns[SIM_NODES_MAX];                      /* and does not vote until then */
    int64_t true_set_ns[SIM_NODES_MAX];                        /* its clock was set */
    bool by_operator;                                          /* an operator has shortened an epoch */
    bool word[SIM_AGENTS_MAX][SIM_KEEPERS_MAX][SIM_NODES_MAX]; /* an operator's, for a quarantine now */
    struct shown shown[SIM_AGENTS_MAX][SIM_KEEPERS_MAX][SIM_NODES_MAX];
    struct stepped stepped[SIM_AGENTS_MAX][SIM_KEEPERS_MAX][SIM_NODES_MAX];
} trust;

void trust_reset(void) {
    memset(&trust, 0, sizeof(trust));
}

/* --- an operator's word --- */

static bool *word_of(const struct sim_keeper *keeper, unsigned node) {
    return &trust.word[keeper->agent->index][keeper->index][node];
}

static struct stepped *stepped_of(const struct sim_keeper *keeper, unsigned node) {
    return &trust.stepped[keeper->agent->index][keeper->index][node];
}

/* An operator's BLESS reaches the keeper. */
void trust_word_arrives(const struct sim_keeper *keeper, unsigned node) {
    const struct node *at_keeper = &keeper->shard.nodes[node];

    if (at_keeper->trust == NODE_TRUSTED || at_keeper->blessed)
        trust.by_operator = true;
    else
        *word_of(keeper, node) = true;
}

/* The word counts for the present loss alone, and ends when the keeper trusts the node: a blessing that was
 * sent may arrive until then. */
static void end_word(const struct sim_keeper *keeper, unsigned node) {
    if (keeper->shard.nodes[node].trust == NODE_TRUSTED)
        *word_of(keeper, node) = false;
}

static bool has_word(unsigned node) {
    bool has = sim_now_ns < sim_blessing_until_ns; /* it may be under way */

    for (unsigned i = 0; i < sim_n_agents; i++) {
        unsigned index = agent_index_of(&sim_agents[i], node);
        for (unsigned j = 0; index != SIM_NODES_MAX && j < sim_n_keepers; j++)
            has = has || trust.word[i][j][index];
    }
    return has;
}

/* Only an operator knows that the agents of the other fleet have ended. */
void trust_taken(unsigned node, const struct event *blessing) {
    if (!has_word(node))
        violation("agent %u blesses node %u, which has the data of another fleet", blessing->agent, node);
}

/* --- quarantines and epochs --- */

/* What is said of quarantines holds if all agents wait for them, and have one set of nodes. */
static bool all_wait(void) {
    bool all = sim_quarantine && !trust.by_operator && !sim_sets_differ && !sim_steps;

    for (unsigned i = 0; i < sim_n_agents; i++)
        all = all && sim_agents[i].quarantine;
    return all;
}

static int64_t longest_ns(unsigned agent) {
    return ((int64_t) sim_agents[agent].max_ttl_ms + MARGIN_MS) * NS_PER_MS;
}

void trust_voted(unsigned agent, unsigned node, int64_t true_sent_ns) {
    trust.true_voted_ns[node][agent] = instant_max(trust.true_voted_ns[node][agent], true_sent_ns);
}

/* True if a majority has voted for the agent since then, and lost nothing. */
static bool has_majority(unsigned agent, unsigned node, int64_t since_ns) {
    unsigned count = 0;

    for (unsigned i = 0; i < sim_n_nodes; i++)
        count += trust.true_voted_ns[i][agent] >= since_ns &&
                 (i == node || trust.true_voted_ns[i][agent] > trust.true_unsure_ns[i]);
    return count > sim_n_nodes / 2;
}

/* What the node forgets may be an agent's lease with its max_ttl. */
void trust_lost(unsigned node) {
    trust.true_unsure_ns[node] = trust.true_lost_ns[node] = sim_now_ns;
    for (unsigned i = 0; i < sim_n_agents; i++) {
        for (unsigned j = 0; j < sim_n_nodes; j++) {
            int64_t since_ns = instant_min(trust.true_voted_ns[j][i], trust.true_voted_ns[node][i]);
            if (since_ns > 0 && has_majority(i, node, since_ns))
                trust.true_until_ns[node] = instant_max(trust.true_until_ns[node], since_ns + longest_ns(i));
        }
        trust.true_voted_ns[node][i] = 0;
    }
}

void trust_restarted(unsigned node) {
    trust.true_unsure_ns[node] = sim_now_ns;
}

void trust_examined(unsigned node, const struct event *probe) {
    trust.true_examined_ns[node][probe->agent][probe->keeper] = sim_now_ns;
}

/* The keeper has asked so many others since the loss that one of them has voted for each lease. */
static void check_examined(unsigned node, const struct event *blessing) {
    unsigned others = 0;

    for (unsigned i = 0; i < sim_n_nodes; i++)
        others += i != node &&
                  trust.true_examined_ns[i][blessing->agent][blessing->keeper] > trust.true_lost_ns[node];
    if (others < sim_n_nodes - 1 && others < sim_n_nodes - quorum_of(sim_n_nodes) + 1)
        violation("node %u lost its data, and votes for agent %u, which has asked %u others since", node,
                  blessing->agent, others);
}

/* The epochs of the other nodes show the longest max_ttl, unless they are lost, too. */
void trust_blessed(unsigned node, const struct event *blessing) {
    bool shown = all_wait() && !has_word(node);

    for (unsigned i = 0; i < sim_n_nodes; i++)
        shown = shown && (i == node || trust.true_unsure_ns[i] < trust.true_unsure_ns[node]);
    if (shown && sim_now_ns < trust.true_until_ns[node])
        violation("node %u votes %lld ms too early for the longest lease that it may have forgotten", node,
                  (long long) ((trust.true_until_ns[node] - sim_now_ns) / NS_PER_MS));
    if (all_wait() && !has_word(node) && trust.true_lost_ns[node] > 0)
        check_examined(node, blessing);
    trust.true_until_ns[node] = trust.true_lost_ns[node] = 0;
}

/* Leases that the node has voted for may be longer. */
void trust_shortened(unsigned node) {
    for (unsigned i = 0; all_wait() && i < sim_n_agents; i++)
        if (sim_agents[i].max_ttl_ms > sim_nodes[node].data.max_ttl_ms && trust.true_voted_ns[node][i] > 0 &&
            sim_now_ns < trust.true_voted_ns[node][i] + longest_ns(i))
            violation("the epoch of node %u is for %u ms, %lld ms after agent %u used it for longer leases",
                      node, sim_nodes[node].data.max_ttl_ms,
                      (long long) ((sim_now_ns - trust.true_voted_ns[node][i]) / NS_PER_MS), i);
}

/* --- what keepers see --- */

static struct shown *shown_by(const struct sim_keeper *keeper, unsigned node) {
    return &trust.shown[keeper->agent->index][keeper->index][node];
}

void trust_unseen(const struct sim_keeper *keeper, unsigned node) {
    struct shown *shown = shown_by(keeper, node);

    *shown = (struct shown){.true_agreed_ns = shown->true_agreed_ns};
}

void trust_arrives(const struct sim_keeper *keeper, unsigned node, const struct probe *answer) {
    shown_by(keeper, node)->max_ttl_ms = answer->blessed ? answer->max_ttl_ms : 0;
}

void trust_probed(const struct sim_keeper *keeper, unsigned node, const struct probe *answer) {
    shown_by(keeper, node)->foreign = !answer->error && answer->blessed && answer->foreign;
    end_word(keeper, node);
}

/* A node whose clock was set votes again once it is blessed anew, or all leases with its earlier votes have
 * ended. */
static void check_stepped(const struct sim_keeper *keeper, unsigned node) {
    const struct stepped *stepped = stepped_of(keeper, node);

    if (keeper->agent->quarantine && stepped->true_ns > 0 && stepped->life == keeper->agent->life &&
        stepped->floor_us == keeper->connections[node].trusted.floor_us &&
        sim_now_ns < stepped->true_ns + longest_ns(keeper->agent->index))
        violation("agent %u uses node %u, whose clock was set, under the epoch of before",
                  keeper->agent->index, node);
}

void trust_asks(const struct sim_keeper *keeper, enum operation operation, node_set nodes) {
    if (operation != OPERATION_ACQUIRE && operation != OPERATION_EXTEND)
        return;
    for (unsigned i = 0; i < keeper->agent->n_nodes; i++)
        if (shown_by(keeper, i)->foreign)
            violation("agent %u uses nodes, though node %u is another fleet's", keeper->agent->index, i);
    for (unsigned i = 0; i < keeper->agent->n_nodes; i++) {
        if (!(nodes & node_set_of(i)))
            continue;
        check_stepped(keeper, i);
        if (shown_by(keeper, i)->max_ttl_ms < keeper->agent->max_ttl_ms)
            violation("agent %u uses node %u, whose epoch is for leases of %u ms", keeper->agent->index, i,
                      shown_by(keeper, i)->max_ttl_ms);
    }
}

/* --- clocks --- */

void trust_clock_set(unsigned node) {
    trust.true_set_ns[node] = sim_now_ns;
}

/* True if nothing else can explain what the clock shows. */
static bool only_this_clock_was_set(const struct sim_keeper *keeper, unsigned node) {
    unsigned others = 0;

    for (unsigned i = 0; i < sim_n_nodes; i++) {
        int64_t true_set_ns = instant_max(trust.true_set_ns[i], sim_nodes[i].odd_until_ns);
        if (i != node && true_set_ns > sim_now_ns - STEPS_APART_MS * NS_PER_MS)
            return false;
        others += i != node && node_can_be_asked(&keeper->shard.nodes[i]);
    }
    return others > 1;
}

/* The clocks' rates differ by less than 1 %, since the last answer and within this round trip. */
void trust_time_arrives(const struct sim_keeper *keeper, unsigned node, const struct event *answer) {
    struct shown *shown = shown_by(keeper, node), before = *shown;
    bool by_probe = answer->kind == EVENT_PROBED;
    int64_t time_us = by_probe ? answer->as.probe.answer.time_us : answer->time_us;
    int64_t sent_ns = answer->sent_ns, received_ns = clock_read(&keeper->agent->clock);
    int64_t drift_ns = (received_ns - before.sent_ns + received_ns - sent_ns) / 100;

    shown->step_ns = 0;
    if (time_us < 0)
        return;
    if (!before.timed)
        shown->true_timed_ns = sim_now_ns;
    shown->timed = true;
    if (trust.true_set_ns[node] == 0)
        shown->true_agreed_ns = sim_now_ns;
    shown->sent_ns = sent_ns;
    shown->low_ns = time_us * NS_PER_US - received_ns;
    shown->high_ns = (time_us + 1) * NS_PER_US - sent_ns;
    int64_t apart_ns =
        instant_max(before.low_ns - shown->high_ns, shown->low_ns - before.high_ns) - drift_ns;
    if (!by_probe && before.timed && !sim_sets_differ && apart_ns > STEP_MS * NS_PER_MS)
        shown->step_ns = apart_ns;
}

/* No lease has a vote of the answer that shows the step. */
static void check_votes(const struct sim_keeper *keeper, unsigned node, const struct event *answer) {
    const struct shard *shard = &keeper->shard;
    const struct sim_tickets *tickets = &answer->as.answer.tickets;

    for (uint32_t i = 0; i < tickets->count; i++) {
        if (ticket_slot(tickets->all[i]) >= shard->leases.capacity)
            continue;
        const struct lease *lease = pool_at(&shard->leases, ticket_slot(tickets->all[i]));
        if (lease_table_ticket(shard, lease) == tickets->all[i] && lease->state != LEASE_FREE &&
            lease->state != LEASE_RELEASING && (lease->round.yes & node_set_of(node)))
            violation("agent %u counts a vote of node %u, in the answer that shows that its clock was set",
                      keeper->agent->index, node);
    }
}

/* The keeper must have noticed a step that the answer shows. From now on the keeper does not use the node
 * under its present epoch (check_stepped()). */
void trust_timed(const struct sim_keeper *keeper, unsigned node, const struct event *answer) {
    int64_t step_ns = shown_by(keeper, node)->step_ns;

    if (step_ns == 0 || !only_this_clock_was_set(keeper, node))
        return;
    if (keeper->shard.nodes[node].trust == NODE_TRUSTED)
        violation("agent %u trusts node %u, whose clock was set by %lld ms at least", keeper->agent->index,
                  node, (long long) (step_ns / NS_PER_MS));
    check_votes(keeper, node, answer);
    if (trust.true_set_ns[node] > 0)
        *stepped_of(keeper, node) =
            (struct stepped){keeper->agent->life, sim_now_ns, keeper->connections[node].epoch.floor_us};
}

/* True if the keeper can ask the node, and has known its clock since this instant. */
static bool is_witness(const struct sim_keeper *keeper, unsigned node, int64_t true_since_ns) {
    const struct shown *shown = shown_by(keeper, node);

    return node_can_be_asked(&keeper->shard.nodes[node]) && shown->timed &&
           shown->true_timed_ns < true_since_ns;
}

/* An agent ends its leases only if most clocks seem to have been set, which cannot be those that never were,
 * and that the keeper knew when it last knew the clocks that were. */
void trust_outlived(const struct sim_keeper *keeper) {
    unsigned steps = 0, steady = 0;
    int64_t true_since_ns = INT64_MAX;

    if (sim_hosts_halt || sim_sets_differ)
        return;
    for (unsigned i = 0; i < sim_n_nodes; i++)
        if (trust.true_set_ns[i] > 0) {
            steps++;
            true_since_ns = instant_min(true_since_ns, shown_by(keeper, i)->true_agreed_ns);
            true_since_ns = instant_min(true_since_ns, trust.true_set_ns[i] - STEPS_APART_MS * NS_PER_MS);
        }
    for (unsigned i = 0; i < sim_n_nodes; i++)
        steady += trust.true_set_ns[i] == 0 && is_witness(keeper, i, true_since_ns);
    if (steady >= steps)
        violation("agent %u ends its leases for the clocks of %u nodes, though %u others were not set",
                  keeper->agent->index, steps, steady);
}
