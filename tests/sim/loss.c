#include "loss.h"

#include <assert.h>
#include <string.h>

#include "agent.h"
#include "clients.h"
#include "node.h"

enum { CALM_MAIL_MS = 5 /* as MAIL_MS, in the calm */ };

static const char *const reasons[] = {"no-quorum", "taken",  "paused", "heartbeat",
                                      "max-hold",  "closed", "unread"};
static_assert(sizeof(reasons) / sizeof(reasons[0]) == REASON_COUNT, "a word for each reason");

/* The present process has not extended the lease since its start. (Clocks run apart.) */
static bool is_of_former_process(const struct view *view) {
    int64_t since_ns = sim_now_ns - view_agent(view)->started_ns;

    return view->deadline_ns - view_ttl_ns(view) + view_drift_ns(view) <
           view_now_ns(view) - since_ns + since_ns / 50;
}

/* The longest delay of the last heartbeat, or of the grant: in the calm mail is fast. */
static int64_t beat_delay_ns(const struct view *view) {
    bool fast = sim_calm && view->true_beat_ns > sim_calm_ns + MAIL_MS * NS_PER_MS;

    return (fast ? CALM_MAIL_MS : MAIL_MS) * NS_PER_MS;
}

/* The keeper has a recent last heartbeat, or granted the lease shortly before the client got the grant. */
static bool beats(const struct view *view) {
    int64_t since_ns = view_now_ns(view) - view->beat_ns, delay_ns = beat_delay_ns(view);

    return view->terms.heartbeat_ms > 0 && !view->found && since_ns > 2 * delay_ns &&
           since_ns < (int64_t) view->terms.heartbeat_ms * NS_PER_MS - delay_ns &&
           view_paused_until_ns(view) < view->true_beat_ns - MAIL_MS * NS_PER_MS;
}

/* The client reads nothing since before the grant. */
static bool is_unread(const struct view *view) {
    return !client_has_read(view_index(view));
}

void loss_check_at_risk(struct view *view, enum reason reason) {
    if (view->risk == 1 + (unsigned) reason)
        violation("client %u gets at-risk twice, %s", view_index(view), reasons[reason]);
    if (view->risk == 1 + REASON_UNREAD && reason != REASON_UNREAD)
        violation("client %u has not read its grant, and gets at-risk for %s", view_index(view),
                  reasons[reason]);
    if (reason == REASON_HEARTBEAT && (view->terms.heartbeat_ms == 0 || beats(view)))
        violation("client %u misses no heartbeat, and its lease is at risk for one", view_index(view));
    if (reason == REASON_MAX_HOLD && view->paged && !view->hold_by_resume &&
        view->deadline_ns < view->hold_until_ns - MAIL_MS * NS_PER_MS &&
        view_paused_until_ns(view) < view->true_granted_ns &&
        view_agent(view)->started_ns <
            view->true_asked_ns) /* else a former process may have had the grant */
        violation("client %u gets max-hold %lld ms before it", view_index(view),
                  (long long) ((view->hold_until_ns - view->deadline_ns) / NS_PER_MS));
    if (reason == REASON_UNREAD && (!is_unread(view) || view_now_ns(view) < view_read_by_ns(view)))
        violation("client %u gets at-risk for an unread grant", view_index(view));
    if (reason != REASON_HEARTBEAT && reason != REASON_MAX_HOLD && reason != REASON_NO_QUORUM &&
        reason != REASON_UNREAD)
        violation("client %u gets at-risk without a cause, %s", view_index(view), reasons[reason]);
    view->risk = 1 + (unsigned) reason;
    view->risks |= 1u << reason;
}

/* Two risks are final, though an extension may have been under way. */
void loss_check_later(struct view *view) {
    static const unsigned final = 1u << REASON_MAX_HOLD | 1u << REASON_UNREAD;

    view->risks &= final;
    if (view->risk > 0 && !(view->risks & 1u << (view->risk - 1)))
        view->risk = 0;
}

void loss_check_extended(struct view *view) {
    if (!view->warned)
        violation("client %u gets extended, without at-risk before", view_index(view));
    if (view->risk == 1 + REASON_MAX_HOLD || view->risk == 1 + REASON_UNREAD)
        violation("client %u gets extended, after at-risk for %s", view_index(view),
                  reasons[view->risk - 1]);
    view->risk = view->risks = 0;
}

/* The front or the name's keeper stood still since the last deadline was reported, or the front's own
 * deadline came before the keeper's report. */
static bool may_be_paused(const struct view *view) {
    return is_of_former_process(view) ||
           view_stopped_until_ns(view) + MAIL_MS * NS_PER_MS >= view->true_reported_ns ||
           view->true_mailed_until_ns >= sim_now_ns;
}

/* The last heartbeat left time for an extension before the deadline, and for its report. */
static bool beats_in_time(const struct view *view) {
    int64_t round_ms = (int64_t) view->terms.node_timeout_ms + 3 * MAIL_MS;

    return beats(view) && view->deadline_ns - view->beat_ns > round_ms * NS_PER_MS &&
           view_stopped_until_ns(view) < view->true_beat_ns;
}

/* So many nodes have the value of a former process that no other program can have taken the lease. (A RESUME
 * of that process may be late.) */
static bool is_taken_by_its_agent(const struct view *view) {
    const struct sim_agent *agent = view_agent(view);
    uint32_t owner = agent->index << 24 | agent->life;
    unsigned count = 0;

    for (unsigned i = 0; i < agent->n_nodes; i++) {
        const struct sim_key *key = &agent_node(agent, i)->data.keys[view->name];
        count += key->set && view_is_of(view, key->secret) && key->owner >> 24 == agent->index &&
                 key->owner < owner;
    }
    return !view->resumes && count > agent->n_nodes - quorum_of(agent->n_nodes);
}

/* A lease that ends for a heartbeat, max_hold or the lack of a quorum was at risk for that reason before. */
void loss_check(const struct view *view, enum reason reason) {
    bool sudden = reason == REASON_TAKEN || (reason == REASON_PAUSED && sim_steps) ||
                  (reason == REASON_NO_QUORUM && is_of_former_process(view)); /* not found any more */

    if (!sudden && view_now_ns(view) < view->deadline_ns)
        violation("client %u loses its lease %lld ms before the deadline, %s", view_index(view),
                  (long long) ((view->deadline_ns - view_now_ns(view)) / NS_PER_MS), reasons[reason]);
    if (reason == REASON_TAKEN &&
        view_is_held_by_nodes(view, view_agent(view)->index << 24 | view_agent(view)->life))
        violation("client %u loses its lease as taken, and a majority has its keys", view_index(view));
    if (reason == REASON_TAKEN && is_taken_by_its_agent(view))
        violation("client %u loses its lease to a former process of its agent", view_index(view));
    if (reason == REASON_HEARTBEAT && beats_in_time(view))
        violation("client %u loses its lease for a heartbeat that it sent", view_index(view));
    bool moot = reason == REASON_PAUSED && view_was_restarted(view) && view->risk == 1 + REASON_HEARTBEAT;
    if (!sudden && view->risk != 0 && !moot && !(view->risks & 1u << reason))
        violation("client %u loses its lease for %s, after at-risk for %s", view_index(view),
                  reasons[reason], reasons[view->risk - 1]);
    if (!sudden && reason == REASON_PAUSED && !may_be_paused(view))
        violation("client %u loses its lease for paused, and nothing stood still", view_index(view));
    /* A front that goes on after the deadline can't warn any more. */
    bool late = sim_now_ns <= view_paused_until_ns(view) + MAIL_MS * NS_PER_MS;
    bool unwarned = view_was_paused(view) && (reason < REASON_PAUSED || (reason == REASON_MAX_HOLD && late));
    if (!sudden && reason != REASON_PAUSED && view->risk == 0 && !view_is_short(view) && !unwarned &&
        !view_was_restarted(view))
        violation("client %u loses its lease for %s without a warning", view_index(view), reasons[reason]);
}

enum reason loss_reason(unsigned client, const char *word) {
    unsigned reason = 0;

    while (reason < REASON_COUNT && strcmp(reasons[reason], word) != 0)
        reason++;
    if (reason == REASON_COUNT)
        violation("client %u gets %s, which is no reason", client, word);
    return (enum reason) reason;
}
