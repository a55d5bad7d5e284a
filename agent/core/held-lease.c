#include "core/held-lease.h"

#include <assert.h>

#include "base/back-off.h"
#include "core/extension-schedule.h"
#include "core/key-refresh.h"
#include "core/lease-table.h"
#include "core/node-epoch.h"
#include "core/patience.h"
#include "core/release.h"
#include "core/round-trace.h"
#include "core/send.h"
#include "core/validity.h"
#include "core/window.h"

static void report_granted(struct shard *shard, const struct lease *lease, int64_t last) {
    shard_report(shard, &(struct report){.kind = REPORT_GRANTED,
                                         .request = lease->request,
                                         .deadline_ns = lease->deadline_ns,
                                         .cooldown_until_ns = lease->cooldown_until_ns,
                                         .token = lease->token,
                                         .token_last = last,
                                         .trace = lease_table_trace(shard, lease),
                                         .text = (const char *) lease->secret,
                                         .text_length = SECRET_BYTES});
}

static instant_ns beat_until_ns(const struct lease *lease, instant_ns beat_ns) {
    return lease->terms.heartbeat_ms > 0 ? beat_ns + (int64_t) lease->terms.heartbeat_ms * NS_PER_MS
                                         : INSTANT_NEVER;
}

void held_lease_begin(struct shard *shard, struct lease *lease, int64_t last, instant_ns beat_ns,
                      instant_ns now_ns) {
    bool resumed = lease->state == LEASE_RESUMING;

    lease_table_enter(shard, lease, LEASE_HELD);
    if (resumed)
        key_refresh_plan_soon(shard, lease, now_ns);
    else
        key_refresh_plan(shard, lease, now_ns);
    lease->beat_until_ns = beat_until_ns(lease, beat_ns);
    lease->deadline_ns = instant_min(lease->deadline_ns, lease->hold_until_ns);
    /* A search after a restart may find, and so extend, the keys long after a heartbeat was due. Still the
     * lease ends within a ttl after that heartbeat was due. */
    lease->deadline_ns =
        instant_min(lease->deadline_ns, instant_add(lease->beat_until_ns, lease_state_ttl_ns(lease)));
    lease->extend_ns = now_ns < lease->beat_until_ns ? extension_schedule_first_ns(shard, lease) : now_ns;
    if (lease->deadline_ns >= lease->hold_until_ns) /* reports at-risk before the end */
        lease->extend_ns = instant_min(lease->extend_ns, now_ns + (lease->deadline_ns - now_ns) / 2);
    lease_table_set_due(shard, lease, instant_min(lease->extend_ns, lease->deadline_ns));
    shard->counters.grants++;
    report_granted(shard, lease, last);
}

/* --- the end --- */

void held_lease_cool_down(struct shard *shard, struct lease *lease, instant_ns until_ns) {
    shard_report_lease(shard, lease, REPORT_RELEASED);
    lease_table_detach(shard, lease);
    lease_table_enter(shard, lease, LEASE_LOST);
    lease_table_set_due(shard, lease, until_ns);
}

/* Lost or at risk. */
static void report_reason(struct shard *shard, const struct lease *lease, enum report_kind kind,
                          enum reason reason) {
    if (lease->request != 0)
        shard_report(shard, &(struct report){.kind = kind,
                                             .request = lease->request,
                                             .deadline_ns = lease->deadline_ns,
                                             .reason = reason,
                                             .trace = lease_table_trace(shard, lease),
                                             .text = lease->text->bytes,
                                             .text_length = lease->text->head_length});
}

void held_lease_lose(struct shard *shard, struct lease *lease, enum reason reason, instant_ns now_ns) {
    instant_ns keep_until_ns = instant_max(lease->deadline_ns, lease->cooldown_until_ns);

    report_reason(shard, lease, REPORT_LOST, reason);
    lease_table_detach(shard, lease);
    if (now_ns >= keep_until_ns) {
        release_begin(shard, lease, now_ns);
        return;
    }
    /* A node that was out of reach since a restart may have the former process's value of this lease. */
    shard->predecessors.from_ns = instant_max(shard->predecessors.from_ns, keep_until_ns);
    lease_table_enter(shard, lease, LEASE_LOST);
    lease_table_set_due(shard, lease, keep_until_ns);
}

static enum reason reason_of_expiry(const struct lease *lease) {
    if (lease->abandoned)
        return lease->unread ? REASON_UNREAD : REASON_CLOSED;
    if (lease->risk != 0)
        return (enum reason)(lease->risk - 1);
    return lease->under_way ? REASON_NO_QUORUM
                            : REASON_PAUSED; /* no extension failed: none was even sent in time */
}

static void expire(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    held_lease_lose(shard, lease, reason_of_expiry(lease), now_ns);
}

void held_lease_report_expired(struct shard *shard, const struct lease *lease) {
    report_reason(shard, lease, REPORT_LOST, reason_of_expiry(lease));
}

static void put_at_risk(struct shard *shard, struct lease *lease, enum reason reason) {
    if (lease->risk == 1 + reason)
        return;
    lease->risk = (uint8_t) (1 + reason);
    report_reason(shard, lease, REPORT_AT_RISK, reason);
}

/* --- extensions --- */

/* Nodes that are being examined, or were examined since the round began, because of a changed epoch or a new
 * connection. */
static node_set examined_nodes(const struct shard *shard, instant_ns started_ns) {
    node_set set = 0;

    for (unsigned i = 0; i < shard->config.nodes; i++) {
        const struct node *node = &shard->nodes[i];
        bool again = node_can_be_asked(node) && !node_epoch_was_known(node, started_ns);
        if (again || (node->ready && node->trust == NODE_UNKNOWN && !node->stalled && !node->barred))
            set |= node_set_of(i);
    }
    return set;
}

/* True: the lease is not at risk yet. With the examined nodes the next round may have a majority, and would
 * end with more than half of the ttl left. (At times all leases of a fleet meet a changed epoch.) */
static bool may_pass(const struct shard *shard, const struct lease *lease, instant_ns now_ns) {
    const struct quorum_round *round = &lease->round;
    node_set possible = round->yes | round->asked | examined_nodes(shard, lease->started_ns);

    if (round->asked != 0 && now_ns - lease->started_ns >= lease_state_node_timeout_ns(lease))
        return false; /* others are silent */
    possible &= (node_set) ~(round->foreign | round->refused | round->repaired);
    instant_ns next_end_ns = lease->extend_ns + lease_state_node_timeout_ns(lease);
    return lease->deadline_ns - next_end_ns > lease_state_ttl_ns(lease) / 2 &&
           shard_is_majority(shard, possible);
}

static void extension_failed(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    int64_t delay_ns = lease_state_node_timeout_ns(lease) / 2;

    shard->counters.extensions_failed++;
    lease->under_way = false; /* late answers still count, until the next round */
    if (lease->round.repaired != 0) {
        delay_ns = NS_PER_MS; /* the keys exist again: the next round counts them */
    } else {
        delay_ns = back_off_delay(&shard->random, delay_ns, lease_state_ttl_ns(lease) / 10,
                                  lease->failures < 6 ? lease->failures : 6);
    }
    if (lease->failures < UINT8_MAX)
        lease->failures++;
    lease->extend_ns = now_ns + delay_ns;
    if (!may_pass(shard, lease, now_ns))
        put_at_risk(shard, lease, REASON_NO_QUORUM);
    lease_table_set_due(shard, lease, instant_min(lease->extend_ns, lease->deadline_ns));
}

/* Notes how close slow nodes, or this host, came to losing the lease. A margin that is small because of a
 * missed heartbeat, or of a max_hold below the ttl, does not count. */
static void note_margin(struct shard *shard, const struct lease *lease, instant_ns now_ns) {
    uint32_t margin_permille = (uint32_t) ((lease->deadline_ns - now_ns) * 1000 / lease_state_ttl_ns(lease));
    bool bounded = lease->terms.max_hold_ms > 0 && lease->terms.max_hold_ms < lease->terms.ttl_ms;

    if (bounded || lease->risk == 1 + REASON_HEARTBEAT)
        return;
    histogram_note_share(&shard->counters.extension_margins, margin_permille);
    if (margin_permille < shard->counters.extension_margin_permille)
        shard->counters.extension_margin_permille = margin_permille;
}

static void extension_succeeded(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    instant_ns deadline_ns =
        instant_min(validity_deadline_ns(lease->started_ns, lease->terms.ttl_ms), lease->hold_until_ns);

    assert(now_ns < lease->deadline_ns);
    note_margin(shard, lease, now_ns);
    shard->counters.extensions++;
    lease->deadline_ns = instant_max(lease->deadline_ns, deadline_ns);
    if (!lease->under_way) /* a late answer: the next try was scheduled */
        lease->extend_ns = extension_schedule_first_ns(shard, lease);
    if (lease->deadline_ns >= lease->hold_until_ns) /* the last extension: at-risk is reported in time */
        lease->extend_ns = instant_min(lease->extend_ns, now_ns + (lease->deadline_ns - now_ns) / 2);
    lease->under_way = lease->undecided = false;
    lease->failures = 0;
    lease->risk = 0;
    lease_table_set_due(shard, lease, instant_min(lease->extend_ns, lease->deadline_ns));
    shard_report_lease(shard, lease, REPORT_EXTENDED);
}

void held_lease_extend(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    int64_t late_ns = now_ns - lease->extend_ns;

    if (late_ns > shard->counters.extension_late_ns)
        shard->counters.extension_late_ns = late_ns;
    if (shard_askable(shard) == 0) {
        quorum_begin(&lease->round, 0);
        round_trace_clear(shard->traces, lease_table_ticket(shard, lease));
        extension_failed(shard, lease, now_ns);
        return;
    }
    node_set nodes = window_for_extension(shard, lease, now_ns);
    if (nodes == 0) {
        if (late_ns >= lease_state_node_timeout_ns(lease)) /* as late as a round without answers */
            put_at_risk(shard, lease, REASON_NO_QUORUM);
        lease_table_set_due(shard, lease, instant_min(window_place_ns(shard, now_ns), lease->deadline_ns));
        return;
    }
    histogram_note(&shard->counters.extension_delays, late_ns);
    /* Less than a majority extends no lease, but keeps its keys until the other nodes are back. */
    lease->started_ns = now_ns;
    lease->maybe |= nodes;
    lease->under_way = lease->undecided = lease->extends = true;
    lease->extend_ns = extension_schedule_next_ns(shard, lease, now_ns);
    lease_table_set_due(shard, lease,
                        instant_min(now_ns + lease_state_node_timeout_ns(lease), lease->deadline_ns));
    enum operation operation = key_refresh_operation(shard, lease, now_ns);
    if (operation == OPERATION_REFRESH)
        key_refresh_plan(shard, lease, now_ns);
    send_round(shard, lease, operation, nodes, now_ns);
}

/* The outstanding answers may make a majority: those of stalled nodes, too, since the others alone extend
 * nothing. */
static bool waits_on(const struct shard *shard, const struct lease *lease, instant_ns now_ns) {
    return shard_is_majority(shard, lease->round.yes | lease->round.asked) &&
           patience_lasts(shard, lease, now_ns);
}

void held_lease_tick(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    if (now_ns >= lease->deadline_ns) {
        expire(shard, lease, now_ns);
        return;
    }
    if (lease->under_way) {
        extension_failed(shard, lease, now_ns);
        return;
    }
    if (lease->abandoned) {
        lease_table_set_due(shard, lease, lease->deadline_ns);
    } else if (lease->deadline_ns >= lease->hold_until_ns) {
        put_at_risk(shard, lease, REASON_MAX_HOLD);
        lease_table_set_due(shard, lease, lease->deadline_ns);
    } else if (now_ns >= lease->beat_until_ns) {
        put_at_risk(shard, lease, REASON_HEARTBEAT);
        lease_table_set_due(shard, lease, lease->deadline_ns);
    } else if (waits_on(shard, lease, now_ns)) {
        if (lease->risk == 1 + REASON_HEARTBEAT) /* that heartbeat has come since */
            put_at_risk(shard, lease, REASON_NO_QUORUM);
        lease->extend_ns = patience_go_on(shard, lease, key_refresh_operation(shard, lease, now_ns), now_ns);
        lease_table_set_due(shard, lease, instant_min(lease->extend_ns, lease->deadline_ns));
    } else {
        held_lease_extend(shard, lease, now_ns);
    }
}

void held_lease_vote(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    if (!lease->undecided)
        return; /* the round was decided before */
    if (now_ns >= lease->deadline_ns) {
        expire(shard, lease, now_ns); /* an extension never revives a lease */
        return;
    }
    unsigned nodes = shard->config.nodes;
    if (node_set_count(lease->round.foreign) > nodes - quorum_of(nodes)) {
        held_lease_lose(shard, lease, REASON_TAKEN, now_ns);
        return;
    }
    switch (quorum_verdict(&lease->round, nodes)) {
    case VERDICT_REACHED:
        extension_succeeded(shard, lease, now_ns);
        break;
    case VERDICT_IMPOSSIBLE:
        if (lease->under_way)
            extension_failed(shard, lease, now_ns);
        break;
    case VERDICT_OPEN:
        break;
    }
}

/* --- events from outside --- */

void held_lease_beat(struct shard *shard, struct lease *lease, instant_ns beat_ns, instant_ns now_ns) {
    if (lease->terms.heartbeat_ms == 0)
        return;
    lease->beat_until_ns = beat_until_ns(lease, beat_ns);
    if (now_ns < lease->beat_until_ns && lease->risk == 1 + REASON_HEARTBEAT && !lease->under_way &&
        now_ns < lease->deadline_ns) {
        lease->extend_ns = now_ns;
        lease_table_set_due(shard, lease, now_ns);
    }
}

void held_lease_abandon(struct shard *shard, struct lease *lease, bool unread) {
    lease->abandoned = true;
    lease->unread = unread;
    if (!lease->under_way)
        lease_table_set_due(shard, lease, lease->deadline_ns);
}

/* Extends soon, at a random instant: all leases of a node may get this call at once. */
static void extend_soon(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    lease->extend_ns = now_ns + random_between(&shard->random, 0, NODE_BACK_US_MAX * NS_PER_US);
    lease_table_set_due(shard, lease, instant_min(lease->extend_ns, lease->deadline_ns));
}

void held_lease_vote_is_void(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    if (lease->abandoned || lease->deadline_ns >= lease->hold_until_ns || now_ns >= lease->beat_until_ns)
        return;
    lease->under_way = lease->undecided = false;
    extend_soon(shard, lease, now_ns);
}

void held_lease_node_back(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    bool failed = lease->risk == 1 + REASON_NO_QUORUM || (lease->risk == 0 && lease->failures > 0);

    if (failed && !lease->under_way)
        extend_soon(shard, lease, now_ns);
}
