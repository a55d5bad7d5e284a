/* The observer compares the run with protocol.md's promises. It records each client's requests, the
 * replies and pushes with their times, and the keepers' requests. In the calm (calm.c) each waiter gets a
 * free name. */

#include <assert.h>
#include <string.h>

#include "agent.h"
#include "answer.h"
#include "calm.h"
#include "clients.h"
#include "events.h"
#include "front.h"
#include "lingering.h"
#include "loss.h"
#include "node.h"
#include "observer.h"
#include "released.h"
#include "view.h"

enum {
    SERVES_MS = 5,       /* after its start, a process takes requests */
    LATE_MS = 1,         /* of actions of the front at a known instant */
    READ_STEP_MS = 17,   /* the granularity of the timer for reading grants: 2^24 ns */
    RESUMED_MS = 500,    /* after a pause: the lease is extended by then, or its client gets at-risk */
    RELEASE_MS = 200,    /* beyond the node time-out: mail there and back, and a turn; */
    HELD_BACK_MS = 1200, /* the same if it is held back */
    SERVED_MS = 1000,    /* beyond two ttls: a name that is free goes to a waiter */
    EXTENSION_MS = 15,   /* in the calm: mail there and back, beyond the node time-out */
};

static int64_t granted_until_ns[SIM_CLIENTS_MAX]; /* the end of MAXHOLD of each client's last lease */
static bool granted_by_resume[SIM_CLIENTS_MAX];   /* as hold_by_resume, of that lease */
static uint64_t requests;
static struct {
    const struct sim_keeper *keeper;
    uint64_t ticket;
    node_set foreign;                         /* these nodes have another value */
    int64_t true_taken_ns;                    /* since then no majority can have the lease's; 0: it may */
} last_extensions[SIM_AGENTS_MAX][SIM_NAMES]; /* of each name; keeper NULL: its last round was none */
static unsigned known_users[SIM_AGENTS_MAX][SIM_NAMES]; /* a bit for each whose lease the agent may know */
static int64_t acquired_ns[SIM_AGENTS_MAX][SIM_NAMES];  /* when the last acquisition was sent, */
static int64_t set_ns[SIM_AGENTS_MAX][SIM_NAMES];       /* and the last request that sets keys */

/* When an agent has noticed that a client has its lease at another agent. */
static int64_t true_moved_until_ns[SIM_AGENTS_MAX][SIM_NAMES];
static int64_t true_cool_until_ns[SIM_NAMES];             /* no client gets the name before */
static uint8_t last_lease[SIM_NAMES][SECRET_LEASE_BYTES]; /* of the last holder's lock values; 0: none */

void observer_reset(void) {
    views_reset();
    lingering_reset();
    memset(acquired_ns, 0, sizeof(acquired_ns));
    memset(set_ns, 0, sizeof(set_ns));
    memset(true_cool_until_ns, 0, sizeof(true_cool_until_ns));
    memset(last_lease, 0, sizeof(last_lease));
    memset(known_users, 0, sizeof(known_users));
    memset(last_extensions, 0, sizeof(last_extensions));
    memset(true_moved_until_ns, 0, sizeof(true_moved_until_ns));
    calm_reset();
    requests = 0;
}

/* --- requests --- */

void observer_asked(unsigned client, unsigned agent, unsigned name, const struct sim_ask *ask) {
    struct view *view = &views[client];
    enum view_state former = view->state;

    *view = (struct view){.state = VIEW_ASKED,
                          .agent = agent,
                          .name = name,
                          .terms = ask->terms,
                          .resumes = ask->resumes,
                          .pushes = ask->pushes,
                          .paged = ask->paged,
                          .rule_hold_ms = ask->rule.max_hold_ms,
                          .wait_ms = ask->wait_ms,
                          .true_asked_ns = sim_now_ns,
                          .order = ++requests,
                          .hold_until_ns = ask->resumes ? granted_until_ns[client] : INSTANT_NEVER,
                          .hold_by_resume = ask->resumes && granted_by_resume[client]};
    if (ask->resumes)
        lingering_resumed(client, agent);
    if (former != VIEW_NOTHING)
        violation("client %u asks in state %u", client, former);
}

/* Waiters of a host get the name in the order of their requests. */
static void check_order(const struct view *granted) {
    for (const struct view *view = views; view < views + SIM_CLIENTS_MAX; view++)
        if (view->state == VIEW_ASKED && !view->resumes && view->agent == granted->agent &&
            view->name == granted->name && view->order < granted->order && !view->unordered &&
            !granted->unordered &&
            (view->true_asked_ns < granted->true_asked_ns ||
             view_agent(view)->started_ns < view->true_asked_ns))
            violation("client %u is granted name %u before client %u, which asked before it",
                      view_index(granted), granted->name, view_index(view));
}

/* Clocks run apart by a hundredth each, for all of the cooldown, and steps of 2 ms stay unnoticed. A host
 * that was halted since it acquired the name can't know how much of a cooldown has passed. An operator may
 * have set agents apart, which have different nodes. */
static void check_cooldown(const struct view *granted) {
    const struct sim_agent *agent = view_agent(granted);
    int64_t early_ns = (agent->max_ttl_ms / 50 + 5) * NS_PER_MS;
    int64_t from_ns = acquired_ns[granted->agent][granted->name];
    int64_t until_ns = from_ns + (int64_t) granted->terms.cooldown_ms * NS_PER_MS;
    bool was_halted = agent->halted_until_ns != 0 && from_ns < agent->halted_clock_ns;

    if (sim_now_ns < true_cool_until_ns[granted->name] && !was_halted && sim_blessed == 0)
        violation("client %u gets name %u, which cools down for %lld ms yet", view_index(granted),
                  granted->name, (long long) ((true_cool_until_ns[granted->name] - sim_now_ns) / NS_PER_MS));
    if (granted->terms.cooldown_ms > 0 && !was_halted)
        true_cool_until_ns[granted->name] = sim_now_ns + until_ns - view_now_ns(granted) - early_ns;
}

/* A host's hand-offs end soon after it has acquired the name, so that other hosts get their turn. */
void observer_check_series(unsigned client) {
    const struct view *view = &views[client];
    int64_t bound_ns = (HANDOFF_MS + view->terms.node_timeout_ms + 2 * MAIL_MS) * NS_PER_MS;

    if (view_now_ns(view) > acquired_ns[view->agent][view->name] + bound_ns &&
        sim_now_ns > view_paused_until_ns(view) + bound_ns &&
        view_agent(view)->started_ns < view->true_asked_ns && client_has_read(client))
        violation("client %u is handed name %u %lld ms after its host acquired it", client, view->name,
                  (long long) ((view_now_ns(view) - acquired_ns[view->agent][view->name]) / NS_PER_MS));
}

bool observer_is_at_risk(unsigned client) {
    return (views[client].risks & ~(1u << REASON_NO_QUORUM)) != 0;
}

bool observer_cools(unsigned name) {
    return sim_now_ns < true_cool_until_ns[name];
}

/* No deadline is later than the requested terms allow. */
static void check_bounds(const struct view *view) {
    int64_t beat_until_ns = view->beat_ns + (int64_t) view->terms.heartbeat_ms * NS_PER_MS;
    /* a heartbeat reaches the keeper a little later */
    int64_t late_ns = MAIL_MS * NS_PER_MS + instant_max(0, view_paused_until_ns(view) - view->true_beat_ns),
            read_late_ns = (MAIL_MS + READ_STEP_MS) * NS_PER_MS +
                           instant_max(0, view_paused_until_ns(view) - view->true_granted_ns);

    if (view->deadline_ns > view_now_ns(view) + view_ttl_ns(view) - view_drift_ns(view))
        violation("client %u holds name %u for longer than its ttl", view_index(view), view->name);
    if (view->deadline_ns > set_ns[view->agent][view->name] + view_ttl_ns(view) - view_drift_ns(view))
        violation("client %u holds name %u for longer than its keys", view_index(view), view->name);
    if (view->deadline_ns > view->hold_until_ns)
        violation("client %u holds name %u for longer than its max_hold", view_index(view), view->name);
    if (view->terms.heartbeat_ms > 0 && view->deadline_ns > beat_until_ns + view_ttl_ns(view) + late_ns)
        violation("client %u holds name %u without heartbeats", view_index(view), view->name);
    if (!client_has_read(view_index(view)) &&
        view->deadline_ns > view_read_by_ns(view) + view_ttl_ns(view) + read_late_ns)
        violation("client %u holds name %u without reading its grant", view_index(view), view->name);
}

/* Checks the view shortly before the deadline, and at the deadline. */
static void watch_deadline(const struct view *view) {
    const struct clock *clock = &view_agent(view)->clock;
    struct event event = {.kind = EVENT_DEADLINE, .client = (uint8_t) view_index(view)};

    event.as.timer.due_ns = view->deadline_ns;
    event.at_ns = clock_true_ns(clock, view->deadline_ns - view_ttl_ns(view) / RISK_DIVISOR);
    if (event.at_ns > sim_now_ns)
        events_add(&event);
    event.at_ns = clock_true_ns(clock, view->deadline_ns + LATE_MS * NS_PER_MS);
    events_add(&event);
}

/* A restart counts as a heartbeat. */
static void note_restart(struct view *view) {
    int64_t since_ns = sim_now_ns - view_agent(view)->started_ns;

    view->beat_ns = view_now_ns(view) - since_ns + since_ns / 50 + 2 * SIM_RESTART_MS * NS_PER_MS;
    view->true_beat_ns = view_agent(view)->started_ns;
    view->found = true;
}

static void report_deadline(struct view *view, int64_t deadline_ns) {
    if (view->true_beat_ns < view_agent(view)->started_ns)
        note_restart(view);
    view->deadline_ns = deadline_ns;
    view->true_reported_ns = sim_now_ns;
    view->late = deadline_ns - view_now_ns(view) < view_ttl_ns(view) / 2;
    /* Without a page the deadline is not always news. */
    if (view->paged)
        loss_check_later(view);
    check_bounds(view);
    watch_deadline(view);
}

/* A former holder's secret is good for nothing once the name has another holder. The secret of a lease that
 * has ended before its grant is read is not known. */
static void check_secret(const struct view *granted) {
    static const uint8_t unknown[SECRET_BYTES];

    if (memcmp(granted->secrets[0], unknown, SECRET_BYTES) == 0)
        return;
    if (memcmp(granted->secrets[0], last_lease[granted->name], SECRET_LEASE_BYTES) == 0)
        violation("client %u gets name %u with the secret of the last holder", view_index(granted),
                  granted->name);
    memcpy(last_lease[granted->name], granted->secrets[0], SECRET_LEASE_BYTES);
}

static unsigned user_bit(const struct view *view) {
    return 1u << (client_uid(view_index(view)) - SIM_AGENT_UID);
}

void observer_check_shown(unsigned client) {
    const struct view *view = &views[client];

    if (!(known_users[view->agent][view->name] & user_bit(view)))
        violation("client %u is shown the holder of name %u, and may not see it", client, view->name);
}

void observer_granted(unsigned client, int64_t deadline_ns, const uint8_t secrets[2][SECRET_BYTES]) {
    struct view *view = &views[client];

    if (view->state != VIEW_ASKED)
        violation("client %u gets a grant that it did not request", client);
    view->state = VIEW_HOLDS;
    known_users[view->agent][view->name] |= user_bit(view);
    calm_granted(view->name);
    view->beat_ns = view->granted_ns = view_now_ns(view);
    view->found = false;
    view->true_granted_ns = view->true_beat_ns = sim_now_ns;
    memcpy(view->secrets, secrets, sizeof(view->secrets));
    if (!view->resumes && view->terms.max_hold_ms > 0)
        view->hold_until_ns = view_now_ns(view) + (int64_t) view->terms.max_hold_ms * NS_PER_MS;
    if (view->resumes && view->rule_hold_ms > 0) {
        view->hold_until_ns =
            instant_min(view->hold_until_ns, view_now_ns(view) + (int64_t) view->rule_hold_ms * NS_PER_MS);
        view->hold_by_resume = true;
    }
    granted_until_ns[client] = view->hold_until_ns;
    granted_by_resume[client] = view->hold_by_resume;
    if (!view->resumes) {
        check_order(view);
        check_cooldown(view);
        check_secret(view);
    }
    report_deadline(view, deadline_ns);
    lingering_check_granted(view);
}

/* --- leases --- */

void observer_extended(unsigned client, int64_t deadline_ns) {
    struct view *view = &views[client];

    if (view->state != VIEW_HOLDS)
        violation("client %u gets an extension, and holds nothing", client);
    report_deadline(view, deadline_ns);
}

void observer_moved(unsigned agent, unsigned name, uint32_t ttl_ms) {
    true_moved_until_ns[agent][name] = sim_now_ns + ttl_ms * NS_PER_MS;
}

void observer_beat(unsigned client) {
    views[client].beat_ns = view_now_ns(&views[client]);
    views[client].found = false;
    views[client].true_beat_ns = sim_now_ns;
}

/* Releases are held back for a second at most while many requests wait for the nodes. */
static void check_released(const struct view *view) {
    bool prompt = view->untroubled && agent_is_untroubled(view_agent(view));
    int64_t bound_ns = (view->terms.node_timeout_ms + (prompt ? RELEASE_MS : HELD_BACK_MS)) * NS_PER_MS;

    int64_t from_ns = instant_max(view->true_released_ns, view_paused_until_ns(view));

    if (view->true_released_ns < view_agent(view)->started_ns) /* read again by this process */
        from_ns = instant_max(from_ns, view_agent(view)->started_ns + SIM_RESTART_MS * NS_PER_MS);
    if (sim_now_ns > from_ns + bound_ns)
        violation("client %u gets the reply to its release after %lld ms", view_index(view),
                  (long long) ((sim_now_ns - view->true_released_ns) / NS_PER_MS));
}

/* Before the node time-out the reply means that a majority has no key of this process any more; unless the
 * next holder has the lease, or the name cools. A late extension may set a key again, or keep a former
 * value. */
static void check_confirmed(const struct view *view) {
    const struct sim_agent *agent = view_agent(view);
    uint32_t owner = agent->index << 24 | agent->life;
    unsigned counts[2] = {0};

    if (view_now_ns(view) >= view->deadline_ns || view->terms.cooldown_ms > 0 || view->crossed ||
        sim_repeats || !view->untroubled || !agent_is_untroubled(agent) ||
        view->true_released_ns < agent->started_ns ||
        sim_now_ns >= view->true_released_ns + view->terms.node_timeout_ms * NS_PER_MS * 99 / 100 ||
        front_has_holder(agent, view->name))
        return;
    for (unsigned i = 0; i < agent->n_nodes; i++) {
        const struct sim_node *node = agent_node(agent, i);
        const struct sim_key *key = &node->data.keys[view->name];
        for (unsigned j = 0; j < 2; j++)
            counts[j] += key->set && key->owner == owner && node_key_left_ns(node, view->name) > 0 &&
                         memcmp(key->secret, view->secrets[j], SECRET_BYTES) == 0;
    }
    if (counts[0] > agent->n_nodes - quorum_of(agent->n_nodes) ||
        counts[1] > agent->n_nodes - quorum_of(agent->n_nodes))
        violation("client %u gets the reply to its release, and a majority has the key", view_index(view));
}

/* A keeper reports a lease as lost, taken, with the vote that shows it. (A node whose clock was set may not
 * count.) */
static void check_not_taken(const struct view *view) {
    int64_t taken_ns = last_extensions[view->agent][view->name].true_taken_ns;

    if (!sim_steps &&
        taken_ns > instant_max(view->true_reported_ns, view_paused_until_ns(view) + MAIL_MS * NS_PER_MS) &&
        sim_now_ns > taken_ns + MAIL_MS * NS_PER_MS)
        violation("client %u gets no-quorum, and its lease was taken %lld ms ago", view_index(view),
                  (long long) ((sim_now_ns - taken_ns) / NS_PER_MS));
}

void observer_reported(unsigned client, enum answer_kind kind, const char *word) {
    struct view *view = &views[client];
    enum view_state expected = kind == ANSWER_FAILED ? VIEW_ASKED : VIEW_HOLDS;

    if (view->state != expected) {
        violation("client %u gets %u, %s, in state %u", client, kind, word, view->state);
        return;
    }
    if ((kind == ANSWER_AT_RISK || kind == ANSWER_LOST) && loss_reason(client, word) == REASON_NO_QUORUM)
        check_not_taken(view);
    if (kind == ANSWER_AT_RISK)
        loss_check_at_risk(view, loss_reason(client, word));
    else if (kind == ANSWER_LOST)
        loss_check(view, loss_reason(client, word));
    else if (kind == ANSWER_EXTENDED)
        loss_check_extended(view);
    view->warned = kind == ANSWER_AT_RISK;
    if (kind == ANSWER_FAILED || kind == ANSWER_LOST)
        view->state = VIEW_NOTHING;
}

void observer_released(unsigned client, int64_t answer) {
    struct view *view = &views[client];

    if (view->state != VIEW_RELEASES)
        violation("client %u gets the reply to its release in state %u", client, view->state);
    if (answer != 0 && answer != 1)
        violation("RELEASE says %lld to client %u", (long long) answer, client);
    if (answer == 0 && view->pushes && view->deadline_ns > view_now_ns(view) && !view->crossed)
        violation("RELEASE says to client %u that its lease was over before", client);
    check_released(view);
    if (answer == 1)
        check_confirmed(view);
    view->state = VIEW_NOTHING;
}

/* The agent has gone on since its pause, or its start, for long enough to find that there is no quorum: a
 * search waits for connections, and then for answers. */
static bool has_resumed(const struct view *view) {
    int64_t search_ns = 4 * (int64_t) view->terms.node_timeout_ms * NS_PER_MS;

    return sim_now_ns > view_paused_until_ns(view) + RESUMED_MS * NS_PER_MS + search_ns;
}

void observer_deadline(const struct event *event) {
    struct view *view = &views[event->client];

    if (view->state != VIEW_HOLDS || view->deadline_ns != event->as.timer.due_ns ||
        !client_relies(event->client))
        return;
    if (sim_now_ns <= view_agent(view)->paused_until_ns || !front_serves(view_agent(view))) {
        struct event later = *event;
        later.at_ns = instant_max(view_agent(view)->paused_until_ns, sim_now_ns) + LATE_MS * NS_PER_MS;
        events_add(&later);
        return;
    }
    if (!view->pushes || !view->paged)
        return; /* it keeps to an earlier deadline */
    if (view_now_ns(view) >= view->deadline_ns + LATE_MS * NS_PER_MS)
        violation("client %u does not get the loss of name %u", event->client, view->name);
    else if (view->risk == 0 && !(view->warned && view_was_restarted(view)) &&
             !(view_was_paused(view) && !has_resumed(view)) && !view_is_short(view) &&
             view->terms.max_hold_ms == 0 && view->terms.heartbeat_ms == 0 && !view->resumes)
        violation("client %u gets neither an extension nor at-risk for name %u", event->client, view->name);
}

/* --- the end --- */

void observer_releases(unsigned client) {
    views[client].state = VIEW_RELEASES;
    views[client].crossed = false;
    views[client].true_released_ns = sim_now_ns;
    views[client].untroubled = agent_is_untroubled(view_agent(&views[client]));
}

void observer_unreported(unsigned client) {
    views[client].unordered = true;
}

/* The process that got the release was killed, or there was none: the next process reads it later. */
void observer_crossed(unsigned client, enum answer_kind kind) {
    struct view *view = &views[client];
    const struct sim_agent *agent = view_agent(view);

    int64_t until_ns = instant_max(agent->started_ns, agent->paused_until_ns) + SERVES_MS * NS_PER_MS;

    if (view->state != VIEW_RELEASES || view->true_released_ns > until_ns || sim_now_ns > until_ns)
        violation("client %u gets a push of kind %u after its release", client, kind);
    view->crossed |= kind == ANSWER_LOST || kind == ANSWER_FAILED;
}

/* A grant may be on its way. */
void observer_gone(unsigned client) {
    struct view *view = &views[client];

    if (view->state == VIEW_ASKED)
        known_users[view->agent][view->name] |= user_bit(view);
    view->state = VIEW_NOTHING;
}

void observer_died(unsigned client) {
    if (views[client].state == VIEW_HOLDS && views[client].terms.linger_ms > 0)
        lingering_begin(client);
    observer_gone(client);
}

/* A process continues: for it, what came without a process comes now. */
void observer_restarted(const struct sim_agent *agent) {
    for (unsigned i = 0; i < SIM_CLIENTS_MAX; i++)
        if (view_agent(&views[i]) == agent && views[i].true_asked_ns >= agent->stopped_ns)
            views[i].unordered = true;
    memset(last_extensions[agent->index], 0, sizeof(last_extensions[agent->index]));
    lingering_restarted(agent);
}

/* --- what the keepers send --- */

void observer_mailed(const struct sim_agent *agent, const uint8_t secret[SECRET_BYTES], int64_t arrives_ns) {
    for (unsigned i = 0; i < SIM_CLIENTS_MAX; i++)
        if (views[i].state == VIEW_HOLDS && view_agent(&views[i]) == agent && view_is_of(&views[i], secret))
            views[i].true_mailed_until_ns = arrives_ns;
}

static void note_round(const struct sim_keeper *keeper, unsigned name, const struct send *send) {
    const unsigned agent = keeper->agent->index;
    bool extends = send->operation == OPERATION_EXTEND || send->operation == OPERATION_REFRESH;

    if (!extends)
        last_extensions[agent][name].true_taken_ns = 0;
    last_extensions[agent][name].keeper = extends ? keeper : NULL;
    if (last_extensions[agent][name].ticket != send->ticket)
        last_extensions[agent][name].foreign = 0;
    last_extensions[agent][name].ticket = send->ticket;
}

void observer_sent(const struct sim_keeper *keeper, unsigned name, const struct send *send) {
    const struct sim_agent *agent = keeper->agent;

    view_note_keeper(keeper, name);
    if (send->operation == OPERATION_ACQUIRE || send->operation == OPERATION_EXTEND ||
        send->operation == OPERATION_REFRESH || send->operation == OPERATION_ADOPT ||
        send->operation == OPERATION_SEARCH)
        set_ns[agent->index][name] = clock_read(&agent->clock);
    if (send->operation == OPERATION_ACQUIRE)
        acquired_ns[agent->index][name] = clock_read(&agent->clock);
    if (send->operation == OPERATION_EXTEND)
        lingering_check_extended(agent, name, send->secret);
    if (send->operation != OPERATION_QUERY)
        note_round(keeper, name, send);
}

/* All keys of the lease have one value. A restart or a hand-off changes the value node by node. */
static bool have_one_value(const struct view *view) {
    const struct sim_key *first = NULL;

    for (unsigned i = 0; i < sim_n_nodes; i++) {
        const struct sim_key *key = &sim_nodes[i].data.keys[view->name];
        if (!key->set || !view_is_of(view, key->secret))
            continue;
        first = first ? first : key;
        if (key->owner != first->owner || memcmp(key->secret, first->secret, SECRET_BYTES) != 0)
            return false;
    }
    return true;
}

bool observer_left_ns(unsigned client, unsigned name, int64_t since_ns, int64_t *ret_left_ns) {
    const struct view *view = &views[client];
    int64_t left_ns[SIM_NODES_MAX];
    unsigned n = 0;

    if (view->state != VIEW_HOLDS || view->name != name || view->true_granted_ns > since_ns ||
        view_now_ns(view) >= view->deadline_ns || !have_one_value(view) || view->terms.cooldown_ms > 0)
        return false; /* until the end of a cooldown an extension may set a shorter expiry */
    for (unsigned i = 0; i < sim_n_nodes; i++) {
        const struct sim_key *key = &sim_nodes[i].data.keys[name];
        if (instant_max(sim_nodes[i].lost_ns, sim_nodes[i].overwritten_ns) >= since_ns)
            return false;
        if (key->set && view_is_of(view, key->secret))
            left_ns[n++] = node_key_left_ns(&sim_nodes[i], name);
    }
    *ret_left_ns = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned as_long = 0;
        for (unsigned j = 0; j < n; j++)
            as_long += left_ns[j] >= left_ns[i];
        if (as_long >= quorum_of(sim_n_nodes))
            *ret_left_ns = instant_max(*ret_left_ns, left_ns[i]);
    }
    return *ret_left_ns > 0;
}

void observer_voted_foreign(const struct sim_keeper *keeper, unsigned node, uint64_t ticket) {
    const struct sim_agent *agent = keeper->agent;

    for (unsigned i = 0; i < SIM_NAMES; i++) {
        if (last_extensions[agent->index][i].keeper != keeper ||
            last_extensions[agent->index][i].ticket != ticket)
            continue;
        last_extensions[agent->index][i].foreign |= node_set_of(node);
        if (node_set_count(last_extensions[agent->index][i].foreign) >
                agent->n_nodes - quorum_of(agent->n_nodes) &&
            last_extensions[agent->index][i].true_taken_ns == 0)
            last_extensions[agent->index][i].true_taken_ns = sim_now_ns;
    }
}

void observer_deleted(unsigned name, const uint8_t secret[SECRET_BYTES]) {
    lingering_check_deleted(name, secret);
}

/* --- the calm: names are granted --- */

/* A restarted agent keeps the name of a lease whose session it could not continue until the deadline, even
 * if the former process has deleted the keys: the client may not know. */
static int64_t true_left_until_ns(const struct sim_agent *agent) {
    return agent->started_ns + (int64_t) agent->max_ttl_ms * NS_PER_MS;
}

/* A client that waits, with a limit or without, gets a free name. */
static void check_served(const struct view *view) {
    int64_t since_ns = calm_since_ns(view->name, view->agent);

    if (view->state != VIEW_ASKED || since_ns == 0)
        return;
    since_ns = instant_max(since_ns, view->true_asked_ns);
    if (view_agent(view)->with_ledger)
        since_ns = instant_max(since_ns, true_left_until_ns(view_agent(view)));
    since_ns = instant_max(since_ns, true_moved_until_ns[view->agent][view->name]);
    if (sim_now_ns > since_ns + 2 * view_ttl_ns(view) + SERVED_MS * NS_PER_MS)
        violation("client %u waits for name %u, which is free", view_index(view), view->name);
}

/* In the calm a lease is extended after three eighths of its ttl, so that at least the half is left whenever
 * an outage begins. A client without pushes does not know whether its lease is at risk. */
static void check_extended_in_time(const struct view *view) {
    int64_t ttl_ns = view_ttl_ns(view), left_ns = view->deadline_ns - view_now_ns(view);
    int64_t late_ns = (view->terms.node_timeout_ms + EXTENSION_MS) * NS_PER_MS;

    if (view->state != VIEW_HOLDS || !view->paged || !view->pushes || view->risk != 0 ||
        view->terms.heartbeat_ms > 0 || !client_sees_valid(view_index(view)) ||
        view->hold_until_ns != INSTANT_NEVER || !client_has_read(view_index(view)) ||
        view->true_granted_ns > sim_now_ns - ttl_ns || view_agent(view)->started_ns > sim_now_ns - ttl_ns ||
        !calm_is_untroubled_since(view->agent, sim_now_ns - ttl_ns))
        return;
    if (left_ns < ttl_ns / 32 * 19 - late_ns) /* five eighths, without the drift */
        violation("client %u has %lld ms left of its lease, and nothing hinders extensions",
                  view_index(view), (long long) (left_ns / NS_PER_MS));
}

/* A node votes when all leases that it may have forgotten have ended. */
void observer_blessed(unsigned node) {
    if (sim_steps || sim_sets_differ)
        return;
    for (unsigned i = 0; i < SIM_CLIENTS_MAX; i++)
        if (views[i].state == VIEW_HOLDS && view_now_ns(&views[i]) < views[i].deadline_ns &&
            views[i].true_reported_ns < sim_nodes[node].lost_ns)
            violation("node %u votes, and may have forgotten the lease of client %u", node, i);
}

void observer_check(void) {
    if (!calm_look())
        return;
    released_look();
    for (unsigned i = 0; i < SIM_CLIENTS_MAX; i++) {
        check_served(&views[i]);
        check_extended_in_time(&views[i]);
    }
}
