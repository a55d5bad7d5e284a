#include "core/node-epoch.h"

#include "core/validity.h"

/* --- what a probe finds --- */

/* The longest ttl by the node's present or last epoch of our fleet. */
static uint32_t longest_ttl_ms(const struct node *node) {
    if (node->reading != NODE_READ_EPOCH || node->known_ms < node->remembered_ms)
        return node->remembered_ms;
    return node->known_ms;
}

/* The epoch was changed, and allows the same leases: a proposal, seen or not, was withdrawn. (The server's
 * next process continues its blessing, too: in between it has no epoch.) */
static bool is_withdrawal(const struct node *node, const struct probe *probe) {
    return node->reading == NODE_READ_EPOCH && node->generation != probe->generation &&
           node->blessed_floor_us == probe->floor_us && node->known_ms == probe->max_ttl_ms &&
           probe->proposed_ms == 0;
}

static void note_epoch(struct node *node, const struct probe *probe, instant_ns now_ns) {
    if (is_withdrawal(node, probe))
        node->withdrawn_ns = now_ns;
    if (!node->epoch_known || node->generation != probe->generation ||
        node->blessed_floor_us != probe->floor_us)
        node->epoch_ns = now_ns;
    node->epoch_known = true;
    node->generation = probe->generation;
    node->blessed_floor_us = probe->floor_us;
    node->known_ms = probe->max_ttl_ms;
    node->proposed_ms = probe->proposed_ms;
    node->reading = probe->foreign || !probe->rested ? NODE_READ_NOTHING : NODE_READ_EPOCH;
    if (node->reading == NODE_READ_EPOCH)
        node->remembered_ms = 0;
}

static void note_reading(struct node *node, const struct probe *probe, instant_ns now_ns) {
    node->read_ns = node->asked_ns;
    node->blessed = probe->blessed;
    node->remembered_ms = longest_ttl_ms(node);
    if (!probe->brief)
        node->elsewhere = probe->elsewhere;
    if (probe->blessed) {
        node->foreign = probe->foreign;
        note_epoch(node, probe, now_ns);
        return;
    }
    if (probe->foreign) /* the epoch of a former process, or an unrested one */
        node->foreign = true;
    if (probe->rival)
        node->rival_ns = now_ns;
    node->reading = probe->marked && !probe->rival && !probe->brief ? NODE_READ_MARK : NODE_READ_NOTHING;
    node->known_ms = probe->max_ttl_ms;
}

/* True if the epoch allows leases as long as ours, now and after its proposal. */
static bool suffices(const struct node *node, const struct node_epoch_terms *terms) {
    return node->known_ms >= terms->max_ttl_ms &&
           (node->proposed_ms == 0 || node->proposed_ms >= terms->max_ttl_ms);
}

static void trust(struct node *node, const struct probe *probe, instant_ns now_ns) {
    if (node->trust != NODE_TRUSTED)
        node->trouble[0] = '\0';
    node->probe_ns = now_ns + node_probe_interval_ns(node);
    node->blessed_floor_us = probe->floor_us;
    node->trust = NODE_TRUSTED;
    node->marking = false;
    node->marked_ns = INSTANT_NEVER;
}

/* The node is the heir of a blessed process: the blessing is renewed. If the node loses the epoch before
 * that, the renewal must not count as our blessing: so the renewal has the number of a mark that was never
 * left. */
static void wait_for_renewal(struct node *node, instant_ns now_ns) {
    static const char inheriting[] =
        "has restarted with all of its data: it votes when its blessing is renewed";

    node->mark++;
    node->marked_ns = now_ns;
    node->renewing = !node->hurry;
    node->hurry = true;
    node->marking = false;
    node_note_trouble(node, inheriting, sizeof(inheriting) - 1);
}

/* True if the epoch is still the one from before the clock was set, which does not count for us. */
static bool is_still_stepped(struct node *node, const struct probe *probe, instant_ns now_ns) {
    if (!node->stepped || !probe->blessed)
        return false;
    if (node->floor_us == FLOOR_UNKNOWN) {
        node->floor_us = probe->floor_us; /* it may be from before the clock was set */
        if (node->withdraw)
            node->probe_ns = now_ns;
    }
    return probe->floor_us == node->floor_us && now_ns < node->stepped_until_ns;
}

/* The epoch names the process. */
static void found_blessed(struct node *node, const struct probe *probe, const struct node_epoch_terms *terms,
                          bool was_amending, instant_ns now_ns) {
    static const char shorter[] = "its epoch allows no leases as long as ours: being changed";

    if (!node->foreign && suffices(node, terms)) {
        /* A BLESS of a voting node that came while this probe was under way still shortens the epoch. */
        node->hurry = node->hurry && node->trust == NODE_TRUSTED && !was_amending &&
                      node->known_ms > terms->max_ttl_ms;
        trust(node, probe, now_ns);
        return;
    }
    node->trust = NODE_UNKNOWN;
    node->marking = false;
    node->marked_ns = INSTANT_NEVER;
    if (was_amending)
        node->hurry = false;
    if (node->foreign)
        node_note_trouble(node, probe->others, probe->others_length);
    else
        node_note_trouble(node, shorter, sizeof(shorter) - 1);
}

static void note_quarantine(struct node *node, const struct probe *probe) {
    static const char quarantined[] =
        "no epoch key (a new, restarted or flushed node): votes when all leases "
        "that the node may have forgotten have ended",
                      unrested[] =
                          "blessed by an agent with quarantine = no: votes here when all leases that "
                          "the node may have forgotten have ended";

    if (probe->rival)
        node_note_trouble(node, probe->others, probe->others_length);
    else if (probe->unrested)
        node_note_trouble(node, unrested, sizeof(unrested) - 1);
    else
        node_note_trouble(node, quarantined, sizeof(quarantined) - 1);
}

/* No epoch that counts for us names the process. */
static void found_unblessed(struct node *node, const struct probe *probe, bool inherits, bool was_blessing,
                            instant_ns now_ns) {
    node->trust = NODE_QUARANTINED;
    if (was_blessing && !(probe->marked && probe->max_ttl_ms > node->covered_ms))
        node->marked_ns = INSTANT_NEVER; /* the blessing failed: the quarantine begins anew */
    if (inherits) {
        wait_for_renewal(node, now_ns);
        return;
    }
    if (node->marking) {
        node->marked_ns = now_ns;
    } else if (!probe->marked) {
        node->marked_ns = INSTANT_NEVER;
        node->hurry = false;
    }
    node->marking = false;
    note_quarantine(node, probe);
}

void node_epoch_probed(struct node *node, const struct probe *probe, const struct node_epoch_terms *terms,
                       instant_ns now_ns) {
    bool was_blessing = node->blessing, was_amending = node->amending;

    node->probing = node->blessing = node->amending = node->doubted = false;
    if (node->renewing) /* another agent, even of another fleet, may have renewed it first */
        node->renewing = node->hurry = false;
    node->probe_ns = now_ns + PROBE_MS * NS_PER_MS;
    node->amend_ns = was_amending ? node->probe_ns : INSTANT_LONG_AGO;
    if (probe->error) {
        node->trust = NODE_UNKNOWN;
        node->blessed = node->marking = node->hurry = false;
        node_note_trouble(node, probe->error, probe->error_length);
        return;
    }
    struct probe unrested = *probe;
    if (probe->blessed && !probe->rested && terms->quarantine) { /* as if it was not blessed */
        unrested.blessed = false;
        unrested.rival |= probe->foreign;
        unrested.unrested = true;
        probe = &unrested;
    }
    note_reading(node, probe, now_ns);
    if (is_still_stepped(node, probe, now_ns)) {
        node->trust = NODE_UNKNOWN;
        node_note_step(node);
        return;
    }
    bool inherits = probe->heir && !node->stepped && !node->disown;
    node->disown = probe->heir && !inherits;
    node->marking = node->marking && !probe->heir; /* an heir gets no mark */
    node->stepped = node->stepped && probe->heir;  /* a renewal by others does not count either */
    if (probe->blessed)
        found_blessed(node, probe, terms, was_amending, now_ns);
    else
        found_unblessed(node, probe, inherits, was_blessing, now_ns);
}

void node_epoch_hurry(struct node *node, const struct node_epoch_terms *terms, instant_ns now_ns) {
    if (!node->ready || (node->trust == NODE_TRUSTED && node->known_ms <= terms->max_ttl_ms))
        return;
    node->hurry = true;
    node->renewing = false;
    if (node->stepped)
        node->stepped_until_ns = node->probe_ns = now_ns;
}

void node_epoch_outgrow(struct node *node, uint32_t max_ttl_ms) {
    const struct node_epoch_terms terms = {.max_ttl_ms = max_ttl_ms};

    if (node->trust == NODE_TRUSTED && !suffices(node, &terms))
        node->trust = NODE_UNKNOWN;
}

void node_epoch_doubt(struct node *node) {
    static const char changed[] = "its epoch has changed or is lost: the node is being examined";

    if (node->trust != NODE_TRUSTED)
        return;
    node->trust = NODE_UNKNOWN;
    node->doubted = true;
    node->blessed = node->hurry = false;
    node->probe_ns = INSTANT_LONG_AGO;
    node_note_trouble(node, changed, sizeof(changed) - 1);
}

/* --- what to send next --- */

/* When shorter leases are proposed: all agents get time to change the epoch first. An agent that needs
 * longer ones has no vote of the node until it has withdrawn the proposal. So the nodes take turns: such an
 * agent keeps its quorum, and a withdrawal on one node postpones the proposals on all. */
static instant_ns proposal_due_ns(const struct node *node, const struct node_epoch_terms *terms) {
    int64_t patience_ns =
        instant_min(validity_quarantine_ns(node->known_ms), AMENDMENT_PAUSE_MS * NS_PER_MS);
    instant_ns due_ns = instant_add(node->epoch_ns, patience_ns);

    if (terms->withdrawn_ns != INSTANT_LONG_AGO)
        due_ns = instant_max(due_ns, instant_add(terms->withdrawn_ns, AMENDMENT_RETRY_MS * NS_PER_MS));
    return instant_add(due_ns, terms->turn_ns);
}

/* When the epoch is to be amended. A proposal takes effect when it is as old as a quarantine is long: by
 * then longer leases, of agents that did not know the proposal, have ended. */
static instant_ns amendment_due_ns(const struct node *node, const struct node_epoch_terms *terms) {
    instant_ns due_ns = INSTANT_NEVER;

    if (!node->blessed || node->stepped)
        return INSTANT_NEVER;
    if (node->foreign || (node->hurry && node->known_ms > terms->max_ttl_ms))
        due_ns = node->hurry ? INSTANT_LONG_AGO : INSTANT_NEVER;
    else if (!suffices(node, terms))
        due_ns = INSTANT_LONG_AGO;
    else if (node->proposed_ms != 0)
        due_ns = instant_add(node->epoch_ns, validity_quarantine_ns(node->known_ms));
    else if (node->known_ms > terms->max_ttl_ms)
        due_ns = proposal_due_ns(node, terms);
    return instant_max(due_ns, node->amend_ns);
}

instant_ns node_epoch_wish_due_ns(const struct node *node, const struct node_epoch_terms *terms) {
    if (!node->ready || node->probing || node->stalled)
        return INSTANT_NEVER;
    if (node->stepped && !node->judged && !node->disown)
        return node->stepped_until_ns;
    instant_ns due_ns = instant_min(node->probe_ns, amendment_due_ns(node, terms));
    if (node->trust != NODE_QUARANTINED || node->marked_ns == INSTANT_NEVER)
        return due_ns; /* marks wait for a probe, too: never at the speed of the answers */
    return instant_min(due_ns, terms->bless_ns);
}

enum node_epoch_wish node_epoch_wish(const struct node *node, const struct node_epoch_terms *terms,
                                     instant_ns now_ns) {
    if (now_ns < node_epoch_wish_due_ns(node, terms))
        return NODE_EPOCH_WANTS_NOTHING;
    if (now_ns >= amendment_due_ns(node, terms))
        return NODE_EPOCH_WANTS_AMENDMENT;
    if (node->blessed && !node->stepped)
        return NODE_EPOCH_WANTS_PROBE;
    if (node->marked_ns == INSTANT_NEVER)
        return NODE_EPOCH_WANTS_MARK;
    if (node->trust == NODE_QUARANTINED && now_ns >= terms->bless_ns)
        return NODE_EPOCH_WANTS_BLESSING;
    return NODE_EPOCH_WANTS_PROBE;
}

void node_epoch_asked(struct node *node, enum node_epoch_wish wish, instant_ns now_ns) {
    node->probing = true;
    node->asked_ns = now_ns;
    node->blessing = wish == NODE_EPOCH_WANTS_BLESSING;
    node->amending = wish == NODE_EPOCH_WANTS_AMENDMENT;
    node->marking = wish == NODE_EPOCH_WANTS_MARK || (wish == NODE_EPOCH_WANTS_PROBE && node->blessed);
    if (node->marking)
        node->mark++;
    node_sent(node, now_ns);
}

/* --- what is sent --- */

struct amendment node_epoch_amendment(const struct node *node, const struct node_epoch_terms *terms,
                                      instant_ns now_ns) {
    uint32_t ours_ms = terms->max_ttl_ms;

    if (node->foreign || node->hurry || node->known_ms <= ours_ms)
        return (struct amendment){.max_ttl_ms = ours_ms};
    if (node->proposed_ms >= ours_ms &&
        now_ns >= instant_add(node->epoch_ns, validity_quarantine_ns(node->known_ms)))
        return (struct amendment){.max_ttl_ms = node->proposed_ms};
    return (struct amendment){.max_ttl_ms = node->known_ms, .proposed_ms = ours_ms};
}

struct blessing node_epoch_blessing(struct node *node, const struct node_epoch_terms *terms) {
    node->covered_ms = terms->covered_ms;
    return (struct blessing){.mark = node->mark,
                             .max_ttl_ms = terms->max_ttl_ms,
                             .covered_ms = terms->covered_ms,
                             .rested = terms->quarantine};
}

struct inquiry node_epoch_inquiry(const struct node *node, uint32_t max_ttl_ms, node_set known) {
    uint32_t epoch_ms = longest_ttl_ms(node);

    return (struct inquiry){.mark = node->mark,
                            .max_ttl_ms = epoch_ms > max_ttl_ms ? epoch_ms : max_ttl_ms,
                            .leave = node->marking,
                            .disown = node->disown,
                            .withdraw_us =
                                node->stepped && node->withdraw && node->floor_us > 0 ? node->floor_us : 0,
                            .known = known};
}
