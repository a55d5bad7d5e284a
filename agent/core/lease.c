#include "core/lease.h"

#include <assert.h>
#include <string.h>

#include "core/error-text.h"
#include "core/extension-schedule.h"
#include "core/key-refresh.h"
#include "core/retry.h"
#include "core/shard-state.h"
#include "core/foreign-key.h"
#include "core/resume.h"
#include "core/token.h"
#include "core/validity.h"
#include "core/window.h"

enum {
    SPLITS_MAX = 12, /* attempts of a request that does not wait, as long as nobody wins */
    NODE_BACK_US_MAX = 5000,
    RELEASE_RETRY_MS = 1000,
    PATIENCE_DIVISOR = 4,    /* of the ttl: for so long late answers to an extension are waited for, */
    PATIENCE_STEPS = 20,     /* in steps of that, to see whether they can still come, */
    PATIENCE_STEP_MS = 1000, /* but not longer ones: an answer may be one that calls for another round */
};

static int64_t random_ns(struct shard *shard, int64_t low_ns, int64_t high_ns) {
    return random_between(&shard->random, low_ns, high_ns);
}

static int64_t node_timeout_ns(const struct lease *lease) {
    return (int64_t) lease->node_timeout_ms * NS_PER_MS;
}

static bool has_quorum_to_ask(const struct shard *shard) {
    return node_set_count(shard_askable(shard)) >= quorum_of(shard->config.nodes);
}

static int64_t ttl_ns(const struct lease *lease) {
    return (int64_t) lease->ttl_ms * NS_PER_MS;
}

static void enter(struct shard *shard, struct lease *lease, enum lease_state state) {
    bool was_past = lease_is_past_attempts(lease);

    if (lease->state == LEASE_WAITING)
        shard->waiting--;
    if (lease->state == LEASE_HELD)
        shard->counters.held--;
    lease->state = (uint8_t) state;
    assert(!was_past || lease_is_past_attempts(lease));
    if (was_past)
        list_unlink(&lease->ending_link);
    else if (lease_is_past_attempts(lease))
        shard_lease_leave_attempts(shard, lease);
    if (state == LEASE_LOST || state == LEASE_RELEASING)
        list_append(state == LEASE_RELEASING && lease->request == 0 ? &shard->owing : &shard->ending,
                    &lease->ending_link);
    if (state == LEASE_WAITING)
        shard->waiting++;
    if (state == LEASE_HELD)
        shard->counters.held++;
    lease->under_way = lease->undecided = lease->held_back = false;
}

static void forget(struct shard *shard, struct lease *lease) {
    enter(shard, lease, LEASE_RELEASING);
    shard_lease_free(shard, lease);
}

static void tell(struct shard *shard, struct lease *lease, enum report_kind kind) {
    if (lease->request == 0)
        return;
    shard_report(shard, &(struct report){.kind = kind,
                                         .request = lease->request,
                                         .deadline_ns = lease->deadline_ns,
                                         .token = lease->token});
}

static void tell_reason(struct shard *shard, struct lease *lease, enum report_kind kind,
                        enum reason reason) {
    if (lease->request == 0)
        return;
    shard_report(shard, &(struct report){.kind = kind,
                                         .request = lease->request,
                                         .deadline_ns = lease->deadline_ns,
                                         .reason = reason});
}

static void tell_granted(struct shard *shard, const struct lease *lease, int64_t last) {
    shard_report(shard, &(struct report){.kind = REPORT_GRANTED,
                                         .request = lease->request,
                                         .deadline_ns = lease->deadline_ns,
                                         .token = lease->token,
                                         .token_last = last,
                                         .text = (const char *) lease->secret,
                                         .text_length = SECRET_BYTES});
}

/* --- releasing --- */

static node_set owed(const struct lease *lease) {
    return lease->maybe & (node_set) ~lease->confirmed;
}

static void release_settle(struct shard *shard, struct lease *lease) {
    unsigned enough = quorum_of(shard->config.nodes);

    if (owed(lease) != 0 && node_set_count(lease->confirmed) < enough)
        return;
    tell(shard, lease, REPORT_RELEASED);
    shard_lease_detach(shard, lease);
    if (owed(lease) == 0)
        forget(shard, lease);
}

/* It is held back if a majority has not even been asked, and more nodes are about to have room. */
static bool release_is_held_back(const struct shard *shard, const struct lease *lease, instant_ns now_ns) {
    node_set unasked = owed(lease) & shard_askable(shard) & (node_set) ~lease->round.asked;

    return node_set_count(lease->round.asked | lease->confirmed) < quorum_of(shard->config.nodes) &&
           window_is_full(shard, unasked, now_ns) != 0;
}

/* Deletes the keys wherever they may stand, at once; nodes out of reach are owed it until their key has
 * expired. */
static void release_begin(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    enter(shard, lease, LEASE_RELEASING);
    lease->confirmed = 0;
    /* See retry.h; an orphan's nodes are released one by one. */
    lease->quiet = !lease->orphan && node_set_count(lease->maybe) < quorum_of(shard->config.nodes);
    shard_send(shard, lease, OPERATION_RELEASE,
               window_for_release(shard, lease->maybe & shard_askable(shard), now_ns), now_ns);
    if (release_is_held_back(shard, lease, now_ns)) {
        lease->held_back = true;
        list_unlink(&lease->ending_link);
        list_append(&shard->backlog, &lease->ending_link);
        shard_set_due(shard, lease, now_ns + RELEASE_RETRY_MS * NS_PER_MS);
        return;
    }
    shard_set_due(shard, lease, now_ns + node_timeout_ns(lease));
    release_settle(shard, lease);
}

static void release_again(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    node_set again = window_for_release(
        shard, owed(lease) & shard_askable(shard) & (node_set) ~lease->round.asked, now_ns);

    if (again != 0)
        shard_send_again(shard, lease, OPERATION_RELEASE, again, now_ns);
}

static void release_tick(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    instant_ns gone_ns = validity_key_gone_ns(lease->started_ns, lease->ttl_ms);

    tell(shard, lease, REPORT_RELEASED);
    shard_lease_detach(shard, lease);
    if (now_ns >= gone_ns) {
        forget(shard, lease);
        return;
    }
    if (lease->held_back) {
        shard_set_due(shard, lease, gone_ns);
        return;
    }
    release_again(shard, lease, now_ns);
    shard_set_due(shard, lease, instant_min(gone_ns, now_ns + RELEASE_RETRY_MS * NS_PER_MS));
}

/* True: there may be another one to send. */
static bool release_first_of_backlog(struct shard *shard, instant_ns now_ns) {
    struct lease *lease = list_entry(list_first(&shard->backlog), struct lease, ending_link);
    node_set unasked = owed(lease) & shard_askable(shard) & (node_set) ~lease->round.asked;
    node_set nodes = window_for_backlog(shard, unasked, now_ns);

    if (nodes != window_prompt(shard, unasked))
        return false;
    lease->held_back = false;
    list_unlink(&lease->ending_link);
    list_append(lease->request == 0 ? &shard->owing : &shard->ending, &lease->ending_link);
    if (nodes != 0)
        shard_send_again(shard, lease, OPERATION_RELEASE, nodes, now_ns);
    shard_set_due(shard, lease, now_ns + node_timeout_ns(lease));
    return true;
}

void lease_release_backlog(struct shard *shard, instant_ns now_ns) {
    while (!list_is_empty(&shard->backlog) && release_first_of_backlog(shard, now_ns))
        ;
}

static void release_vote(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote) {
    retry_heard(shard, lease, vote);
    if (vote->kind == VOTE_YES)
        lease->confirmed |= node_set_of(node);
    release_settle(shard, lease);
}

/* --- acquiring --- */

static void attempt_begin(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* Leaves the failed attempt's value to an undo record, which sees to its keys. */
static void attempt_undo(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    if (lease->maybe == 0)
        return;
    struct lease *undo = shard_lease_new(shard);
    if (!undo)
        return; /* its keys expire by themselves */
    undo->text = shared_string_ref(lease->text);
    memcpy(undo->secret, lease->secret, sizeof(undo->secret));
    undo->ttl_ms = lease->ttl_ms;
    undo->node_timeout_ms = lease->node_timeout_ms;
    undo->started_ns = lease->started_ns;
    undo->maybe = lease->maybe;
    lease->maybe = 0;
    release_begin(shard, undo, now_ns);
}

/* Tells why the attempt has failed, and that the request is over unless it goes on. */
static void tell_failed(struct shard *shard, struct lease *lease, bool timed_out, bool goes_on) {
    bool busy = lease->failure == 1 + FAILURE_BUSY;
    node_set voted = lease->round.yes | lease->round.foreign, open = timed_out ? 0 : lease->round.asked;
    char text[ERROR_TEXT_BYTES];
    size_t length = busy ? error_text_busy(lease, text) : error_text_no_quorum(shard, voted, open, text);

    shard_report(shard, &(struct report){.kind = goes_on ? REPORT_CONTENDED : REPORT_FAILED,
                                         .request = lease->request,
                                         .failure = busy ? FAILURE_BUSY : FAILURE_NO_QUORUM,
                                         .text = text,
                                         .text_length = (uint16_t) length});
    lease->told_failure = lease->failure;
}

/* It is known why the attempt has failed. */
static void attempt_settle(struct shard *shard, struct lease *lease, enum retry_obstacle obstacle,
                           bool timed_out, instant_ns now_ns) {
    assert(lease->state == LEASE_WAITING && obstacle != OBSTACLE_UNKNOWN);

    lease->undecided = false;
    lease->failure = (uint8_t) (1 + (obstacle == OBSTACLE_NO_QUORUM ? FAILURE_NO_QUORUM : FAILURE_BUSY));
    lease->split = obstacle == OBSTACLE_SPLIT;
    lease->splits = lease->split ? (uint8_t) (lease->splits < UINT8_MAX ? lease->splits + 1 : UINT8_MAX) : 0;

    /* With an epoch that has only changed, or without an orphan's keys, the next attempt gets through: what
     * this one met is no news. Otherwise it has no quorum to ask. */
    bool doubted = lease->doubted || (lease->changed && obstacle == OBSTACLE_NO_QUORUM);
    bool again = lease->persist || doubted || (lease->split && lease->splits < SPLITS_MAX);
    lease->doubted = lease->changed = false;
    if (!again || (!doubted && lease->told_failure != lease->failure))
        tell_failed(shard, lease, timed_out, again);
    if (again)
        retry_failed(shard, lease, now_ns);
    else
        forget(shard, lease);
}

/* `timed_out`: who has not answered by now has failed; otherwise its answer can't make it succeed. */
static void attempt_failed(struct shard *shard, struct lease *lease, bool timed_out, instant_ns now_ns) {
    enum retry_obstacle obstacle = retry_obstacle(shard, lease, timed_out);

    if (!timed_out)
        retry_note_trip(shard, lease, now_ns);
    attempt_undo(shard, lease, now_ns);
    enter(shard, lease, LEASE_WAITING);
    if (obstacle != OBSTACLE_UNKNOWN) {
        attempt_settle(shard, lease, obstacle, timed_out, now_ns);
        return;
    }
    lease->undecided = true;
    lease->failure = 0;
    shard_set_due(shard, lease, instant_max(now_ns, lease->started_ns + node_timeout_ns(lease)));
}

/* `last`: of the tokens that were granted; 0: none was. */
static void begin_holding(struct shard *shard, struct lease *lease, int64_t last, instant_ns now_ns) {
    enter(shard, lease, LEASE_HELD);
    lease->deadline_ns = instant_min(lease->deadline_ns, lease->hold_until_ns);
    lease->beat_until_ns =
        lease->heartbeat_ms > 0 ? now_ns + (int64_t) lease->heartbeat_ms * NS_PER_MS : INSTANT_NEVER;
    lease->extend_ns = extension_schedule_first_ns(shard, lease);
    if (lease->deadline_ns >= lease->hold_until_ns) /* the holder is told before its end, however short */
        lease->extend_ns = instant_min(lease->extend_ns, now_ns + (lease->deadline_ns - now_ns) / 2);
    shard_set_due(shard, lease, instant_min(lease->extend_ns, lease->deadline_ns));
    shard->counters.grants++;
    tell_granted(shard, lease, last);
}

static void attempt_granted(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    lease->deadline_ns = validity_deadline_ns(lease->started_ns, lease->ttl_ms);
    if (now_ns >= lease->deadline_ns) {
        attempt_failed(shard, lease, true, now_ns);
        return;
    }
    retry_note_trip(shard, lease, now_ns);
    lease->hold_until_ns =
        lease->max_hold_ms > 0 ? instant_add(now_ns, lease->max_hold_ms * NS_PER_MS) : INSTANT_NEVER;
    if (lease->token > shard->token_high)
        shard->token_high = lease->token;
    begin_holding(shard, lease, token_last(lease), now_ns);
}

/* False: it waits until there is room. */
static bool choose_nodes(struct shard *shard, struct lease *lease, node_set *ret_nodes, instant_ns now_ns) {
    *ret_nodes = shard_askable(shard);
    if (!has_quorum_to_ask(shard))
        return true; /* it will fail for that */
    *ret_nodes = window_for_attempt(shard, now_ns);
    if (*ret_nodes != 0)
        return true;
    if (!lease->held_back)
        lease->held_back_ns = now_ns;
    enter(shard, lease, LEASE_WAITING);
    lease->held_back = true;
    if (!lease->persist && now_ns - lease->held_back_ns >= 2 * node_timeout_ns(lease)) {
        *ret_nodes = 0;
        return true;
    }
    shard_set_due(shard, lease, window_place_ns(shard, now_ns));
    return false;
}

/* As long as the front lets it: see registry.h. */
static instant_ns hope_until_ns(const struct lease *lease) {
    return lease->started_ns + node_timeout_ns(lease) * 11 / 4;
}

/* An agent that has just begun is about to know its nodes: there may be a quorum in a moment. */
static bool attempt_hopes(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    if (lease->hoped || !shard_may_gain_quorum(shard))
        return false;
    lease->hoped = true;
    enter(shard, lease, LEASE_WAITING);
    lease->failure = 1 + FAILURE_NO_QUORUM;
    shard_set_due(shard, lease, instant_max(now_ns, hope_until_ns(lease)));
    return true;
}

static void attempt_begin(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    node_set nodes;

    if (!choose_nodes(shard, lease, &nodes, now_ns))
        return;
    enter(shard, lease, LEASE_ACQUIRING);
    lease->started_ns = now_ns;
    retry_begin_attempt(lease);
    lease->seen = shared_string_unref(&shard->texts, lease->seen);
    lease->seen_ttl_ms = -1;
    if (node_set_count(nodes) < quorum_of(shard->config.nodes)) {
        if (attempt_hopes(shard, lease, now_ns))
            return;
        quorum_begin(&lease->round, nodes); /* these are not to blame */
        attempt_failed(shard, lease, false, now_ns);
        return;
    }
    shard->sink.secret(shard->sink.userdata, lease->secret);
    token_propose(shard, lease, now_ns);
    lease->token_seen = 0;
    lease->accepted = 0;
    lease->raises = 0;
    lease->maybe = nodes;
    lease->under_way = true;
    shard_set_due(shard, lease, now_ns + node_timeout_ns(lease));
    shard_send(shard, lease, OPERATION_ACQUIRE, nodes, now_ns);
}

/* A majority has our key, but too few of them the token: asks for a larger one, where the key is ours. */
static void raise_begin(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    node_set nodes = lease->maybe & shard_askable(shard);

    enter(shard, lease, LEASE_RAISING);
    lease->raises++;
    token_raise(shard, lease, now_ns);
    if (node_set_count(nodes) < quorum_of(shard->config.nodes)) {
        quorum_begin(&lease->round, nodes);
        attempt_failed(shard, lease, false, now_ns);
        return;
    }
    lease->under_way = true;
    shard_set_due(shard, lease, now_ns + node_timeout_ns(lease));
    shard_send(shard, lease, OPERATION_RAISE, nodes, now_ns);
}

static void raise_vote(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
                       instant_ns now_ns) {
    if (vote->kind == VOTE_BEHIND)
        token_vote(shard, lease, node, vote, now_ns);
    switch (quorum_verdict(&lease->round, shard->config.nodes)) {
    case VERDICT_REACHED:
        attempt_granted(shard, lease, now_ns);
        break;
    case VERDICT_IMPOSSIBLE:
        if (lease->raises < TOKEN_RAISES_MAX && lease->token_seen >= lease->token)
            raise_begin(shard, lease, now_ns);
        else
            attempt_failed(shard, lease, false, now_ns);
        break;
    case VERDICT_OPEN:
        break;
    }
}

static void attempt_locked(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    if (lease->token == 0 || node_set_count(lease->accepted) >= quorum_of(shard->config.nodes))
        attempt_granted(shard, lease, now_ns);
    else
        raise_begin(shard, lease, now_ns);
}

static void note_obstacle(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
                          instant_ns now_ns) {
    if (vote->kind == VOTE_FOREIGN) {
        retry_met(shard, lease, node, vote);
        lease->doubted |= foreign_key_is_orphan(shard, lease, node, vote, now_ns);
    }
    if (vote->kind == VOTE_EPOCH) {
        lease->changed = true;
        lease->maybe &= (node_set) ~node_set_of(node);
    }
}

/* An attempt that has failed gets another answer. It may be the one that tells why; or tell that what was
 * taken for a split, or for too few answers in time, is a holder. */
static void late_vote(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
                      instant_ns now_ns) {
    bool timed_out = !lease->undecided;

    if (lease->raises > 0 || (timed_out && vote->kind != VOTE_FOREIGN))
        return;
    note_obstacle(shard, lease, node, vote, now_ns);
    enum retry_obstacle obstacle = retry_obstacle(shard, lease, timed_out);
    if (timed_out ? obstacle == OBSTACLE_HOLDER && (lease->split || lease->failure != 1 + FAILURE_BUSY)
                  : obstacle != OBSTACLE_UNKNOWN)
        attempt_settle(shard, lease, obstacle, timed_out, now_ns);
}

static void attempt_vote(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
                         instant_ns now_ns) {
    note_obstacle(shard, lease, node, vote, now_ns);
    if (vote->kind == VOTE_YES && lease->token != 0)
        token_vote(shard, lease, node, vote, now_ns);
    switch (quorum_verdict(&lease->round, shard->config.nodes)) {
    case VERDICT_REACHED:
        attempt_locked(shard, lease, now_ns);
        break;
    case VERDICT_IMPOSSIBLE:
        attempt_failed(shard, lease, false, now_ns);
        break;
    case VERDICT_OPEN:
        break;
    }
}

/* --- resuming --- */

static void resume_settle(struct shard *shard, struct lease *lease, enum resume_progress takeover,
                          instant_ns now_ns) {
    switch (takeover) {
    case RESUME_OPEN:
        break;
    case RESUME_DONE:
        begin_holding(shard, lease, 0, now_ns);
        break;
    case RESUME_FAILED:
        forget(shard, lease);
        break;
    }
}

/* --- held --- */

/* The lease is over for its holder. Its keys go at once when the deadline has passed, otherwise then. */
static void lose(struct shard *shard, struct lease *lease, enum reason reason, instant_ns now_ns) {
    shard->counters.losses++;
    if (lease->request != 0)
        shard_report(shard, &(struct report){.kind = REPORT_LOST,
                                             .request = lease->request,
                                             .deadline_ns = lease->deadline_ns,
                                             .reason = reason,
                                             .text = lease->text->bytes,
                                             .text_length = lease->text->head_length});
    shard_lease_detach(shard, lease);
    if (now_ns >= lease->deadline_ns) {
        release_begin(shard, lease, now_ns);
        return;
    }
    enter(shard, lease, LEASE_LOST);
    shard_set_due(shard, lease, lease->deadline_ns);
}

static void expire(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    enum reason reason = REASON_PAUSED; /* nothing had failed: it was not even tried in time */

    if (lease->abandoned)
        reason = REASON_CLOSED;
    else if (lease->risk != 0)
        reason = (enum reason)(lease->risk - 1);
    else if (lease->under_way)
        reason = REASON_NO_QUORUM;
    lose(shard, lease, reason, now_ns);
}

static void put_at_risk(struct shard *shard, struct lease *lease, enum reason reason) {
    if (lease->risk == 1 + reason)
        return;
    lease->risk = (uint8_t) (1 + reason);
    tell_reason(shard, lease, REPORT_AT_RISK, reason);
}

static void extension_failed(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    int64_t delay_ns = node_timeout_ns(lease) / 2;

    shard->counters.extensions_failed++;
    lease->under_way = false; /* late answers still count, until the next round */
    put_at_risk(shard, lease, REASON_NO_QUORUM);
    if (lease->round.repaired != 0) {
        delay_ns = NS_PER_MS; /* the keys stand again: the next round can count them */
    } else {
        delay_ns = instant_min(delay_ns << (lease->failures < 6 ? lease->failures : 6), ttl_ns(lease) / 10);
        delay_ns = random_ns(shard, delay_ns / 2, delay_ns);
    }
    if (lease->failures < UINT8_MAX)
        lease->failures++;
    lease->extend_ns = now_ns + delay_ns;
    shard_set_due(shard, lease, instant_min(lease->extend_ns, lease->deadline_ns));
}

static void extension_succeeded(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    instant_ns deadline_ns =
        instant_min(validity_deadline_ns(lease->started_ns, lease->ttl_ms), lease->hold_until_ns);
    uint32_t margin_permille = (uint32_t) ((lease->deadline_ns - now_ns) * 1000 / ttl_ns(lease));

    assert(now_ns < lease->deadline_ns);
    if (margin_permille < shard->counters.extension_margin_permille)
        shard->counters.extension_margin_permille = margin_permille;
    shard->counters.extensions++;
    lease->deadline_ns = instant_max(lease->deadline_ns, deadline_ns);
    if (!lease->under_way) /* late: its next try had been set */
        lease->extend_ns = extension_schedule_first_ns(shard, lease);
    if (lease->extend_ns >= lease->deadline_ns) /* near its max_hold: the holder is told before its end */
        lease->extend_ns = now_ns + (lease->deadline_ns - now_ns) / 2;
    lease->under_way = lease->undecided = false;
    lease->failures = 0;
    lease->risk = 0;
    shard_set_due(shard, lease, instant_min(lease->extend_ns, lease->deadline_ns));
    tell(shard, lease, REPORT_EXTENDED);
}

void lease_extend(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    int64_t late_ns = now_ns - lease->extend_ns;

    if (late_ns > shard->counters.extension_late_ns)
        shard->counters.extension_late_ns = late_ns;
    if (shard_askable(shard) == 0) {
        quorum_begin(&lease->round, 0);
        extension_failed(shard, lease, now_ns);
        return;
    }
    node_set nodes = window_for_extension(shard, lease, now_ns);
    if (nodes == 0) {
        shard_set_due(shard, lease, instant_min(window_place_ns(shard, now_ns), lease->deadline_ns));
        return;
    }
    /* Fewer than a majority can't extend the lease, but keep the votes that it has alive until the others
     * are back. */
    lease->started_ns = now_ns;
    lease->maybe |= nodes;
    lease->under_way = lease->undecided = lease->extends = true;
    lease->extend_ns = extension_schedule_next_ns(shard, lease, now_ns);
    shard_set_due(shard, lease, instant_min(now_ns + node_timeout_ns(lease), lease->deadline_ns));
    shard_send(shard, lease, key_refresh_operation(shard, lease, now_ns), nodes, now_ns);
}

/* Nodes that are slow answer in order: to ask them anew makes their answers late for the new round too, and
 * so on for ever. As long as they can make a majority, and no other node can that was not asked, these are
 * waited for: also those of nodes that have stalled, since asking the others alone extends nothing. */
static bool waits_on(const struct shard *shard, const struct lease *lease, instant_ns now_ns) {
    node_set hoped = lease->round.yes | lease->round.asked;
    node_set heard = hoped | lease->round.foreign | lease->round.refused;

    return lease->undecided && now_ns - lease->started_ns < ttl_ns(lease) / PATIENCE_DIVISOR &&
           (shard_askable(shard) & (node_set) ~heard) == 0 &&
           node_set_count(hoped) >= quorum_of(shard->config.nodes);
}

/* Meanwhile those that refused are asked once more, in the same round: they may do it now, and who is slow
 * may never answer. */
static void ask_who_refused(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    node_set nodes = lease->round.refused & shard_askable(shard);

    if (nodes == 0)
        return;
    lease->round.refused &= (node_set) ~nodes;
    lease->maybe |= nodes;
    shard_send_again(shard, lease, key_refresh_operation(shard, lease, now_ns), nodes, now_ns);
}

static void held_tick(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    if (now_ns >= lease->deadline_ns) {
        expire(shard, lease, now_ns);
        return;
    }
    if (lease->under_way) {
        extension_failed(shard, lease, now_ns);
        return;
    }
    if (lease->abandoned) {
        shard_set_due(shard, lease, lease->deadline_ns);
    } else if (lease->deadline_ns >= lease->hold_until_ns) {
        put_at_risk(shard, lease, REASON_MAX_HOLD);
        shard_set_due(shard, lease, lease->deadline_ns);
    } else if (now_ns >= lease->beat_until_ns) {
        put_at_risk(shard, lease, REASON_HEARTBEAT);
        shard_set_due(shard, lease, lease->deadline_ns);
    } else if (waits_on(shard, lease, now_ns)) {
        ask_who_refused(shard, lease, now_ns);
        lease->extend_ns =
            now_ns + instant_min(ttl_ns(lease) / PATIENCE_STEPS, PATIENCE_STEP_MS * NS_PER_MS);
        shard_set_due(shard, lease, instant_min(lease->extend_ns, lease->deadline_ns));
    } else {
        lease_extend(shard, lease, now_ns);
    }
}

static void held_vote(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    if (!lease->undecided)
        return; /* a late answer to a round that is decided */
    if (now_ns >= lease->deadline_ns) {
        expire(shard, lease, now_ns); /* an extension never revives a lease */
        return;
    }
    unsigned nodes = shard->config.nodes;
    if (node_set_count(lease->round.foreign) > nodes - quorum_of(nodes)) {
        lose(shard, lease, REASON_TAKEN, now_ns);
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

/* --- the lease's events --- */

void lease_begin(struct shard *shard, struct lease *lease, int64_t pause_ns, instant_ns now_ns) {
    if (pause_ns > 0) {
        enter(shard, lease, LEASE_WAITING);
        shard_set_due(shard, lease, now_ns + pause_ns);
    } else
        attempt_begin(shard, lease, now_ns);
}

void lease_resume(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    enter(shard, lease, LEASE_RESUMING);
    resume_settle(shard, lease, resume_begin(shard, lease, now_ns), now_ns);
}

void lease_vote(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
                instant_ns now_ns) {
    static const struct vote worthless = {.kind = VOTE_CUT, .text = ""};

    if (!(lease->round.asked & node_set_of(node)))
        return;
    bool voted = vote->kind == VOTE_YES || vote->kind == VOTE_REPAIRED || vote->kind == VOTE_BEHIND;
    bool late = voted && !node_epoch_stood(&shard->nodes[node], lease->started_ns);
    if ((shard->nodes[node].stepped || late) && lease->state != LEASE_RELEASING)
        vote = &worthless; /* it was executed, but is no promise: quarantine.h wants epochs of before */
    if (late && (lease->state == LEASE_ACQUIRING || lease->state == LEASE_RAISING))
        lease->changed = true;
    quorum_answer(&lease->round, node, vote->kind);
    switch ((enum lease_state) lease->state) {
    case LEASE_ACQUIRING:
        attempt_vote(shard, lease, node, vote, now_ns);
        break;
    case LEASE_RAISING:
        raise_vote(shard, lease, node, vote, now_ns);
        break;
    case LEASE_RESUMING:
        resume_settle(shard, lease, resume_vote(shard, lease, now_ns), now_ns);
        break;
    case LEASE_HELD:
        foreign_key_seen(shard, lease, node, vote, now_ns);
        key_refresh_vote(shard, lease, node, vote);
        held_vote(shard, lease, now_ns);
        break;
    case LEASE_RELEASING:
        release_vote(shard, lease, node, vote);
        break;
    case LEASE_WAITING:
        late_vote(shard, lease, node, vote, now_ns);
        break;
    case LEASE_FREE:
    case LEASE_LOST:
        break;
    }
}

void lease_freed(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns) {
    if (retry_freed(shard, lease, node, now_ns))
        attempt_begin(shard, lease, now_ns);
}

void lease_listening(struct shard *shard, struct lease *lease, unsigned node, instant_ns since_ns,
                     instant_ns now_ns) {
    if (retry_listening(shard, lease, node, since_ns, now_ns))
        attempt_begin(shard, lease, now_ns);
}

/* It has only waited for nodes to be known so far, and these can't make a quorum any more. */
static bool is_without_hope(const struct shard *shard, const struct lease *lease) {
    return lease->hoped && lease->told_failure == 0 && !shard_may_gain_quorum(shard);
}

/* A request that does not wait has another attempt after one that met a changed epoch. While there is no
 * quorum to ask it leaves nodes the time to come back, when lease_node_back() sees to it: two of their
 * time-outs since the last attempt began. */
static bool hopes_for_quorum(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    bool first = lease->hoped && lease->told_failure == 0;
    instant_ns until_ns = first ? hope_until_ns(lease) : lease->started_ns + 2 * node_timeout_ns(lease);

    if (lease->persist || now_ns >= until_ns || has_quorum_to_ask(shard) || is_without_hope(shard, lease))
        return false;
    lease->failure = 1 + FAILURE_NO_QUORUM;
    shard_set_due(shard, lease, until_ns);
    return true;
}

void lease_tick(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    switch ((enum lease_state) lease->state) {
    case LEASE_WAITING:
        if (lease->undecided)
            attempt_settle(shard, lease, retry_obstacle(shard, lease, true), true, now_ns);
        else if (!hopes_for_quorum(shard, lease, now_ns))
            attempt_begin(shard, lease, now_ns);
        break;
    case LEASE_ACQUIRING:
    case LEASE_RAISING:
        attempt_failed(shard, lease, true, now_ns);
        break;
    case LEASE_RESUMING:
        resume_settle(shard, lease, resume_tick(shard, lease, now_ns), now_ns);
        break;
    case LEASE_HELD:
        held_tick(shard, lease, now_ns);
        break;
    case LEASE_LOST:
        release_begin(shard, lease, now_ns);
        break;
    case LEASE_RELEASING:
        release_tick(shard, lease, now_ns);
        break;
    case LEASE_FREE:
        assert(false);
        break;
    }
}

void lease_release(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    switch ((enum lease_state) lease->state) {
    case LEASE_WAITING:
        tell(shard, lease, REPORT_RELEASED);
        forget(shard, lease);
        break;
    case LEASE_HELD:
        shard->counters.releases++;
        release_begin(shard, lease, now_ns);
        break;
    case LEASE_ACQUIRING:
    case LEASE_RAISING:
    case LEASE_RESUMING:
        release_begin(shard, lease, now_ns);
        break;
    case LEASE_RELEASING:
        break;
    case LEASE_FREE:
    case LEASE_LOST:
        assert(false); /* these have no request */
        break;
    }
}

void lease_discard(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    release_begin(shard, lease, now_ns);
}

void lease_discard_at(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns) {
    node_set bit = node_set_of(node);

    assert(lease->state == LEASE_RELEASING);
    lease->maybe |= bit;
    lease->confirmed &= (node_set) ~bit;
    if (!(lease->round.asked & bit) && window_for_release(shard, shard_askable(shard) & bit, now_ns) != 0)
        shard_send_again(shard, lease, OPERATION_RELEASE, bit, now_ns);
}

void lease_forget(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    if (lease->state != LEASE_RESUMING && lease->state != LEASE_HELD) {
        lease_release(shard, lease, now_ns);
        return;
    }
    tell(shard, lease, REPORT_RELEASED);
    forget(shard, lease);
}

void lease_abandon(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    if (lease->state != LEASE_HELD) {
        lease_release(shard, lease, now_ns); /* nobody was told that it is held */
        return;
    }
    lease->abandoned = true;
    if (!lease->under_way)
        shard_set_due(shard, lease, lease->deadline_ns);
}

void lease_beat(struct shard *shard, struct lease *lease, instant_ns beat_ns, instant_ns now_ns) {
    if (lease->state != LEASE_HELD || lease->heartbeat_ms == 0)
        return;
    lease->beat_until_ns = beat_ns + (int64_t) lease->heartbeat_ms * NS_PER_MS;
    if (now_ns < lease->beat_until_ns && lease->risk == 1 + REASON_HEARTBEAT && !lease->under_way &&
        now_ns < lease->deadline_ns) {
        lease->extend_ns = now_ns;
        shard_set_due(shard, lease, now_ns);
    }
}

void lease_vote_is_void(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns) {
    assert(lease->state != LEASE_FREE && lease->state != LEASE_RELEASING);

    lease->round.yes &= (node_set) ~node_set_of(node);
    lease->accepted &= (node_set) ~node_set_of(node);
    if (lease->state != LEASE_HELD || lease->abandoned || lease->deadline_ns >= lease->hold_until_ns ||
        now_ns >= lease->beat_until_ns)
        return;
    lease->under_way = lease->undecided = false;
    lease->extend_ns = now_ns + random_ns(shard, 0, NODE_BACK_US_MAX * NS_PER_US);
    shard_set_due(shard, lease, instant_min(lease->extend_ns, lease->deadline_ns));
}

void lease_outlived(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    assert(lease->state == LEASE_HELD);

    lose(shard, lease, REASON_PAUSED, now_ns);
}

void lease_node_back(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns) {
    node_set bit = node_set_of(node);
    instant_ns soon_ns = now_ns + random_ns(shard, 0, NODE_BACK_US_MAX * NS_PER_US);

    if (lease->state == LEASE_RELEASING && (owed(lease) & bit) && !(lease->round.asked & bit) &&
        window_for_release(shard, bit, now_ns) != 0)
        shard_send_again(shard, lease, OPERATION_RELEASE, bit, now_ns);
    /* Not before it has a quorum to ask: a request that does not wait would fail for want of it. */
    if (lease->state == LEASE_WAITING && lease->failure == 1 + FAILURE_NO_QUORUM && has_quorum_to_ask(shard))
        retry_by(shard, lease, lease->hoped && lease->told_failure == 0 ? now_ns : soon_ns);
    if (lease->state == LEASE_RESUMING && !lease->under_way && has_quorum_to_ask(shard))
        shard_set_due(shard, lease, lease->hoped && lease->told_failure == 0 ? now_ns : soon_ns);
    if (lease->state == LEASE_HELD && lease->risk == 1 + REASON_NO_QUORUM && !lease->under_way) {
        lease->extend_ns = soon_ns;
        shard_set_due(shard, lease, instant_min(soon_ns, lease->deadline_ns));
    }
}

void lease_node_out(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    bool waits = lease->state == LEASE_WAITING && lease->failure == 1 + FAILURE_NO_QUORUM;

    if ((waits || (lease->state == LEASE_RESUMING && !lease->under_way)) && is_without_hope(shard, lease) &&
        !has_quorum_to_ask(shard))
        shard_set_due(shard, lease, now_ns);
}
