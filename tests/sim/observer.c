/* The observer compares the run with protocol.md's promises. It records each client's requests, the replies
 * and pushes with their times, and the keepers' requests. In the calm (calm.c) each waiter gets a free name.
 */

#include <assert.h>
#include <string.h>

#include "sim.h"

enum {
    SERVES_MS = 5,       /* after its start, a process takes requests */
    LATE_MS = 1,         /* of actions of the front at a known instant */
    CALM_MAIL_MS = 5,    /* the same in the calm */
    MAIL_MS = 60,        /* the longest delay between front and keeper, and the granularity of timers */
    READ_STEP_MS = 17,   /* the granularity of the timer for reading grants: 2^24 ns */
    RESUMED_MS = 500,    /* after a pause: the lease is extended by then, or its client gets at-risk */
    RELEASE_MS = 200,    /* beyond the node time-out: mail there and back, and a turn; */
    HELD_BACK_MS = 1200, /* the same if it is held back */
    RISK_DIVISOR = 4, /* of the ttl: without an extension, at-risk is reported so long before the deadline */
    UNREAD_MS = 2000, /* a grant that is not read until then is withdrawn, or until the ttl has passed */
    SERVED_MS = 1000, /* beyond two ttls: a name that is free goes to a waiter */
    HEALED_MS = 3000, /* of the calm: leases from before have been extended since */
};

enum view_state {
    VIEW_NOTHING,
    VIEW_ASKED,
    VIEW_HOLDS,
    VIEW_RELEASES,
};

/* A client's request, then its lease. Instants are by its host's clock, unless they are `true`. */
struct view {
    enum view_state state;
    unsigned agent, name;
    struct lease_terms terms; /* as requested */
    bool resumes;
    bool pushes, paged;    /* the client gets pushes, and sees deadlines */
    uint32_t rule_hold_ms; /* the rule's max_hold */
    int64_t wait_ms;
    int64_t true_asked_ns;
    uint64_t order; /* of the requests of all clients */
    bool unordered; /* no process took the request at that time, or one was killed with its grant */
    int64_t deadline_ns;
    int64_t true_reported_ns; /* when that deadline was reported */
    int64_t granted_ns, true_granted_ns;
    int64_t hold_until_ns;
    int64_t beat_ns, true_beat_ns; /* the last heartbeat, or the grant */
    bool found;                    /* or the first sign that a restarted agent has found the lease */
    bool warned;                   /* the last push was at-risk; its page may show an extension since */
    unsigned risk;                 /* 1 + reason of the last at-risk; 0: none since the last extension */
    bool late;                     /* its deadline was near when it was reported */
    unsigned risks;                /* a bit for each reason since then */
    int64_t linger_until_ns, linger_least_ns, true_died_ns;
    int64_t died_left_ns; /* what was left of the lease when its client died */
    int64_t true_released_ns;
    bool untroubled;                  /* its agent, at the release */
    bool crossed;                     /* the lease, or the request, ended before the release arrived */
    uint8_t secrets[2][SECRET_BYTES]; /* the client's, and the one in the keys at the grant */
    int64_t true_mailed_until_ns;     /* when the keeper's last report arrives */
};

static struct view views[SIM_CLIENTS_MAX];
static struct view
    lingering[SIM_CLIENTS_MAX]; /* the last lease of each client that lingers, or has lingered */
static int64_t granted_until_ns[SIM_CLIENTS_MAX]; /* the end of MAXHOLD of each client's last lease */
static uint64_t requests;
static int64_t acquired_ns[SIM_AGENTS_MAX][SIM_NAMES];              /* when the last acquisition was sent */
static const struct sim_keeper *keepers[SIM_AGENTS_MAX][SIM_NAMES]; /* the name's; NULL: none sent yet */

static int64_t true_cool_until_ns[SIM_NAMES]; /* no client gets the name before */

static const char *const reasons[] = {"no-quorum", "taken",  "paused", "heartbeat",
                                      "max-hold",  "closed", "unread"};
static_assert(sizeof(reasons) / sizeof(reasons[0]) == REASON_COUNT, "a word for each reason");

static unsigned index_of(const struct view *view) {
    return (unsigned) (view - views);
}

static struct sim_agent *agent_of(const struct view *view) {
    return &sim_agents[view->agent];
}

static int64_t host_now(const struct view *view) {
    return clock_read(&agent_of(view)->clock);
}

static int64_t ttl_ns(const struct view *view) {
    return (int64_t) view->terms.ttl_ms * NS_PER_MS;
}

/* The end of the last pause of any of the agent's threads, in true time. */
static int64_t true_paused_until_ns(const struct view *view) {
    const struct sim_agent *agent = agent_of(view);
    int64_t until_ns = agent->paused_until_ns;

    for (unsigned i = 0; i < sim_n_keepers; i++)
        until_ns = instant_max(until_ns, agent->keepers[i].paused_until_ns);
    return until_ns;
}

/* The same of the front, or of the keeper that has the name. */
static int64_t true_stopped_until_ns(const struct view *view) {
    const struct sim_keeper *keeper = keepers[view->agent][view->name];

    return instant_max(agent_of(view)->paused_until_ns, keeper ? keeper->paused_until_ns : 0);
}

void observer_reset(void) {
    memset(views, 0, sizeof(views));
    memset(lingering, 0, sizeof(lingering));
    memset(acquired_ns, 0, sizeof(acquired_ns));
    memset(keepers, 0, sizeof(keepers));
    memset(true_cool_until_ns, 0, sizeof(true_cool_until_ns));
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
                          .hold_until_ns = ask->resumes ? granted_until_ns[client] : INSTANT_NEVER};
    if (ask->resumes)
        lingering[client].linger_until_ns = 0; /* this may resume that lease */
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
             agent_of(view)->started_ns < view->true_asked_ns))
            violation("client %u is granted name %u before client %u, which asked before it",
                      index_of(granted), granted->name, index_of(view));
}

/* Processes that the holder of a lingering lease has started may still run. */
static void check_lingering(const struct view *granted) {
    for (unsigned i = 0; i < SIM_CLIENTS_MAX; i++) {
        const struct view *view = &lingering[i];
        if (view->linger_until_ns > 0 && view->name == granted->name &&
            host_now(view) < instant_min(view->linger_least_ns, view->deadline_ns))
            violation("client %u is granted name %u, which lingers for client %u", index_of(granted),
                      granted->name, i);
    }
}

/* Clocks run apart by a hundredth each, for all of the cooldown, and steps of 2 ms stay unnoticed. */
static void check_cooldown(const struct view *granted) {
    int64_t early_ns = (agent_of(granted)->max_ttl_ms / 50 + 5) * NS_PER_MS;
    int64_t until_ns =
        acquired_ns[granted->agent][granted->name] + (int64_t) granted->terms.cooldown_ms * NS_PER_MS;

    if (sim_now_ns < true_cool_until_ns[granted->name])
        violation("client %u gets name %u, which cools down for %lld ms yet", index_of(granted),
                  granted->name, (long long) ((true_cool_until_ns[granted->name] - sim_now_ns) / NS_PER_MS));
    if (granted->terms.cooldown_ms > 0)
        true_cool_until_ns[granted->name] = sim_now_ns + until_ns - host_now(granted) - early_ns;
}

bool observer_cools(unsigned name) {
    return sim_now_ns < true_cool_until_ns[name];
}

static int64_t read_by_ns(const struct view *view) {
    return view->granted_ns + instant_min(ttl_ns(view), UNREAD_MS * NS_PER_MS);
}

static int64_t drift_ns(const struct view *view) {
    return ttl_ns(view) / DRIFT_DIVISOR + DRIFT_FIXED_MS * NS_PER_MS;
}

/* No deadline is later than the requested terms allow. */
static void check_bounds(const struct view *view) {
    int64_t beat_until_ns = view->beat_ns + (int64_t) view->terms.heartbeat_ms * NS_PER_MS;
    /* a heartbeat reaches the keeper a little later */
    int64_t late_ns = MAIL_MS * NS_PER_MS + instant_max(0, true_paused_until_ns(view) - view->true_beat_ns),
            read_late_ns = (MAIL_MS + READ_STEP_MS) * NS_PER_MS +
                           instant_max(0, true_paused_until_ns(view) - view->true_granted_ns);

    if (view->deadline_ns > host_now(view) + ttl_ns(view) - drift_ns(view))
        violation("client %u holds name %u for longer than its ttl", index_of(view), view->name);
    if (view->deadline_ns > view->hold_until_ns)
        violation("client %u holds name %u for longer than its max_hold", index_of(view), view->name);
    if (view->terms.heartbeat_ms > 0 && view->deadline_ns > beat_until_ns + ttl_ns(view) + late_ns)
        violation("client %u holds name %u without heartbeats", index_of(view), view->name);
    if (!client_has_read(index_of(view)) &&
        view->deadline_ns > read_by_ns(view) + ttl_ns(view) + read_late_ns)
        violation("client %u holds name %u without reading its grant", index_of(view), view->name);
}

/* Checks the view shortly before the deadline, and at the deadline. */
static void watch_deadline(const struct view *view) {
    const struct clock *clock = &agent_of(view)->clock;
    struct event event = {.kind = EVENT_DEADLINE, .client = (uint8_t) index_of(view)};

    event.as.timer.due_ns = view->deadline_ns;
    event.at_ns = clock_true_ns(clock, view->deadline_ns - ttl_ns(view) / RISK_DIVISOR);
    if (event.at_ns > sim_now_ns)
        events_add(&event);
    event.at_ns = clock_true_ns(clock, view->deadline_ns + LATE_MS * NS_PER_MS);
    events_add(&event);
}

/* A restart counts as a heartbeat. */
static void note_restart(struct view *view) {
    int64_t since_ns = sim_now_ns - agent_of(view)->started_ns;

    view->beat_ns = host_now(view) - since_ns + since_ns / 50 + 2 * SIM_RESTART_MS * NS_PER_MS;
    view->true_beat_ns = agent_of(view)->started_ns;
    view->found = true;
}

static void report_deadline(struct view *view, int64_t deadline_ns) {
    if (view->true_beat_ns < agent_of(view)->started_ns)
        note_restart(view);
    view->deadline_ns = deadline_ns;
    view->true_reported_ns = sim_now_ns;
    view->late = deadline_ns - host_now(view) < ttl_ns(view) / 2;
    /* A lease that is not read is not extended again; without a page the deadline is not always news. */
    if (view->paged && !(view->risks & 1u << REASON_UNREAD))
        view->risk = view->risks = 0;
    check_bounds(view);
    watch_deadline(view);
}

void observer_granted(unsigned client, int64_t deadline_ns, const uint8_t secrets[2][SECRET_BYTES]) {
    struct view *view = &views[client];

    if (view->state != VIEW_ASKED)
        violation("client %u gets a grant that it did not request", client);
    view->state = VIEW_HOLDS;
    calm_granted(view->name);
    view->beat_ns = view->granted_ns = host_now(view);
    view->found = false;
    view->true_granted_ns = view->true_beat_ns = sim_now_ns;
    memcpy(view->secrets, secrets, sizeof(view->secrets));
    if (!view->resumes && view->terms.max_hold_ms > 0)
        view->hold_until_ns = host_now(view) + (int64_t) view->terms.max_hold_ms * NS_PER_MS;
    if (view->resumes && view->rule_hold_ms > 0)
        view->hold_until_ns =
            instant_min(view->hold_until_ns, host_now(view) + (int64_t) view->rule_hold_ms * NS_PER_MS);
    granted_until_ns[client] = view->hold_until_ns;
    if (!view->resumes) {
        check_order(view);
        check_cooldown(view);
    }
    check_lingering(view);
    report_deadline(view, deadline_ns);
}

/* --- leases --- */

void observer_extended(unsigned client, int64_t deadline_ns) {
    struct view *view = &views[client];

    if (view->state != VIEW_HOLDS)
        violation("client %u gets an extension, and holds nothing", client);
    report_deadline(view, deadline_ns);
}

void observer_beat(unsigned client) {
    views[client].beat_ns = host_now(&views[client]);
    views[client].found = false;
    views[client].true_beat_ns = sim_now_ns;
}

/* Since the last deadline was reported, or so shortly before that the report was sent before the pause. */
static bool was_paused(const struct view *view) {
    return true_paused_until_ns(view) + MAIL_MS * NS_PER_MS >= view->true_reported_ns;
}

/* The present process has not extended the lease since its start. (Clocks run apart.) */
static bool is_of_former_process(const struct view *view) {
    int64_t since_ns = sim_now_ns - agent_of(view)->started_ns;

    return view->deadline_ns - ttl_ns(view) + drift_ns(view) < host_now(view) - since_ns + since_ns / 50;
}

/* No process was there to warn of the end, or to send the `extended` of the last report. */
static bool was_restarted(const struct view *view) {
    return view->true_reported_ns < agent_of(view)->started_ns;
}

/* The longest delay of the last heartbeat, or of the grant: in the calm mail is fast. */
static int64_t beat_delay_ns(const struct view *view) {
    bool fast = sim_calm && view->true_beat_ns > sim_calm_ns + MAIL_MS * NS_PER_MS;

    return (fast ? CALM_MAIL_MS : MAIL_MS) * NS_PER_MS;
}

/* The keeper has a recent last heartbeat, or granted the lease shortly before the client got the grant. */
static bool beats(const struct view *view) {
    int64_t since_ns = host_now(view) - view->beat_ns, delay_ns = beat_delay_ns(view);

    return view->terms.heartbeat_ms > 0 && !view->found && since_ns > 2 * delay_ns &&
           since_ns < (int64_t) view->terms.heartbeat_ms * NS_PER_MS - delay_ns &&
           true_paused_until_ns(view) < view->true_beat_ns - MAIL_MS * NS_PER_MS;
}

/* The client reads nothing since before the grant. */
static bool is_unread(const struct view *view) {
    return !client_has_read(index_of(view));
}

/* A delay of the mail takes most of what is left after a failed extension, or after a late one. */
static bool is_short(const struct view *view) {
    return view->terms.ttl_ms < RISK_DIVISOR * MAIL_MS || view->late;
}

static void check_at_risk(struct view *view, enum reason reason) {
    if (view->risk == 1 + (unsigned) reason)
        violation("client %u gets at-risk twice, %s", index_of(view), reasons[reason]);
    if (view->risk == 1 + REASON_UNREAD && reason != REASON_UNREAD && !was_restarted(view))
        violation("client %u has not read its grant, and gets at-risk for %s", index_of(view),
                  reasons[reason]);
    if (reason == REASON_HEARTBEAT && (view->terms.heartbeat_ms == 0 || beats(view)))
        violation("client %u misses no heartbeat, and its lease is at risk for one", index_of(view));
    bool by_rule = view->resumes && view->rule_hold_ms > 0; /* counts from the RESUME, not from its grant */
    if (reason == REASON_MAX_HOLD && view->paged && !by_rule &&
        view->deadline_ns < view->hold_until_ns - MAIL_MS * NS_PER_MS &&
        true_paused_until_ns(view) < view->true_granted_ns &&
        agent_of(view)->started_ns < view->true_asked_ns) /* else a former process may have had the grant */
        violation("client %u gets max-hold %lld ms before it", index_of(view),
                  (long long) ((view->hold_until_ns - view->deadline_ns) / NS_PER_MS));
    if (reason == REASON_UNREAD && (!is_unread(view) || host_now(view) < read_by_ns(view)))
        violation("client %u gets at-risk for an unread grant", index_of(view));
    if (reason != REASON_HEARTBEAT && reason != REASON_MAX_HOLD && reason != REASON_NO_QUORUM &&
        reason != REASON_UNREAD)
        violation("client %u gets at-risk without a cause, %s", index_of(view), reasons[reason]);
    view->risk = 1 + (unsigned) reason;
    view->risks |= 1u << reason;
}

/* The front or the name's keeper stood still since the last deadline was reported, or the front's own
 * deadline came before the keeper's report. */
static bool may_be_paused(const struct view *view) {
    return is_of_former_process(view) ||
           true_stopped_until_ns(view) + MAIL_MS * NS_PER_MS >= view->true_reported_ns ||
           view->true_mailed_until_ns >= sim_now_ns;
}

/* The last heartbeat left time for an extension before the deadline, and for its report. */
static bool beats_in_time(const struct view *view) {
    int64_t round_ms = (int64_t) view->terms.node_timeout_ms + 3 * MAIL_MS;

    return beats(view) && view->deadline_ns - view->beat_ns > round_ms * NS_PER_MS &&
           true_stopped_until_ns(view) < view->true_beat_ns;
}

static bool is_of(const struct view *view, const uint8_t secret[SECRET_BYTES]) {
    return memcmp(view->secrets[0], secret, SECRET_BYTES) == 0 ||
           memcmp(view->secrets[1], secret, SECRET_BYTES) == 0;
}

/* So many nodes have the value of a former process that no other program can have taken the lease. (A RESUME
 * of that process may be late.) */
static bool is_taken_by_its_agent(const struct view *view) {
    const struct sim_agent *agent = agent_of(view);
    uint32_t owner = agent->index << 24 | agent->life;
    unsigned count = 0;

    for (unsigned i = 0; i < agent->n_nodes; i++) {
        const struct sim_key *key = &agent_node(agent, i)->data.keys[view->name];
        count +=
            key->set && is_of(view, key->secret) && key->owner >> 24 == agent->index && key->owner < owner;
    }
    return !view->resumes && count > agent->n_nodes - quorum_of(agent->n_nodes);
}

/* A lease that ends for a heartbeat, max_hold or the lack of a quorum was at risk for that reason before. */
static void check_lost(const struct view *view, enum reason reason) {
    bool sudden = reason == REASON_TAKEN || (reason == REASON_PAUSED && sim_steps) ||
                  (reason == REASON_NO_QUORUM && is_of_former_process(view)); /* not found any more */

    if (!sudden && host_now(view) < view->deadline_ns)
        violation("client %u loses its lease %lld ms before the deadline, %s", index_of(view),
                  (long long) ((view->deadline_ns - host_now(view)) / NS_PER_MS), reasons[reason]);
    if (reason == REASON_TAKEN && is_taken_by_its_agent(view))
        violation("client %u loses its lease to a former process of its agent", index_of(view));
    if (reason == REASON_HEARTBEAT && beats_in_time(view))
        violation("client %u loses its lease for a heartbeat that it sent", index_of(view));
    bool moot = reason == REASON_PAUSED && was_restarted(view) && view->risk == 1 + REASON_HEARTBEAT;
    if (!sudden && view->risk != 0 && !moot && !(view->risks & 1u << reason))
        violation("client %u loses its lease for %s, after at-risk for %s", index_of(view), reasons[reason],
                  reasons[view->risk - 1]);
    if (!sudden && reason == REASON_PAUSED && !may_be_paused(view))
        violation("client %u loses its lease for paused, and nothing stood still", index_of(view));
    if (!sudden && reason != REASON_PAUSED && view->risk == 0 && !is_short(view) &&
        !(was_paused(view) && reason < REASON_PAUSED) && !was_restarted(view))
        violation("client %u loses its lease for %s without a warning", index_of(view), reasons[reason]);
}

/* Releases are held back for a second at most while many requests wait for the nodes. */
static void check_released(const struct view *view) {
    bool prompt = view->untroubled && agent_is_untroubled(agent_of(view));
    int64_t bound_ns = (view->terms.node_timeout_ms + (prompt ? RELEASE_MS : HELD_BACK_MS)) * NS_PER_MS;

    int64_t from_ns = instant_max(view->true_released_ns, true_paused_until_ns(view));

    if (view->true_released_ns < agent_of(view)->started_ns) /* read again by this process */
        from_ns = instant_max(from_ns, agent_of(view)->started_ns + SIM_RESTART_MS * NS_PER_MS);
    if (sim_now_ns > from_ns + bound_ns)
        violation("client %u gets the reply to its release after %lld ms", index_of(view),
                  (long long) ((sim_now_ns - view->true_released_ns) / NS_PER_MS));
}

/* Before the node time-out the reply means that a majority has no key of this process any more; unless the
 * next holder has the lease, or the name cools. A late extension may set a key again, or keep a former
 * value. */
static void check_confirmed(const struct view *view) {
    const struct sim_agent *agent = agent_of(view);
    uint32_t owner = agent->index << 24 | agent->life;
    unsigned counts[2] = {0};

    if (host_now(view) >= view->deadline_ns || view->terms.cooldown_ms > 0 || view->crossed || sim_repeats ||
        !view->untroubled || !agent_is_untroubled(agent) || view->true_released_ns < agent->started_ns ||
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
        violation("client %u gets the reply to its release, and a majority has the key", index_of(view));
}

static enum reason reason_of(unsigned client, const char *word) {
    unsigned reason = 0;

    while (reason < REASON_COUNT && strcmp(reasons[reason], word) != 0)
        reason++;
    if (reason == REASON_COUNT)
        violation("client %u gets %s, which is no reason", client, word);
    return (enum reason) reason;
}

void observer_reported(unsigned client, enum answer_kind kind, const char *word) {
    struct view *view = &views[client];
    enum view_state expected = kind == ANSWER_FAILED ? VIEW_ASKED : VIEW_HOLDS;

    if (view->state != expected) {
        violation("client %u gets %u, %s, in state %u", client, kind, word, view->state);
        return;
    }
    if (kind == ANSWER_AT_RISK)
        check_at_risk(view, reason_of(client, word));
    else if (kind == ANSWER_LOST)
        check_lost(view, reason_of(client, word));
    else if (kind == ANSWER_EXTENDED)
        view->risk = view->risks = 0;
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
    if (answer == 0 && view->pushes && view->deadline_ns > host_now(view) && !view->crossed)
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

    return sim_now_ns > true_paused_until_ns(view) + RESUMED_MS * NS_PER_MS + search_ns;
}

void observer_deadline(const struct event *event) {
    struct view *view = &views[event->client];

    if (view->state != VIEW_HOLDS || view->deadline_ns != event->as.timer.due_ns ||
        !client_relies(event->client))
        return;
    if (sim_now_ns <= agent_of(view)->paused_until_ns || !front_serves(agent_of(view))) {
        struct event later = *event;
        later.at_ns = instant_max(agent_of(view)->paused_until_ns, sim_now_ns) + LATE_MS * NS_PER_MS;
        events_add(&later);
        return;
    }
    if (!view->pushes || !view->paged)
        return; /* it keeps to an earlier deadline */
    if (host_now(view) >= view->deadline_ns + LATE_MS * NS_PER_MS)
        violation("client %u does not get the loss of name %u", event->client, view->name);
    else if (view->risk == 0 && !(view->warned && was_restarted(view)) &&
             !(was_paused(view) && !has_resumed(view)) && !is_short(view) && view->terms.max_hold_ms == 0 &&
             view->terms.heartbeat_ms == 0 && !view->resumes)
        violation("client %u gets neither an extension nor at-risk for name %u", event->client, view->name);
}

/* --- the end --- */

void observer_releases(unsigned client) {
    views[client].state = VIEW_RELEASES;
    views[client].crossed = false;
    views[client].true_released_ns = sim_now_ns;
    views[client].untroubled = agent_is_untroubled(agent_of(&views[client]));
}

void observer_unreported(unsigned client) {
    views[client].unordered = true;
}

/* The process that got the release was killed, or there was none: the next process reads it later. */
void observer_crossed(unsigned client, enum answer_kind kind) {
    struct view *view = &views[client];
    const struct sim_agent *agent = agent_of(view);

    int64_t until_ns = instant_max(agent->started_ns, agent->paused_until_ns) + SERVES_MS * NS_PER_MS;

    if (view->state != VIEW_RELEASES || view->true_released_ns > until_ns || sim_now_ns > until_ns)
        violation("client %u gets a push of kind %u after its release", client, kind);
    view->crossed |= kind == ANSWER_LOST || kind == ANSWER_FAILED;
}

void observer_gone(unsigned client) {
    views[client].state = VIEW_NOTHING;
}

void observer_died(unsigned client) {
    struct view *view = &views[client];

    if (view->state == VIEW_HOLDS && view->terms.linger_ms > 0) {
        lingering[client] = *view;
        lingering[client].true_died_ns = sim_now_ns;
        lingering[client].died_left_ns = view->deadline_ns - host_now(view);
        lingering[client].linger_least_ns = lingering[client].linger_until_ns =
            host_now(view) + (int64_t) view->terms.linger_ms * NS_PER_MS;
    }
    view->state = VIEW_NOTHING;
}

/* A process continues: for it, what came without a process comes now. */
void observer_restarted(const struct sim_agent *agent) {
    for (unsigned i = 0; i < SIM_CLIENTS_MAX; i++) {
        struct view *view = &lingering[i];
        if (agent_of(&views[i]) == agent && views[i].true_asked_ns >= agent->stopped_ns)
            views[i].unordered = true;
        if (view->linger_until_ns > 0 && agent_of(view) == agent && view->true_died_ns >= agent->stopped_ns)
            view->linger_until_ns = instant_max(
                view->linger_until_ns, host_now(view) + (int64_t) view->terms.linger_ms * NS_PER_MS);
        if (view->true_died_ns >
            agent->stopped_ns) /* at that instant the former process may have seen the end */
            view->linger_least_ns = view->linger_until_ns;
    }
}

/* --- what the keepers send --- */

void observer_mailed(const struct sim_agent *agent, const uint8_t secret[SECRET_BYTES], int64_t arrives_ns) {
    for (unsigned i = 0; i < SIM_CLIENTS_MAX; i++)
        if (views[i].state == VIEW_HOLDS && agent_of(&views[i]) == agent && is_of(&views[i], secret))
            views[i].true_mailed_until_ns = arrives_ns;
}

void observer_sent(const struct sim_keeper *keeper, unsigned name, const struct send *send) {
    const struct sim_agent *agent = keeper->agent;
    int64_t now_ns = clock_read(&agent->clock);

    keepers[agent->index][name] = keeper;
    if (send->operation == OPERATION_ACQUIRE)
        acquired_ns[agent->index][name] = now_ns;
    if (send->operation != OPERATION_EXTEND)
        return;
    for (unsigned i = 0; i < SIM_CLIENTS_MAX; i++) {
        const struct view *view = &lingering[i];
        if (view->linger_until_ns > 0 && agent_of(view) == agent && view->name == name &&
            is_of(view, send->secret) && !front_has_holder(agent, name) && /* handed off meanwhile */
            now_ns > view->linger_until_ns + 2 * MAIL_MS * NS_PER_MS &&
            sim_now_ns > true_paused_until_ns(view) + MAIL_MS * NS_PER_MS)
            violation("the lease of client %u lingers %lld ms after its end", i,
                      (long long) ((now_ns - view->linger_until_ns) / NS_PER_MS));
    }
}

/* A majority of the agent's nodes has the lease's key for a while yet. */
static bool is_held_by_nodes(const struct view *view) {
    unsigned count = 0;

    for (unsigned i = 0; i < agent_of(view)->n_nodes; i++) {
        const struct sim_node *node = agent_node(agent_of(view), i);
        count += node->data.keys[view->name].set && is_of(view, node->data.keys[view->name].secret) &&
                 node_key_left_ns(node, view->name) > ttl_ns(view) / 8;
    }
    return count >= quorum_of(agent_of(view)->n_nodes);
}

/* All keys of the lease have one value. A restart or a hand-off changes the value node by node. */
static bool have_one_value(const struct view *view) {
    const struct sim_key *first = NULL;

    for (unsigned i = 0; i < sim_n_nodes; i++) {
        const struct sim_key *key = &sim_nodes[i].data.keys[view->name];
        if (!key->set || !is_of(view, key->secret))
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
        host_now(view) >= view->deadline_ns || !have_one_value(view) || view->terms.cooldown_ms > 0)
        return false; /* until the end of a cooldown an extension may set a shorter expiry */
    for (unsigned i = 0; i < sim_n_nodes; i++) {
        const struct sim_key *key = &sim_nodes[i].data.keys[name];
        if (instant_max(sim_nodes[i].lost_ns, sim_nodes[i].overwritten_ns) >= since_ns)
            return false;
        if (key->set && is_of(view, key->secret))
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

/* By another program, whose key ends the lease: no rule applies. */
static bool was_overwritten_since(int64_t true_ns) {
    bool overwritten = false;

    for (unsigned i = 0; i < sim_n_nodes; i++)
        overwritten |= sim_nodes[i].overwritten_ns >= true_ns;
    return overwritten;
}

void observer_deleted(unsigned name, const uint8_t secret[SECRET_BYTES]) {
    for (unsigned i = 0; i < SIM_CLIENTS_MAX; i++) {
        const struct view *view = &lingering[i];
        if (view->linger_until_ns == 0 || view->name != name || !is_of(view, secret) ||
            was_overwritten_since(view->true_granted_ns))
            continue;
        int64_t until_ns = instant_min(view->linger_least_ns, view->hold_until_ns);
        int64_t round_ns = 2 * (int64_t) view->terms.node_timeout_ms * NS_PER_MS; /* an extension in time */
        bool healed =
            sim_calm && sim_now_ns > sim_calm_ns + HEALED_MS * NS_PER_MS && view->died_left_ns > round_ns;
        if (host_now(view) < instant_min(until_ns, view->deadline_ns) ||
            (healed && host_now(view) < until_ns - MAIL_MS * NS_PER_MS &&
             agent_is_untroubled(agent_of(view)) && is_held_by_nodes(view)))
            violation("a key is deleted while the lease of client %u lingers", i);
    }
}

/* --- the calm: names are granted --- */

/* A restarted agent keeps the name of a lease whose session it could not continue until the deadline, even
 * if the former process has deleted the keys: the client may not know. */
static int64_t true_left_until_ns(const struct sim_agent *agent) {
    return agent->started_ns + (int64_t) agent->max_ttl_ms * NS_PER_MS;
}

/* A client that waits without a limit gets a free name. */
static void check_served(const struct view *view) {
    int64_t since_ns = calm_since_ns(view->name, view->agent);

    if (view->state != VIEW_ASKED || view->wait_ms >= 0 || since_ns == 0)
        return;
    since_ns = instant_max(since_ns, view->true_asked_ns);
    if (agent_of(view)->with_ledger)
        since_ns = instant_max(since_ns, true_left_until_ns(agent_of(view)));
    if (sim_now_ns > since_ns + 2 * ttl_ns(view) + SERVED_MS * NS_PER_MS)
        violation("client %u waits for name %u, which is free", index_of(view), view->name);
}

/* A node votes when all leases that it may have forgotten have ended. */
void observer_blessed(unsigned node) {
    if (sim_steps || sim_sets_differ)
        return;
    for (unsigned i = 0; i < SIM_CLIENTS_MAX; i++)
        if (views[i].state == VIEW_HOLDS && host_now(&views[i]) < views[i].deadline_ns &&
            views[i].true_reported_ns < sim_nodes[node].lost_ns)
            violation("node %u votes, and may have forgotten the lease of client %u", node, i);
}

void observer_check(void) {
    if (!calm_look())
        return;
    for (unsigned i = 0; i < SIM_CLIENTS_MAX; i++)
        check_served(&views[i]);
}
