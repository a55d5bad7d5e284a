#include "view.h"

#include <string.h>

#include "agent.h"
#include "node.h"

struct view views[SIM_CLIENTS_MAX];

static const struct sim_keeper *keepers[SIM_AGENTS_MAX][SIM_NAMES]; /* the name's; NULL: none sent yet */

void views_reset(void) {
    memset(views, 0, sizeof(views));
    memset(keepers, 0, sizeof(keepers));
}

void view_note_keeper(const struct sim_keeper *keeper, unsigned name) {
    keepers[keeper->agent->index][name] = keeper;
}

unsigned view_index(const struct view *view) {
    return (unsigned) (view - views);
}

struct sim_agent *view_agent(const struct view *view) {
    return &sim_agents[view->agent];
}

int64_t view_now_ns(const struct view *view) {
    return clock_read(&view_agent(view)->clock);
}

int64_t view_ttl_ns(const struct view *view) {
    return (int64_t) view->terms.ttl_ms * NS_PER_MS;
}

int64_t view_drift_ns(const struct view *view) {
    return view_ttl_ns(view) / DRIFT_DIVISOR + DRIFT_FIXED_MS * NS_PER_MS;
}

int64_t view_paused_until_ns(const struct view *view) {
    const struct sim_agent *agent = view_agent(view);
    int64_t until_ns = agent->paused_until_ns;

    for (unsigned i = 0; i < sim_n_keepers; i++)
        until_ns = instant_max(until_ns, agent->keepers[i].paused_until_ns);
    return until_ns;
}

int64_t view_stopped_until_ns(const struct view *view) {
    const struct sim_keeper *keeper = keepers[view->agent][view->name];

    return instant_max(view_agent(view)->paused_until_ns, keeper ? keeper->paused_until_ns : 0);
}

int64_t view_read_by_ns(const struct view *view) {
    return view->granted_ns + instant_min(view_ttl_ns(view), UNREAD_MS * NS_PER_MS);
}

bool view_is_of(const struct view *view, const uint8_t secret[SECRET_BYTES]) {
    return memcmp(view->secrets[0], secret, SECRET_BYTES) == 0 ||
           memcmp(view->secrets[1], secret, SECRET_BYTES) == 0;
}

bool view_was_paused(const struct view *view) {
    return view_paused_until_ns(view) + MAIL_MS * NS_PER_MS >= view->true_reported_ns;
}

bool view_was_restarted(const struct view *view) {
    return view->true_reported_ns < view_agent(view)->started_ns;
}

bool view_is_short(const struct view *view) {
    return view->terms.ttl_ms < RISK_DIVISOR * MAIL_MS || view->late;
}

/* A late request may have given a node the lease's former value again, which its agent does not know. */
bool view_is_held_by_nodes(const struct view *view, uint32_t owner) {
    const struct sim_agent *agent = view_agent(view);
    unsigned count = 0;

    for (unsigned i = 0; i < agent->n_nodes; i++) {
        const struct sim_node *node = agent_node(agent, i);
        const struct sim_key *key = &node->data.keys[view->name];
        count += key->set && !key->late && view_is_of(view, key->secret) &&
                 (owner == 0 || key->owner == owner) &&
                 node_key_left_ns(node, view->name) > view_ttl_ns(view) / 8;
    }
    return count >= quorum_of(agent->n_nodes);
}
