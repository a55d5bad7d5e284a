#include "core/attempt.h"

#include <assert.h>

#include "core/error-text.h"
#include "core/foreign-key.h"
#include "core/held-lease.h"
#include "core/lease-table.h"
#include "core/release.h"
#include "core/retry.h"
#include "core/round-trace.h"
#include "core/send.h"
#include "core/token.h"
#include "core/validity.h"
#include "core/window.h"

enum {
    SPLITS_MAX = 12, /* split attempts of a request that does not wait */
};

/* --- failure --- */

/* A node has the value of a lease of this agent. */
static bool met_own(const struct shard *shard, const struct lease *lease) {
    return lease->seen && !lease->seen_type &&
           lock_value_has_identity(lease->seen->bytes, lease->seen->head_length, &shard->config.identity);
}

/* Reports why the attempt failed, and that the request is over unless it `goes_on`. */
static void report_failed(struct shard *shard, struct lease *lease, bool timed_out, bool goes_on) {
    bool busy = lease->failure == 1 + FAILURE_BUSY;
    node_set voted = lease->round.yes | lease->round.foreign, open = timed_out ? 0 : lease->round.asked;
    char text[ERROR_TEXT_BYTES];
    size_t length = busy ? error_text_busy(lease, text) : error_text_no_quorum(shard, voted, open, text);

    shard_report(shard, &(struct report){.kind = goes_on ? REPORT_CONTENDED : REPORT_FAILED,
                                         .request = lease->request,
                                         .failure = busy ? FAILURE_BUSY : FAILURE_NO_QUORUM,
                                         .trace = lease_table_trace(shard, lease),
                                         .text = text,
                                         .text_length = (uint16_t) length,
                                         .own = busy && met_own(shard, lease)});
    lease->reported_failure = lease->failure;
}

/* The obstacle is known: the request is retried or over. */
static void settle(struct shard *shard, struct lease *lease, enum retry_obstacle obstacle, bool timed_out,
                   instant_ns now_ns) {
    assert(lease->state == LEASE_WAITING && obstacle != OBSTACLE_UNKNOWN);

    lease->undecided = false;
    lease->failure = (uint8_t) (1 + (obstacle == OBSTACLE_NO_QUORUM ? FAILURE_NO_QUORUM : FAILURE_BUSY));
    lease->split = obstacle == OBSTACLE_SPLIT;
    lease->splits = lease->split ? (uint8_t) (lease->splits < UINT8_MAX ? lease->splits + 1 : UINT8_MAX) : 0;

    /* An orphan is being deleted, and a changed epoch is being read: the next attempt may succeed, and the
     * failure is not reported. */
    bool may_pass = lease->met_orphan || (lease->epoch_changed && obstacle == OBSTACLE_NO_QUORUM);
    bool again = lease->persist || may_pass || (lease->split && lease->splits < SPLITS_MAX);
    lease->met_orphan = lease->epoch_changed = false;
    if (!again || (!may_pass && lease->reported_failure != lease->failure))
        report_failed(shard, lease, timed_out, again);
    if (again)
        retry_failed(shard, lease, now_ns);
    else
        lease_table_forget(shard, lease);
}

/* `timed_out`: outstanding answers are too late; otherwise no outstanding answer can make the attempt
 * succeed. */
static void fail(struct shard *shard, struct lease *lease, bool timed_out, instant_ns now_ns) {
    enum retry_obstacle obstacle = retry_obstacle(shard, lease, timed_out);

    if (!timed_out)
        retry_note_trip(shard, lease, now_ns);
    release_undo(shard, lease, now_ns);
    lease_table_enter(shard, lease, LEASE_WAITING);
    if (obstacle != OBSTACLE_UNKNOWN) {
        settle(shard, lease, obstacle, timed_out, now_ns);
        return;
    }
    lease->undecided = true;
    lease->failure = 0;
    lease_table_set_due(shard, lease,
                        instant_max(now_ns, lease->started_ns + lease_state_node_timeout_ns(lease)));
}

/* --- grant --- */

static void grant(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    lease->deadline_ns = validity_deadline_ns(lease->started_ns, lease->terms.ttl_ms);
    if (now_ns >= lease->deadline_ns) {
        fail(shard, lease, true, now_ns);
        return;
    }
    retry_note_trip(shard, lease, now_ns);
    lease->hold_until_ns = lease->terms.max_hold_ms > 0
                               ? instant_add(now_ns, lease->terms.max_hold_ms * NS_PER_MS)
                               : INSTANT_NEVER;
    if (lease->token > shard->token_high)
        shard->token_high = lease->token;
    held_lease_begin(shard, lease, token_last(lease), now_ns, now_ns);
}

/* A majority has our key, but too few nodes accepted the token: proposes a larger one to them. */
static void raise_begin(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    node_set nodes = lease->maybe & shard_askable(shard);

    lease_table_enter(shard, lease, LEASE_RAISING);
    lease->raises++;
    token_raise(shard, lease, now_ns);
    if (!shard_is_majority(shard, nodes)) {
        quorum_begin(&lease->round, nodes);
        round_trace_clear(shard->traces, lease_table_ticket(shard, lease));
        fail(shard, lease, false, now_ns);
        return;
    }
    lease->under_way = true;
    lease_table_set_due(shard, lease, now_ns + lease_state_node_timeout_ns(lease));
    send_round(shard, lease, OPERATION_RAISE, nodes, now_ns);
}

static void grant_or_raise(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    if (lease->token == 0 || shard_is_majority(shard, lease->accepted))
        grant(shard, lease, now_ns);
    else
        raise_begin(shard, lease, now_ns);
}

/* --- begin --- */

/* The nodes for the attempt. False: the attempt is held back until they have room. */
static bool choose_nodes(struct shard *shard, struct lease *lease, node_set *ret_nodes, instant_ns now_ns) {
    *ret_nodes = shard_askable(shard);
    if (!shard_has_quorum(shard))
        return true; /* the attempt fails for that */
    *ret_nodes = window_for_attempt(shard, now_ns);
    if (*ret_nodes != 0)
        return true;
    if (!lease->held_back)
        lease->held_back_ns = now_ns;
    lease_table_enter(shard, lease, LEASE_WAITING);
    lease->held_back = true;
    if (!lease->persist && now_ns - lease->held_back_ns >= 2 * lease_state_node_timeout_ns(lease)) {
        *ret_nodes = 0;
        return true;
    }
    lease_table_set_due(shard, lease, window_place_ns(shard, now_ns));
    return false;
}

/* 2.75 node time-outs: the front answers a request that does not wait after three (registry.h). */
static instant_ns wait_for_nodes_until_ns(const struct lease *lease) {
    return lease->started_ns + lease_state_node_timeout_ns(lease) * 11 / 4;
}

/* A new agent examines its nodes one by one: a request waits once for those that may make a quorum. */
static bool waits_for_nodes(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    if (lease->waited_for_nodes || !shard_may_gain_quorum(shard))
        return false;
    lease->waited_for_nodes = true;
    lease_table_enter(shard, lease, LEASE_WAITING);
    lease->failure = 1 + FAILURE_NO_QUORUM;
    lease_table_set_due(shard, lease, instant_max(now_ns, wait_for_nodes_until_ns(lease)));
    return true;
}

/* True if the quorum lacks only nodes whose changed epochs are being read: then the attempt counts as one
 * that met a changed epoch. Not twice in a row. */
static bool lacks_doubted_nodes(const struct shard *shard, const struct lease *lease) {
    bool is_first = lease->failure == 0, lacked_quorum = lease->failure == 1 + FAILURE_NO_QUORUM;

    return (is_first || (lease->persist && !lacked_quorum)) && shard_lacks_doubted_nodes(shard);
}

void attempt_begin(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    node_set nodes;

    if (!choose_nodes(shard, lease, &nodes, now_ns))
        return;
    lease_table_enter(shard, lease, LEASE_ACQUIRING);
    lease->started_ns = now_ns;
    if (lease->terms.cooldown_ms > 0)
        lease->cooldown_until_ns = now_ns + (int64_t) lease->terms.cooldown_ms * NS_PER_MS;
    retry_begin_attempt(lease);
    lease->seen = shared_string_unref(&shard->texts, lease->seen);
    lease->seen_ttl_ms = -1;
    if (!shard_is_majority(shard, nodes)) {
        if (waits_for_nodes(shard, lease, now_ns))
            return;
        lease->epoch_changed = lacks_doubted_nodes(shard, lease);
        quorum_begin(&lease->round, nodes); /* the message names the other nodes' troubles */
        round_trace_clear(shard->traces, lease_table_ticket(shard, lease));
        fail(shard, lease, false, now_ns);
        return;
    }
    shard->sink.secret(shard->sink.userdata, lease->secret);
    token_propose(shard, lease, now_ns);
    lease->token_seen = 0;
    lease->accepted = 0;
    lease->raises = 0;
    lease->maybe = nodes;
    lease->under_way = true;
    lease_table_set_due(shard, lease, now_ns + lease_state_node_timeout_ns(lease));
    send_round(shard, lease, OPERATION_ACQUIRE, nodes, now_ns);
}

/* --- votes --- */

static void note_obstacle(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
                          instant_ns now_ns) {
    if (vote->kind == VOTE_FOREIGN) {
        retry_met(shard, lease, node, vote, now_ns);
        lease->met_orphan |=
            foreign_key_was_deleted(vote) || foreign_key_is_orphan(shard, lease, node, vote, now_ns);
    }
    if (vote->kind == VOTE_EPOCH) {
        lease->epoch_changed = true;
        lease->maybe &= (node_set) ~node_set_of(node);
    }
}

void attempt_raise_vote(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
                        instant_ns now_ns) {
    if (vote->kind == VOTE_BEHIND)
        token_vote(shard, lease, node, vote, now_ns);
    switch (quorum_verdict(&lease->round, shard->config.nodes)) {
    case VERDICT_REACHED:
        grant(shard, lease, now_ns);
        break;
    case VERDICT_IMPOSSIBLE:
        if (lease->raises < TOKEN_RAISES_MAX && lease->token_seen >= lease->token)
            raise_begin(shard, lease, now_ns);
        else
            fail(shard, lease, false, now_ns);
        break;
    case VERDICT_OPEN:
        break;
    }
}

/* A late answer to a failed attempt may show the obstacle, or correct it: a holder instead of a split or a
 * missing quorum. */
void attempt_late_vote(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
                       instant_ns now_ns) {
    bool timed_out = !lease->undecided;

    if (lease->raises == 0 && (!timed_out || vote->kind == VOTE_FOREIGN)) {
        note_obstacle(shard, lease, node, vote, now_ns);
        enum retry_obstacle obstacle = retry_obstacle(shard, lease, timed_out);
        if (timed_out ? obstacle == OBSTACLE_HOLDER && (lease->split || lease->failure != 1 + FAILURE_BUSY)
                      : obstacle != OBSTACLE_UNKNOWN) {
            settle(shard, lease, obstacle, timed_out, now_ns);
            return;
        }
    }
    retry_answered_late(shard, lease, node, now_ns);
}

void attempt_vote(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
                  instant_ns now_ns) {
    note_obstacle(shard, lease, node, vote, now_ns);
    if (vote->kind == VOTE_YES && lease->token != 0)
        token_vote(shard, lease, node, vote, now_ns);
    switch (quorum_verdict(&lease->round, shard->config.nodes)) {
    case VERDICT_REACHED:
        grant_or_raise(shard, lease, now_ns);
        break;
    case VERDICT_IMPOSSIBLE:
        fail(shard, lease, false, now_ns);
        break;
    case VERDICT_OPEN:
        break;
    }
}

/* --- waiting --- */

/* True if the request has only waited for nodes so far, and the unexamined ones cannot make a quorum. */
static bool no_quorum_can_come(const struct shard *shard, const struct lease *lease) {
    return lease->waited_for_nodes && lease->reported_failure == 0 && !shard_may_gain_quorum(shard);
}

/* A request has another attempt after one that met a changed epoch. Without a quorum to ask, that attempt
 * waits for nodes to come back (attempt_node_back()), up to two node time-outs after the last attempt began:
 * its failure would answer all requests of this host that do not wait. */
static bool waits_for_quorum(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    bool first = lease->waited_for_nodes && lease->reported_failure == 0;
    instant_ns until_ns =
        first ? wait_for_nodes_until_ns(lease) : lease->started_ns + 2 * lease_state_node_timeout_ns(lease);

    if (now_ns >= until_ns || shard_has_quorum(shard) || no_quorum_can_come(shard, lease))
        return false;
    lease->failure = 1 + FAILURE_NO_QUORUM;
    lease_table_set_due(shard, lease, until_ns);
    return true;
}

void attempt_tick(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    if (lease->state != LEASE_WAITING)
        fail(shard, lease, true, now_ns);
    else if (lease->undecided)
        settle(shard, lease, retry_obstacle(shard, lease, true), true, now_ns);
    else if (!waits_for_quorum(shard, lease, now_ns))
        attempt_begin(shard, lease, now_ns);
}

void attempt_freed(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns) {
    if (retry_freed(shard, lease, node, now_ns))
        attempt_begin(shard, lease, now_ns);
}

void attempt_subscribed(struct shard *shard, struct lease *lease, unsigned node, instant_ns since_ns,
                        instant_ns now_ns) {
    if (retry_subscribed(shard, lease, node, since_ns, now_ns))
        attempt_begin(shard, lease, now_ns);
}

/* Without a quorum a request that does not wait would fail again, so it waits for one. */
void attempt_node_back(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    bool first = lease->waited_for_nodes && lease->reported_failure == 0;
    instant_ns at_ns =
        first ? now_ns : now_ns + random_between(&shard->random, 0, NODE_BACK_US_MAX * NS_PER_US);

    if (!shard_has_quorum(shard))
        return;
    if (lease->state == LEASE_WAITING && lease->failure == 1 + FAILURE_NO_QUORUM)
        retry_by(shard, lease, at_ns);
    if (lease->state == LEASE_RESUMING && !lease->under_way)
        lease_table_set_due(shard, lease, at_ns);
}

void attempt_node_out(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    bool waits = lease->state == LEASE_WAITING && lease->failure == 1 + FAILURE_NO_QUORUM;

    if ((waits || (lease->state == LEASE_RESUMING && !lease->under_way)) &&
        no_quorum_can_come(shard, lease) && !shard_has_quorum(shard))
        lease_table_set_due(shard, lease, now_ns);
}
