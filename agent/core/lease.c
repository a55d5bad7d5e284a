#include "core/lease.h"

#include <assert.h>

#include "core/attempt.h"
#include "core/foreign-contender.h"
#include "core/foreign-key.h"
#include "core/held-lease.h"
#include "core/key-refresh.h"
#include "core/lease-table.h"
#include "core/node-epoch.h"
#include "core/release.h"
#include "core/resume.h"
#include "core/retry.h"
#include "core/round-trace.h"

static void resume_settle(struct shard *shard, struct lease *lease, enum resume_progress progress,
                          instant_ns now_ns) {
    switch (progress) {
    case RESUME_OPEN:
        break;
    case RESUME_DONE:
        held_lease_begin(shard, lease, 0, lease->beat_ns != 0 ? lease->beat_ns : now_ns, now_ns);
        break;
    case RESUME_FAILED:
        lease_table_forget(shard, lease);
        break;
    }
}

/* --- requests and commands --- */

/* How long the name is left free for lock clients that poll. Reports to the front why the request waits. */
static int64_t foreign_pause_ns(struct shard *shard, const struct lease *lease, instant_ns now_ns) {
    static const char text[] = "left free for a moment, because other lock clients want the name, too";
    int64_t pause_ns = lease->persist ? foreign_contender_pause_ns(shard, lease, now_ns) : 0;

    if (pause_ns > 0)
        shard_report(shard, &(struct report){.kind = REPORT_CONTENDED,
                                             .request = lease->request,
                                             .failure = FAILURE_BUSY,
                                             .text = text,
                                             .text_length = sizeof(text) - 1});
    return pause_ns;
}

void lease_begin(struct shard *shard, struct lease *lease, int64_t pause_ns, instant_ns now_ns) {
    pause_ns = instant_max(pause_ns, foreign_pause_ns(shard, lease, now_ns));
    if (pause_ns > 0) {
        lease_table_enter(shard, lease, LEASE_WAITING);
        lease_table_set_due(shard, lease, now_ns + pause_ns);
    } else
        attempt_begin(shard, lease, now_ns);
}

void lease_resume(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    lease_table_enter(shard, lease, LEASE_RESUMING);
    resume_settle(shard, lease, resume_begin(shard, lease, now_ns), now_ns);
}

void lease_release(struct shard *shard, struct lease *lease, instant_ns keep_until_ns, instant_ns now_ns) {
    switch ((enum lease_state) lease->state) {
    case LEASE_WAITING:
        shard_report_lease(shard, lease, REPORT_RELEASED);
        lease_table_forget(shard, lease);
        break;
    case LEASE_HELD:
        if (now_ns >= lease->deadline_ns)
            held_lease_report_expired(shard, lease);
        else
            shard->counters.releases++;
        if (foreign_contender_is_near(shard, lease, now_ns))
            foreign_contender_leave(shard, lease, now_ns + retry_ordinary_ns(shard));
        if (now_ns < keep_until_ns)
            held_lease_cool_down(shard, lease, keep_until_ns);
        else
            release_begin(shard, lease, now_ns);
        break;
    case LEASE_RESUMING:
        if (now_ns < keep_until_ns)
            lease_forget(shard, lease, now_ns); /* its keys, of either value, live as long */
        else
            release_begin(shard, lease, now_ns);
        break;
    case LEASE_ACQUIRING:
    case LEASE_RAISING:
        release_begin(shard, lease, now_ns);
        break;
    case LEASE_RELEASING:
        break;
    case LEASE_FREE:
    case LEASE_LOST:
        assert(false); /* without a request */
        break;
    }
}

void lease_forget(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    if (lease->state != LEASE_RESUMING && lease->state != LEASE_HELD) {
        lease_release(shard, lease, 0, now_ns);
        return;
    }
    shard_report_lease(shard, lease, REPORT_RELEASED);
    lease_table_forget(shard, lease);
}

void lease_abandon(struct shard *shard, struct lease *lease, bool unread, instant_ns now_ns) {
    if (lease->state != LEASE_HELD)
        lease_release(shard, lease, 0, now_ns); /* no client received the grant */
    else
        held_lease_abandon(shard, lease, unread);
}

void lease_beat(struct shard *shard, struct lease *lease, instant_ns beat_ns, instant_ns now_ns) {
    if (lease->state == LEASE_HELD)
        held_lease_beat(shard, lease, beat_ns, now_ns);
    else if (lease->state == LEASE_RESUMING)
        lease->beat_ns = beat_ns;
}

/* --- votes and time --- */

void lease_vote(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
                instant_ns now_ns) {
    static const struct vote no_vote = {.kind = VOTE_CUT, .text = ""};
    static const enum round_trace_answer answers[] = {
        [VOTE_YES] = ROUND_ANSWER_YES,           [VOTE_BEHIND] = ROUND_ANSWER_BEHIND,
        [VOTE_REPAIRED] = ROUND_ANSWER_REPAIRED, [VOTE_FOREIGN] = ROUND_ANSWER_HELD,
        [VOTE_FREE] = ROUND_ANSWER_FREE,         [VOTE_REFUSED] = ROUND_ANSWER_REFUSED,
        [VOTE_EPOCH] = ROUND_ANSWER_EPOCH,       [VOTE_CUT] = ROUND_ANSWER_CUT};

    if (!(lease->round.asked & node_set_of(node)))
        return;
    bool voted = vote->kind == VOTE_YES || vote->kind == VOTE_REPAIRED || vote->kind == VOTE_BEHIND;
    bool late = voted && !node_epoch_was_known(&shard->nodes[node], lease->started_ns);
    if ((shard->nodes[node].stepped || late) && lease->state != LEASE_RELEASING)
        vote = &no_vote; /* executed, but no promise: quarantine.h relies on epochs known before the round */
    if (lease->state != LEASE_RELEASING)
        round_trace_vote(shard->traces, lease_table_ticket(shard, lease), node,
                         vote == &no_vote ? ROUND_ANSWER_EPOCH : answers[vote->kind],
                         now_ns - lease->started_ns);
    if (late && (lease->state == LEASE_ACQUIRING || lease->state == LEASE_RAISING))
        lease->epoch_changed = true;
    if (lease->state == LEASE_RESUMING && (late || vote->kind == VOTE_EPOCH))
        lease->epoch_changed = true;
    quorum_answer(&lease->round, node, vote->kind);
    switch ((enum lease_state) lease->state) {
    case LEASE_ACQUIRING:
        attempt_vote(shard, lease, node, vote, now_ns);
        break;
    case LEASE_RAISING:
        attempt_raise_vote(shard, lease, node, vote, now_ns);
        break;
    case LEASE_RESUMING:
        resume_settle(shard, lease, resume_vote(shard, lease, now_ns), now_ns);
        break;
    case LEASE_HELD:
        foreign_key_seen(shard, lease, node, vote, now_ns);
        key_refresh_vote(shard, lease, node, vote, now_ns);
        held_lease_vote(shard, lease, now_ns);
        break;
    case LEASE_RELEASING:
        release_vote(shard, lease, node, vote);
        break;
    case LEASE_WAITING:
        attempt_late_vote(shard, lease, node, vote, now_ns);
        break;
    case LEASE_FREE:
    case LEASE_LOST:
        break;
    }
}

/* Cooldowns of very many leases may end at one instant, and extensions must not wait for all of them: the
 * rest follows, so many a millisecond. */
static void release_in_turn(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    uint32_t turn_ms = shard->released++ / RELEASES_TURN;

    if (turn_ms == 0)
        release_begin(shard, lease, now_ns);
    else
        lease_table_set_due(shard, lease, now_ns + turn_ms * NS_PER_MS);
}

void lease_tick(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    switch ((enum lease_state) lease->state) {
    case LEASE_WAITING:
    case LEASE_ACQUIRING:
    case LEASE_RAISING:
        attempt_tick(shard, lease, now_ns);
        break;
    case LEASE_RESUMING:
        resume_settle(shard, lease, resume_tick(shard, lease, now_ns), now_ns);
        break;
    case LEASE_HELD:
        held_lease_tick(shard, lease, now_ns);
        break;
    case LEASE_LOST:
        release_in_turn(shard, lease, now_ns);
        break;
    case LEASE_RELEASING:
        release_tick(shard, lease, now_ns);
        break;
    case LEASE_FREE:
        assert(false);
        break;
    }
}

/* --- nodes and clocks --- */

void lease_vote_is_void(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns) {
    assert(lease->state != LEASE_FREE && lease->state != LEASE_RELEASING);

    lease->round.yes &= (node_set) ~node_set_of(node);
    if (!lease_state_is_past_attempts(lease))
        lease->accepted &= (node_set) ~node_set_of(node);
    if (lease->state == LEASE_HELD)
        held_lease_vote_is_void(shard, lease, now_ns);
}

void lease_node_back(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns) {
    if (lease->state == LEASE_RELEASING)
        release_node_back(shard, lease, node, now_ns);
    else if (lease->state == LEASE_HELD)
        held_lease_node_back(shard, lease, now_ns);
    else
        attempt_node_back(shard, lease, now_ns);
}
