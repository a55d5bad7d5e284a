#include "core/release.h"

#include <assert.h>
#include <string.h>

#include "core/lease-table.h"
#include "core/send.h"
#include "core/validity.h"
#include "core/window.h"

enum { RELEASE_RETRY_MS = 1000 };

static node_set owed(const struct lease *lease) {
    return lease->maybe & (node_set) ~lease->confirmed;
}

static void settle(struct shard *shard, struct lease *lease) {
    if (owed(lease) != 0 && !shard_is_majority(shard, lease->confirmed))
        return;
    shard_report_lease(shard, lease, REPORT_RELEASED);
    lease_table_detach(shard, lease);
    if (owed(lease) == 0)
        lease_table_forget(shard, lease);
}

/* A release is held back until a majority has been asked, if more nodes will have room soon. */
static bool is_held_back(const struct shard *shard, const struct lease *lease, instant_ns now_ns) {
    node_set unasked = owed(lease) & shard_askable(shard) & (node_set) ~lease->round.asked;

    return !shard_is_majority(shard, lease->round.asked | lease->confirmed) &&
           window_is_full(shard, unasked, now_ns) != 0;
}

void release_begin(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    lease_table_enter(shard, lease, LEASE_RELEASING);
    lease->confirmed = 0;
    /* Quiet if the value can't have had a majority: retry.h. An orphan's nodes are released one by one. */
    lease->quiet = !lease->orphan && !shard_is_majority(shard, lease->maybe);
    send_round(shard, lease, OPERATION_RELEASE,
               window_for_release(shard, lease->maybe & shard_askable(shard), now_ns), now_ns);
    if (is_held_back(shard, lease, now_ns)) {
        lease->held_back = true;
        list_unlink(&lease->ending_link);
        list_append(&shard->backlog, &lease->ending_link);
        lease_table_set_due(shard, lease, now_ns + RELEASE_RETRY_MS * NS_PER_MS);
        return;
    }
    lease_table_set_due(shard, lease, now_ns + lease_state_node_timeout_ns(lease));
    settle(shard, lease);
}

static void send_again(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    node_set again = window_for_release(
        shard, owed(lease) & shard_askable(shard) & (node_set) ~lease->round.asked, now_ns);

    if (again != 0)
        send_more(shard, lease, OPERATION_RELEASE, again, now_ns);
}

void release_tick(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    instant_ns gone_ns =
        validity_key_gone_ns(lease->started_ns, lease_state_key_ttl_ms(lease, lease->started_ns));

    shard_report_lease(shard, lease, REPORT_RELEASED);
    lease_table_detach(shard, lease);
    if (now_ns >= gone_ns) {
        lease_table_forget(shard, lease);
        return;
    }
    if (lease->held_back) {
        lease_table_set_due(shard, lease, gone_ns);
        return;
    }
    send_again(shard, lease, now_ns);
    lease_table_set_due(shard, lease, instant_min(gone_ns, now_ns + RELEASE_RETRY_MS * NS_PER_MS));
}

/* True: the next release of the backlog may be sent, too. */
static bool send_first_of_backlog(struct shard *shard, instant_ns now_ns) {
    struct lease *lease = list_entry(list_first(&shard->backlog), struct lease, ending_link);
    node_set unasked = owed(lease) & shard_askable(shard) & (node_set) ~lease->round.asked;
    node_set nodes = window_for_backlog(shard, unasked, now_ns);

    if (nodes != window_prompt(shard, unasked))
        return false;
    lease->held_back = false;
    list_unlink(&lease->ending_link);
    list_append(lease->request == 0 ? &shard->owing : &shard->ending, &lease->ending_link);
    if (nodes != 0)
        send_more(shard, lease, OPERATION_RELEASE, nodes, now_ns);
    lease_table_set_due(shard, lease, now_ns + lease_state_node_timeout_ns(lease));
    return true;
}

void release_send_backlog(struct shard *shard, instant_ns now_ns) {
    while (!list_is_empty(&shard->backlog) && send_first_of_backlog(shard, now_ns))
        ;
}

/* Reports that requests of other hosts wait, for the next series of hand-offs. */
static void report_awaited(struct shard *shard, struct lease *lease, const struct vote *vote) {
    if (!vote->received || lease->awaited || lease->request == 0)
        return;
    lease->awaited = true;
    shard_report(shard, &(struct report){.kind = REPORT_AWAITED,
                                         .request = lease->request,
                                         .text = lease->text->bytes,
                                         .text_length = lease->text->head_length});
}

void release_vote(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote) {
    report_awaited(shard, lease, vote);
    if (vote->kind == VOTE_YES)
        lease->confirmed |= node_set_of(node);
    settle(shard, lease);
}

void release_undo(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    if (lease->maybe == 0)
        return;
    struct lease *undo = lease_table_new(shard);
    if (!undo)
        return; /* no slot: its keys expire */
    undo->text = shared_string_ref(lease->text);
    memcpy(undo->secret, lease->secret, sizeof(undo->secret));
    undo->terms = lease->terms;
    undo->started_ns = lease->started_ns;
    undo->cooldown_until_ns = lease->cooldown_until_ns;
    undo->maybe = lease->maybe;
    lease->maybe = 0;
    release_begin(shard, undo, now_ns);
}

void release_add_node(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns) {
    node_set bit = node_set_of(node);

    assert(lease->state == LEASE_RELEASING);
    lease->maybe |= bit;
    lease->confirmed &= (node_set) ~bit;
    if (!(lease->round.asked & bit) && window_for_release(shard, shard_askable(shard) & bit, now_ns) != 0)
        send_more(shard, lease, OPERATION_RELEASE, bit, now_ns);
}

void release_node_back(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns) {
    node_set bit = node_set_of(node);

    if ((owed(lease) & bit) && !(lease->round.asked & bit) && window_for_release(shard, bit, now_ns) != 0)
        send_more(shard, lease, OPERATION_RELEASE, bit, now_ns);
}
