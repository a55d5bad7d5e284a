#include "lingering.h"

#include <string.h>

#include "agent.h"
#include "front.h"
#include "node.h"

enum { HEALED_MS = 3000 /* of the calm: leases from before have been extended since */ };

static struct view all[SIM_CLIENTS_MAX]; /* the last lease of each client that lingers, or has lingered */

void lingering_reset(void) {
    memset(all, 0, sizeof(all));
}

void lingering_resumed(unsigned client, unsigned agent) {
    struct view *view = &all[client];

    if (view->agent != agent || view->true_died_ns < sim_agents[agent].started_ns)
        view->linger_until_ns = 0;
}

void lingering_begin(unsigned client) {
    const struct view *view = &views[client];

    all[client] = *view;
    all[client].true_died_ns = sim_now_ns;
    all[client].left_at_death_ns = view->deadline_ns - view_now_ns(view);
    all[client].linger_least_ns = all[client].linger_until_ns =
        view_now_ns(view) + (int64_t) view->terms.linger_ms * NS_PER_MS;
}

void lingering_restarted(const struct sim_agent *agent) {
    for (unsigned i = 0; i < SIM_CLIENTS_MAX; i++) {
        struct view *view = &all[i];
        if (view->linger_until_ns > 0 && view_agent(view) == agent &&
            view->true_died_ns >= agent->stopped_ns)
            view->linger_until_ns = instant_max(
                view->linger_until_ns, view_now_ns(view) + (int64_t) view->terms.linger_ms * NS_PER_MS);
        if (view->true_died_ns >
            agent->stopped_ns) /* at that instant the former process may have seen the end */
            view->linger_least_ns = view->linger_until_ns;
    }
}

/* By another program, whose key ends the lease: no rule applies. */
static bool was_overwritten_since(int64_t true_ns) {
    bool overwritten = false;

    for (unsigned i = 0; i < sim_n_nodes; i++)
        overwritten |= sim_nodes[i].overwritten_ns >= true_ns;
    return overwritten;
}

static bool was_lost_since(int64_t true_ns) {
    bool lost = false;

    for (unsigned i = 0; i < sim_n_nodes; i++)
        lost |= sim_nodes[i].lost_ns >= true_ns;
    return lost;
}

/* The agent counts max_hold from the grant to a former process, or from a RESUME; the view does not know
 * that time. */
static bool knows_hold(const struct view *view) {
    return !view->hold_by_resume && view_agent(view)->started_ns < view->true_asked_ns;
}

/* The lease was not at risk, no node has lost its key, and the calm was older than its last extension. So
 * the lease lingers as long as was asked. */
static bool is_undisturbed(const struct view *view) {
    return view->pushes && view->risks == 0 && sim_calm &&
           view->true_died_ns > sim_calm_ns + HEALED_MS * NS_PER_MS &&
           view->left_at_death_ns > 2 * (int64_t) view->terms.node_timeout_ms * NS_PER_MS &&
           agent_is_untroubled(view_agent(view)) && !was_overwritten_since(view->true_granted_ns) &&
           !was_lost_since(view->true_granted_ns) &&
           (view->hold_until_ns == INSTANT_NEVER || knows_hold(view));
}

/* The host was halted after it had set the keys: nothing there can know that the lease has ended. */
static bool is_outdated(const struct view *granted) {
    const struct sim_agent *agent = view_agent(granted);

    return agent->halted_until_ns != 0 &&
           granted->deadline_ns - view_ttl_ns(granted) < agent->halted_clock_ns;
}

/* A process that does not know the lease, or was killed in the turn of the request, may resume it. */
static bool may_have_resumed(const struct view *granted, const struct view *view) {
    const struct sim_agent *agent = view_agent(view);

    return granted->resumes && view_index(granted) == (unsigned) (view - all) &&
           (view->true_died_ns < agent->started_ns || agent->slots < SIM_REQUESTS_MAX);
}

void lingering_check_granted(const struct view *granted) {
    for (unsigned i = 0; i < SIM_CLIENTS_MAX; i++) {
        struct view *view = &all[i];
        int64_t until_ns = instant_min(view->linger_least_ns, view->hold_until_ns);
        if (view->linger_until_ns == 0 || view->name != granted->name)
            continue;
        if (may_have_resumed(granted, view))
            view->linger_until_ns = 0;
        if (view->linger_until_ns == 0 || view_agent(view)->halted_until_ns != 0 || is_outdated(granted))
            continue;
        if (view_now_ns(view) < instant_min(until_ns, view->deadline_ns) ||
            (is_undisturbed(view) && view_now_ns(view) < until_ns - MAIL_MS * NS_PER_MS))
            violation("client %u is granted name %u, which lingers for client %u", view_index(granted),
                      granted->name, i);
    }
}

void lingering_check_extended(const struct sim_agent *agent, unsigned name,
                              const uint8_t secret[SECRET_BYTES]) {
    int64_t now_ns = clock_read(&agent->clock);

    for (unsigned i = 0; i < SIM_CLIENTS_MAX; i++) {
        const struct view *view = &all[i];
        if (view->linger_until_ns > 0 && view_agent(view) == agent && view->name == name &&
            view_is_of(view, secret) && !front_has_holder(agent, name) && /* handed off meanwhile */
            now_ns > view->linger_until_ns + 2 * MAIL_MS * NS_PER_MS &&
            sim_now_ns > view_paused_until_ns(view) + MAIL_MS * NS_PER_MS)
            violation("the lease of client %u lingers %lld ms after its end", i,
                      (long long) ((now_ns - view->linger_until_ns) / NS_PER_MS));
    }
}

bool lingering_lasts(void) {
    bool lasts = false;

    for (unsigned i = 0; i < SIM_CLIENTS_MAX; i++) {
        const struct view *view = &all[i];
        lasts |= view->linger_until_ns > 0 &&
                 view_now_ns(view) <
                     instant_min(instant_min(view->linger_least_ns, view->hold_until_ns), view->deadline_ns);
    }
    return lasts;
}

bool lingering_may_have(const struct sim_agent *agent, unsigned name) {
    bool has = false;

    for (unsigned i = 0; i < SIM_CLIENTS_MAX; i++)
        has |= all[i].linger_until_ns > 0 && view_agent(&all[i]) == agent && all[i].name == name;
    return has;
}

void lingering_check_deleted(unsigned name, const uint8_t secret[SECRET_BYTES]) {
    for (unsigned i = 0; i < SIM_CLIENTS_MAX; i++) {
        const struct view *view = &all[i];
        if (view->linger_until_ns == 0 || view->name != name || !view_is_of(view, secret) ||
            view_agent(view)->halted_until_ns != 0 || was_overwritten_since(view->true_granted_ns))
            continue;
        int64_t until_ns = instant_min(view->linger_least_ns, view->hold_until_ns);
        int64_t round_ns = 2 * (int64_t) view->terms.node_timeout_ms * NS_PER_MS; /* an extension in time */
        bool healed = sim_calm && sim_now_ns > sim_calm_ns + HEALED_MS * NS_PER_MS &&
                      view->left_at_death_ns > round_ns;
        if (view_now_ns(view) < instant_min(until_ns, view->deadline_ns) ||
            (healed && view_now_ns(view) < until_ns - MAIL_MS * NS_PER_MS &&
             agent_is_untroubled(view_agent(view)) && view_is_held_by_nodes(view, 0)))
            violation("a key is deleted while the lease of client %u lingers", i);
    }
}
