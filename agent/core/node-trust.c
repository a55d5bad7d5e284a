#include "core/node-trust.h"

#include <assert.h>
#include <string.h>

#include "core/attempt.h"
#include "core/held-lease.h"
#include "core/leader-query.h"
#include "core/lease.h"
#include "core/node-epoch.h"
#include "core/quarantine.h"
#include "core/validity.h"

static void report_state(struct shard *shard, unsigned index, enum node_state state, const char *reason) {
    shard_report(shard, &(struct report){.kind = REPORT_NODE,
                                         .stepped = shard->nodes[index].stepped,
                                         .node = index,
                                         .node_state = state,
                                         .text = reason,
                                         .text_length = (uint16_t) strlen(reason)});
}

/* --- reports to the leases --- */

static void queries_node_judged(struct shard *shard, instant_ns now_ns) {
    for (uint32_t index = 0; index < shard->queries.touched; index++)
        leader_query_node_judged(shard, pool_at(&shard->queries, index), now_ns);
}

/* Of a trusted node that answers: it votes unless it takes no keys, or a node belongs to another fleet. */
static void report_trusted(struct shard *shard, unsigned index) {
    static const char barred[] =
        "another node of this agent belongs to agents with other nodes: see that node";
    struct node *node = &shard->nodes[index];

    if (node->barred)
        node_note_trouble(node, barred, sizeof(barred) - 1);
    else
        node_note_present(node);
    report_state(shard, index, node->barred || node->refuses ? NODE_STATE_FAILED : NODE_STATE_VOTING,
                 node->trouble);
}

/* Work that waited for this node goes on: releases, extensions and attempts. */
void node_trust_recovered(struct shard *shard, unsigned index, instant_ns now_ns) {
    report_trusted(shard, index);
    if (shard->nodes[index].barred)
        return;
    assert(node_can_be_asked(&shard->nodes[index]));
    for (uint32_t item = 0; item < shard->leases.touched; item++) {
        struct lease *lease = pool_at(&shard->leases, item);
        if (lease->state != LEASE_FREE)
            lease_node_back(shard, lease, index, now_ns);
    }
    queries_node_judged(shard, now_ns);
}

/* Work that waited for the node's first examination goes on without the node. */
static void examined_without_trust(struct shard *shard, unsigned index, instant_ns now_ns) {
    if (shard->nodes[index].known)
        return;
    shard->nodes[index].known = true;
    for (uint32_t item = 0; item < shard->leases.touched; item++) {
        struct lease *lease = pool_at(&shard->leases, item);
        if (lease->state != LEASE_FREE)
            attempt_node_out(shard, lease, now_ns);
    }
    queries_node_judged(shard, now_ns);
}

/* Leases that were granted with the node's vote may have one key less than their votes say. */
static void void_votes(struct shard *shard, unsigned index, instant_ns now_ns) {
    for (uint32_t item = 0; item < shard->leases.touched; item++) {
        struct lease *lease = pool_at(&shard->leases, item);
        if (lease->state != LEASE_FREE && lease->state != LEASE_RELEASING)
            lease_vote_is_void(shard, lease, index, now_ns);
    }
}

static void lose_all(struct shard *shard, instant_ns now_ns) {
    for (uint32_t item = 0; item < shard->leases.touched; item++) {
        struct lease *lease = pool_at(&shard->leases, item);
        if (lease->state == LEASE_HELD)
            held_lease_lose(shard, lease, REASON_PAUSED, now_ns); /* our clock stopped */
    }
}

/* --- probes, marks, blessings --- */

static struct node_epoch_terms terms_of(const struct shard *shard, unsigned index) {
    uint32_t covered_ms = TTL_MS_MAX;
    instant_ns bless_ns = INSTANT_NEVER;

    if (node_is_quarantined(&shard->nodes[index]))
        bless_ns = quarantine_bless_ns(shard, index, &covered_ms);
    return (struct node_epoch_terms){.max_ttl_ms = shard->max_ttl_ms,
                                     .quarantine = shard->config.quarantine,
                                     .bless_ns = bless_ns,
                                     .covered_ms = covered_ms,
                                     .withdrawn_ns = shard->withdrawn_ns,
                                     .turn_ns = shard->nodes[index].turn * (AMENDMENT_TURN_MS * NS_PER_MS)};
}

/* Trusted nodes whose epoch is that of our fleet. */
static node_set fleet_nodes(const struct shard *shard) {
    node_set set = 0;

    for (unsigned i = 0; i < shard->config.nodes; i++)
        if (shard->nodes[i].trust == NODE_TRUSTED && shard->nodes[i].reading == NODE_READ_EPOCH)
            set |= node_set_of(i);
    return set;
}

/* Sends what the node's trust needs now. */
static void ask(struct shard *shard, unsigned index, instant_ns now_ns) {
    struct node *node = &shard->nodes[index];
    const struct node_epoch_terms terms = terms_of(shard, index);
    enum node_epoch_wish wish = node_epoch_wish(node, &terms, now_ns);

    if (wish == NODE_EPOCH_WANTS_NOTHING)
        return;
    node_epoch_asked(node, wish, now_ns);
    if (wish == NODE_EPOCH_WANTS_BLESSING) {
        const struct blessing blessing = node_epoch_blessing(node, &terms);
        shard->sink.bless(shard->sink.userdata, index, &blessing);
    } else if (wish == NODE_EPOCH_WANTS_AMENDMENT) {
        const struct amendment amendment = node_epoch_amendment(node, &terms, now_ns);
        shard->sink.amend(shard->sink.userdata, index, &amendment);
    } else {
        const struct inquiry inquiry = node_epoch_inquiry(node, shard->max_ttl_ms, fleet_nodes(shard));
        node->noted = inquiry.known;
        shard->sink.probe(shard->sink.userdata, index, &inquiry);
    }
}

/* Reports why a quarantine's end is unknown, and that the end is known again. */
static void explain_quarantine(struct shard *shard, unsigned index, instant_ns now_ns) {
    struct node *node = &shard->nodes[index];
    char text[QUARANTINE_TEXT_BYTES];
    bool explains = quarantine_explain(shard, index, now_ns, text);

    if (explains)
        node_note_trouble(node, text, strlen(text));
    if (explains != node->explained && node->trust == NODE_QUARANTINED)
        report_state(shard, index, NODE_STATE_QUARANTINED, node->trouble);
    node->explained = explains;
}

/* Probes at once the nodes whose answers a quarantine waits for, and soon the nodes that have not noted yet
 * where we reach the others. */
static void ask_for_quarantines(struct shard *shard, instant_ns now_ns) {
    node_set known = fleet_nodes(shard);

    for (unsigned i = 0; i < shard->config.nodes; i++) {
        struct node *node = &shard->nodes[i];
        if (node->trust == NODE_TRUSTED && !node->probing && quarantine_wants(shard, i))
            node_ask_time(node, now_ns);
        else if (node->trust == NODE_TRUSTED && (known & (node_set) ~node->noted))
            node->probe_ns = instant_min(node->probe_ns, now_ns + PROBE_MS * NS_PER_MS);
        ask(shard, i, now_ns);
        explain_quarantine(shard, i, now_ns);
    }
}

/* --- clocks --- */

/* The nodes' clocks that disagree with ours, and are not judged yet. */
struct disagreement {
    unsigned nodes, forward;
    instant_ns since_ns; /* the first was noticed then */
    instant_ns after_ns; /* until then the last agreed */
};

static struct disagreement disagreement_of(const struct shard *shard) {
    struct disagreement all = {.since_ns = INSTANT_NEVER, .after_ns = INSTANT_LONG_AGO};

    for (unsigned i = 0; i < shard->config.nodes; i++) {
        const struct node *node = &shard->nodes[i];
        if (!node->stepped || node->judged)
            continue;
        all.nodes++;
        all.forward += node->step_ns > 0;
        all.since_ns = instant_min(all.since_ns, node->stepped_ns);
        all.after_ns = instant_max(all.after_ns, node->step_after_ns);
    }
    return all;
}

/* The number of nodes whose clocks have agreed with ours since the step. *ret_open: of nodes that may agree,
 * and whose answers are requested. Only a node whose clock was known before the step can agree. */
static unsigned count_agreeing(struct shard *shard, const struct disagreement *all, instant_ns now_ns,
                               unsigned *ret_open) {
    unsigned agreeing = 0, open = 0;

    for (unsigned i = 0; i < shard->config.nodes; i++) {
        const struct clock_offset *offset = &shard->nodes[i].offset;
        if (!node_can_be_asked(&shard->nodes[i]) || !offset->known || offset->known_since_ns > all->after_ns)
            continue;
        if (offset->sent_ns < all->since_ns) {
            node_ask_time(&shard->nodes[i], now_ns); /* its answer under way may be older than the step */
            open++;
        } else {
            agreeing++;
        }
    }
    *ret_open = open;
    return agreeing;
}

static void judge_clocks(struct shard *shard, instant_ns now_ns) {
    if (!shard->judging)
        return;
    const struct disagreement all = disagreement_of(shard);
    unsigned open = 0, agreeing = all.nodes == 0 ? 0 : count_agreeing(shard, &all, now_ns, &open);
    if (open > 0 && agreeing + open >= all.nodes)
        return;
    shard->judging = false;
    bool ours_is_right = agreeing >= all.nodes;
    for (unsigned i = 0; i < shard->config.nodes; i++) {
        struct node *node = &shard->nodes[i];
        if (node->stepped && !node->judged)
            node_judge(node, ours_is_right, now_ns);
    }
    if (!ours_is_right && all.forward > 0)
        lose_all(shard, now_ns);
}

void node_trust_time(struct shard *shard, unsigned index, int64_t time_us, instant_ns sent_ns,
                     instant_ns now_ns) {
    assert(index < shard->config.nodes);

    struct node *node = &shard->nodes[index];
    if (node_time(node, time_us, sent_ns, now_ns) &&
        node_stepped(node, quarantine_longest_ns(shard), now_ns)) {
        report_state(shard, index, NODE_STATE_FAILED, node->trouble);
        for (unsigned i = 0; i < shard->config.nodes; i++)
            node_ask_time(&shard->nodes[i], now_ns);
        void_votes(shard, index, now_ns);
        shard->judging = true;
    }
    if (!shard->judging)
        return;
    judge_clocks(shard, now_ns);
    for (unsigned i = 0; i < shard->config.nodes; i++)
        ask(shard, i, now_ns);
}

/* --- connections and probes --- */

void node_trust_ready(struct shard *shard, unsigned index, instant_ns now_ns) {
    assert(index < shard->config.nodes);

    node_ready(&shard->nodes[index], now_ns);
    report_state(shard, index, NODE_STATE_PROBING, shard->nodes[index].trouble);
    ask(shard, index, now_ns);
}

void node_trust_gone(struct shard *shard, unsigned index, enum node_state state, const char *reason,
                     instant_ns now_ns) {
    assert(index < shard->config.nodes);

    node_gone(&shard->nodes[index], reason);
    report_state(shard, index, state, shard->nodes[index].trouble);
    if (state != NODE_STATE_PROBING)
        examined_without_trust(shard, index, now_ns);
    judge_clocks(shard, now_ns);
}

static void begin_refusal(struct shard *shard, unsigned index, const char *reason, bool writes) {
    struct node *node = &shard->nodes[index];

    if (!node_can_be_asked(node) || node->refuses)
        return;
    node_note_refusal(node, reason, strlen(reason));
    node->refuses_writes = writes;
    report_trusted(shard, index);
}

static void end_refusal(struct shard *shard, unsigned index) {
    struct node *node = &shard->nodes[index];

    node->refuses = node->refuses_writes = false;
    if (node_can_be_asked(node))
        report_trusted(shard, index);
}

void node_trust_refuses(struct shard *shard, unsigned index, const char *reason, instant_ns now_ns) {
    const struct node *node = &shard->nodes[index];
    bool lately = node->refuses_writes && now_ns - node->refused_ns < NODE_REFUSAL_MS * NS_PER_MS;

    if (reason)
        begin_refusal(shard, index, reason, false);
    else if (node->refuses && !lately && node_can_be_asked(node))
        end_refusal(shard, index);
}

void node_trust_wrote(struct shard *shard, unsigned index) {
    if (shard->nodes[index].refuses_writes)
        end_refusal(shard, index);
}

static void report_distrust(struct shard *shard, unsigned index) {
    const struct node *node = &shard->nodes[index];
    enum node_state state = node->trust == NODE_QUARANTINED                     ? NODE_STATE_QUARANTINED
                            : node->blessed && !node->foreign && !node->stepped ? NODE_STATE_PROBING
                                                                                : NODE_STATE_FAILED;
    report_state(shard, index, state, node->trouble);
}

/* Agents with another set of nodes may have a majority without the node whose epoch shows them: no node is
 * asked while any epoch is another fleet's. */
static void bar_nodes(struct shard *shard, instant_ns now_ns) {
    bool barred = false;

    for (unsigned i = 0; i < shard->config.nodes; i++)
        barred |= shard->nodes[i].foreign;
    if (barred == shard->barred)
        return;
    shard->barred = barred;
    for (unsigned i = 0; i < shard->config.nodes; i++) {
        struct node *node = &shard->nodes[i];
        node->barred = barred;
        if (node->trust != NODE_TRUSTED || node->stalled)
            continue; /* a stalled node recovers with its next answer */
        node_trust_recovered(shard, i, now_ns);
    }
}

/* The next answer, to a blessing or an amendment, ends in trust. */
static bool trust_is_near(const struct shard *shard, const struct node *node, const struct probe *probe) {
    if (node->trust == NODE_QUARANTINED)
        return !shard->config.quarantine || node->hurry;
    return !probe->error && node->blessed && !node->foreign && !node->stepped;
}

void node_trust_probed(struct shard *shard, unsigned index, const struct probe *probe, instant_ns now_ns) {
    assert(index < shard->config.nodes);

    struct node *node = &shard->nodes[index];
    if (!node->ready || !node->probing)
        return;
    bool recovered = node_answered(node, true, now_ns) == NODE_RECOVERED;
    if (probe->time_us >= 0)
        node_trust_time(shard, index, probe->time_us, probe->sent_ns, now_ns);
    enum node_trust before = (enum node_trust) node->trust; /* node_trust_time() may have ended it */
    const struct node_epoch_terms terms = terms_of(shard, index);
    node_epoch_probed(node, probe, &terms, now_ns);
    shard->withdrawn_ns = instant_max(shard->withdrawn_ns, node->withdrawn_ns);
    for (unsigned i = 0; i < shard->config.nodes; i++)
        if (probe->elsewhere & node_set_of(i))
            shard->nodes[i].elsewhere_ns = now_ns;
    judge_clocks(shard, now_ns);
    if (node->trust == NODE_TRUSTED)
        node->known = true;
    else if (!trust_is_near(shard, node, probe))
        examined_without_trust(shard, index, now_ns);
    if (node->trust == NODE_TRUSTED) {
        if (before != NODE_TRUSTED || recovered)
            node_trust_recovered(shard, index, now_ns);
    } else if (before != NODE_QUARANTINED || probe->error || recovered) {
        report_distrust(shard, index);
    }
    bar_nodes(shard, now_ns);
    ask_for_quarantines(shard, now_ns);
}

void node_trust_rejected(struct shard *shard, unsigned index, const struct vote *vote, instant_ns now_ns) {
    struct node *node = &shard->nodes[index];

    if (vote->kind == VOTE_EPOCH) {
        bool trusted = node->trust == NODE_TRUSTED;
        node_epoch_doubt(node);
        if (trusted)
            report_state(shard, index, NODE_STATE_PROBING, node->trouble);
        ask(shard, index, now_ns);
        return;
    }
    node_note_trouble(node, vote->text, vote->text_length);
    enum node_refusal refusal = node_refusal_of(vote->text, vote->text_length);
    if (refusal == NODE_REFUSES_REQUEST)
        return;
    node->refused_ns = now_ns;
    begin_refusal(shard, index, node->trouble, refusal == NODE_REFUSES_WRITES);
}

void node_trust_probe_early(struct shard *shard, int64_t early_ns, instant_ns now_ns) {
    for (unsigned i = 0; i < shard->config.nodes; i++) {
        const struct node_epoch_terms terms = terms_of(shard, i);
        if (node_epoch_wish_due_ns(&shard->nodes[i], &terms) - now_ns > early_ns)
            continue;
        node_ask_time(&shard->nodes[i], now_ns);
        ask(shard, i, now_ns);
    }
}

void node_trust_bless(struct shard *shard, unsigned index, instant_ns now_ns) {
    assert(index < shard->config.nodes);

    const struct node_epoch_terms terms = terms_of(shard, index);
    node_epoch_hurry(&shard->nodes[index], &terms, now_ns);
    ask(shard, index, now_ns);
}

void node_trust_outgrow(struct shard *shard, uint32_t ttl_ms) {
    if (ttl_ms <= shard->max_ttl_ms)
        return;
    shard->max_ttl_ms = ttl_ms;
    for (unsigned i = 0; i < shard->config.nodes; i++)
        node_epoch_outgrow(&shard->nodes[i], ttl_ms);
}

instant_ns node_trust_until_ns(const struct shard *shard, unsigned index) {
    assert(index < shard->config.nodes);

    int64_t most_ns = validity_quarantine_ns(TTL_MS_MAX);
    instant_ns until_ns = quarantine_until_ns(shard, index);
    if (!shard->nodes[index].ready || until_ns == INSTANT_NEVER)
        return INSTANT_NEVER;
    /* While the other nodes' epochs are unread, the end is that of the longest possible lease: it is not
     * shown. */
    bool open = shard->config.quarantine && until_ns >= shard->nodes[index].marked_ns + most_ns &&
                quarantine_longest_ns(shard) < most_ns;
    return open ? INSTANT_NEVER : until_ns;
}

void node_trust_tick(struct shard *shard, instant_ns now_ns) {
    for (unsigned i = 0; i < shard->config.nodes; i++) {
        struct node *node = &shard->nodes[i];
        switch (node_tick(node, now_ns)) {
        case NODE_STALLED:
            report_state(shard, i, NODE_STATE_FAILED, node->trouble);
            break;
        case NODE_SLOW:
            if (node->trust == NODE_TRUSTED)
                report_trusted(shard, i);
            break;
        case NODE_CUT:
            shard->sink.cut(shard->sink.userdata, i);
            break;
        case NODE_SAME:
        case NODE_RECOVERED:
            break;
        }
    }
    judge_clocks(shard, now_ns); /* a node that has just stalled is not awaited */
    for (unsigned i = 0; i < shard->config.nodes; i++)
        ask(shard, i, now_ns);
}

instant_ns node_trust_due_ns(const struct shard *shard) {
    instant_ns due_ns = INSTANT_NEVER;

    for (unsigned i = 0; i < shard->config.nodes; i++) {
        const struct node_epoch_terms terms = terms_of(shard, i);
        due_ns = instant_min(due_ns, node_due_ns(&shard->nodes[i]));
        due_ns = instant_min(due_ns, node_epoch_wish_due_ns(&shard->nodes[i], &terms));
    }
    return due_ns;
}
