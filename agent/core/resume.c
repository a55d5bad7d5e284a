#include "core/resume.h"

#include "core/error-text.h"
#include "core/patience.h"
#include "core/retry.h"
#include "core/round-trace.h"
#include "core/lease-table.h"
#include "core/send.h"
#include "core/validity.h"

static enum resume_progress report_failed(struct shard *shard, const struct lease *lease,
                                          enum failure failure, const char *text, size_t length) {
    shard_report(shard, &(struct report){.kind = REPORT_FAILED,
                                         .request = lease->request,
                                         .failure = failure,
                                         .trace = lease_table_trace(shard, lease),
                                         .text = text,
                                         .text_length = (uint16_t) length});
    return RESUME_FAILED;
}

static node_set gone(const struct lease *lease) {
    return lease->round.foreign | lease->round.free;
}

/* The lease has ended for certain once no majority can have its key. Before, nodes that are not connected
 * yet may have it. */
static bool has_ended(const struct shard *shard, const struct lease *lease) {
    unsigned nodes = shard->config.nodes;
    return node_set_count(gone(lease)) > nodes - quorum_of(nodes);
}

/* True if the outstanding answers may prove the lease valid or ended. */
static bool may_decide(const struct shard *shard, const struct lease *lease) {
    unsigned nodes = shard->config.nodes, open = node_set_count(lease->round.asked);

    return node_set_count(lease->round.yes) + open >= quorum_of(nodes) ||
           node_set_count(gone(lease)) + open > nodes - quorum_of(nodes);
}

/* Where a node has another value, another agent may have resumed the lease: that key and the keys that are
 * left exclude others together until the client's deadline. Until then no key of a former process is
 * deleted. (The former process was dead before the search, so the deadline is less than a ttl away.) */
static enum resume_progress report_ended(struct shard *shard, const struct lease *lease, instant_ns now_ns) {
    char text[ERROR_TEXT_BYTES];

    if (lease->searches && lease->round.foreign != 0)
        shard->predecessors.from_ns =
            instant_max(shard->predecessors.from_ns, now_ns + lease->terms.ttl_ms * NS_PER_MS);
    return report_failed(shard, lease, FAILURE_NOT_HELD, text, error_text_ended(shard, gone(lease), text));
}

/* Nodes had changed epochs, which are being read now. Without a quorum to ask, the next try waits for these
 * nodes (attempt_node_back()). As for attempts, there may be several tries, until the front's bound. */
static enum resume_progress try_again(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    int64_t timeout_ns = lease_state_node_timeout_ns(lease);

    lease->under_way = lease->undecided = false;
    lease_table_set_due(shard, lease,
                        shard_has_quorum(shard)
                            ? now_ns + instant_min(retry_ordinary_ns(shard), timeout_ns / 2)
                            : instant_max(now_ns, lease->started_ns + 2 * timeout_ns));
    return RESUME_OPEN;
}

/* The try proved neither. */
static enum resume_progress try_failed(struct shard *shard, struct lease *lease, bool timed_out,
                                       instant_ns now_ns) {
    node_set open = timed_out ? 0 : lease->round.asked;
    char text[ERROR_TEXT_BYTES];

    if (now_ns >= lease->hold_until_ns) {
        static const char held[] = "the lease reached its max_hold";
        return report_failed(shard, lease, FAILURE_NOT_HELD, held, sizeof(held) - 1);
    }
    if (!lease->persist && lease->epoch_changed)
        return try_again(shard, lease, now_ns);
    size_t length = error_text_no_quorum(shard, lease->round.yes | gone(lease), open, text);
    if (!lease->persist)
        return report_failed(shard, lease, FAILURE_NO_QUORUM, text, length);
    lease->under_way = false;
    lease_table_set_due(shard, lease, now_ns + retry_ordinary_ns(shard));
    if (lease->reported_failure != 1 + FAILURE_NO_QUORUM)
        shard_report(shard, &(struct report){.kind = REPORT_CONTENDED,
                                             .request = lease->request,
                                             .failure = FAILURE_NO_QUORUM,
                                             .trace = lease_table_trace(shard, lease),
                                             .text = text,
                                             .text_length = (uint16_t) length});
    lease->reported_failure = 1 + FAILURE_NO_QUORUM;
    return RESUME_OPEN;
}

static enum resume_progress try_reached(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    instant_ns deadline_ns = validity_deadline_ns(lease->started_ns, lease->terms.ttl_ms);

    if (now_ns >= instant_min(deadline_ns, lease->hold_until_ns))
        return try_failed(shard, lease, true, now_ns);
    lease->deadline_ns = deadline_ns;
    return RESUME_DONE;
}

static enum operation operation_of(const struct lease *lease) {
    return lease->searches ? OPERATION_SEARCH : OPERATION_ADOPT;
}

static enum resume_progress try_begin(struct shard *shard, struct lease *lease, bool is_first,
                                      instant_ns now_ns) {
    node_set nodes = shard_askable(shard);

    lease->epoch_changed = false;
    if (!shard_is_majority(shard, nodes)) {
        if (!lease->waited_for_nodes && shard_may_gain_quorum(shard)) {
            lease->waited_for_nodes = true;
            lease_table_set_due(shard, lease,
                                now_ns + (int64_t) lease->terms.node_timeout_ms * NS_PER_MS * 11 / 4);
            return RESUME_OPEN;
        }
        if (is_first && shard_lacks_doubted_nodes(shard)) {
            lease->started_ns = now_ns;
            return try_again(shard, lease, now_ns);
        }
        lease->undecided = false;
        quorum_begin(&lease->round, nodes); /* the message names the other nodes' troubles */
        round_trace_clear(shard->traces, lease_table_ticket(shard, lease));
        return try_failed(shard, lease, false, now_ns);
    }
    lease->epoch_changed = shard_count_doubted(shard) > 0; /* these are not asked, and may decide */
    lease->started_ns = now_ns;
    lease->maybe |= nodes;
    lease->under_way = lease->undecided = true;
    lease_table_set_due(shard, lease, now_ns + (int64_t) lease->terms.node_timeout_ms * NS_PER_MS);
    send_round(shard, lease, operation_of(lease), nodes, now_ns);
    return RESUME_OPEN;
}

enum resume_progress resume_begin(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    static const char ended[] = "the lease was released or lost at this agent";

    if (lease_table_is_ending(shard, lease->secret))
        return report_failed(shard, lease, FAILURE_NOT_HELD, ended, sizeof(ended) - 1);
    return try_begin(shard, lease, true, now_ns);
}

enum resume_progress resume_vote(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    if (quorum_verdict(&lease->round, shard->config.nodes) == VERDICT_REACHED)
        return try_reached(shard, lease, now_ns);
    if (has_ended(shard, lease))
        return report_ended(shard, lease, now_ns);
    if (lease->under_way && !may_decide(shard, lease))
        return try_failed(shard, lease, false, now_ns);
    return RESUME_OPEN; /* late answers still count, until the next try */
}

/* After the time-out, which is reported: true if the outstanding answers may still decide the try. */
static bool waits_on(const struct shard *shard, const struct lease *lease, instant_ns now_ns) {
    return may_decide(shard, lease) && patience_lasts(shard, lease, now_ns);
}

enum resume_progress resume_tick(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    if (lease->under_way || now_ns >= lease->hold_until_ns)
        return try_failed(shard, lease, true, now_ns);
    if (!waits_on(shard, lease, now_ns))
        return try_begin(shard, lease, false, now_ns);
    instant_ns again_ns = patience_go_on(shard, lease, operation_of(lease), now_ns);
    lease_table_set_due(shard, lease, instant_min(again_ns, lease->hold_until_ns));
    return RESUME_OPEN;
}
