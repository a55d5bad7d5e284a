#include "local/registry-report.h"

#include <assert.h>
#include <string.h>

#include "base/prefetch.h"
#include "local/cooling.h"
#include "local/history-note.h"
#include "local/recovery/restore.h"
#include "local/rejection.h"
#include "local/request.h"
#include "local/wait-queue.h"

#define VALIDITY_NS_MIN NS_PER_MS /* of a grant, when the client gets it */

/* Hides the random part in the keys from the client: returns another one for the grant (handoff.h). */
static const char *conceal(struct registry *registry, struct request *request, const struct report *report) {
    struct request_secrets *secrets = request_secrets(registry, request);

    assert(report->text_length == SECRET_BYTES);
    memcpy(secrets->acquired, report->text, sizeof(secrets->acquired));
    secrets->token_last = report->token_last;
    registry->sink.secret(registry->sink.userdata, secrets->reported);
    return (const char *) secrets->reported;
}

/* The name is held now. (A contender beside a resumed lease goes on, and the keeper has reported its
 * results.) */
static void forget_result(struct registry *registry, struct name_table_entry *name, instant_ns now_ns) {
    if (name->seen_failure != 0)
        name->seen_ns = now_ns; /* until now another host held the name, which was reported only once */
    name->seen_failure = 0;
    name->seen = shared_string_unref(&registry->texts, name->seen);
}

static void note_wait(struct registry *registry, const struct request *request, instant_ns now_ns) {
    bool waited = request->from_queue || request->tried;

    if (!request->resume)
        histogram_note(waited ? &registry->waits : &registry->acquisitions, now_ns - request->asked_ns);
}

/* The agent was stopped or starved until less than a millisecond was left. A request that waits goes on when
 * the keeper has confirmed the release. */
static void granted_too_late(struct registry *registry, struct request *request, instant_ns now_ns) {
    if (!request->try_once && !request_is_resume(request)) {
        request_command_simple(registry, request, COMMAND_RELEASE);
        return;
    }
    request_deliver_failed(registry, request, "NOQUORUM",
                           "the grant came too late: the agent was stopped or starved", now_ns);
    request_detach(registry, request);
    wait_queue_withdraw(registry, request);
}

static void begin_tenure(struct registry *registry, struct request *request, const struct report *report,
                         instant_ns now_ns) {
    request->restore = RESTORE_NONE;
    request->token = report->token;
    request->cooldown_until_ns = report->cooldown_until_ns;
    request->tenure = (struct handoff_tenure){.acquired_ns = now_ns,
                                              .secret = request->from_queue && registry->sink.secret &&
                                                        request->cooldown_until_ns == 0};
    request->name->token_last = report->token_last;
    if (registry->cooling)
        cooling_end(registry->cooling, request->name->key.hash);
}

static void granted(struct registry *registry, struct request *request, const struct report *report,
                    instant_ns now_ns) {
    instant_ns deadline_ns = report->deadline_ns;
    struct request_outcome outcome = {.kind = OUTCOME_GRANTED,
                                      .text = report->text,
                                      .text_length = report->text_length,
                                      .trace = &report->trace};

    if (restore_is_searching(request) && now_ns < deadline_ns) {
        /* A lease whose deadline has passed does not begin again: registry_tick() reports the loss next. */
        if (request->unwanted || now_ns < request->deadline_ns)
            restore_found(registry, request, deadline_ns, now_ns);
        return;
    }
    if (request->state != REQUEST_CONTENDING)
        return; /* withdrawn: its release is under way */
    if (request_is_leaving(request)) {
        registry_drop(registry, request, now_ns);
        return;
    }
    if (now_ns > deadline_ns - VALIDITY_NS_MIN) {
        granted_too_late(registry, request, now_ns);
        return;
    }
    note_wait(registry, request, now_ns);
    request_enter(registry, request, REQUEST_HELD);
    request_note_holder(registry, request->name);
    begin_tenure(registry, request, report, now_ns);
    if (request->tenure.secret)
        outcome.text = conceal(registry, request, report);
    else
        request_drop_secrets(registry, request);
    request->page_slot = (int16_t) deadline_page_take(request_page(request));
    request_await_reading(registry, request, now_ns);
    request_set_deadline(registry, request, deadline_ns);
    if (!request->resume && request->terms.max_hold_ms > 0)
        request->hold_until_ns = instant_add(now_ns, request->terms.max_hold_ms * NS_PER_MS);
    if (!request->resume)
        forget_result(registry, request->name, now_ns);
    list_unlink(&request->queue_link); /* a request that resumes in vain may be before it */
    list_prepend(&request->name->queue, &request->queue_link);
    if (request->resume)
        restore_end_left(registry, request);
    request_deliver(registry, request, &outcome, now_ns);
    if (!request->tenure.secret)
        request->tail = shared_string_unref(&registry->texts, request->tail);
    if (request->state == REQUEST_HELD)
        wait_queue_reject_overdue(registry, request->name, now_ns);
}

static void extended(struct registry *registry, struct request *request, instant_ns deadline_ns,
                     instant_ns now_ns) {
    /* Late by the registry's own copy: registry_tick() reports the loss next. */
    if (request->state != REQUEST_HELD || now_ns >= request->deadline_ns)
        return;
    request_extend(registry, request, deadline_ns);
    if (request->risk != 0 && !request_is_lost(request) && !request->unread) {
        request->risk = 0;
        request_deliver_kind(registry, request, OUTCOME_EXTENDED, now_ns);
    }
}

/* The keeper gets the end of this holder's max_hold with the refresh of the keys (handoff.h). Until then the
 * keeper may report the end that it knows, which is earlier. */
static bool is_outdated(const struct request *request, const struct report *report) {
    bool refreshed = request->tenure.handoffs > 0 ||
                     (request->resumable && request->from_queue && request->cooldown_until_ns == 0);

    return report->reason == REASON_MAX_HOLD && request->state == REQUEST_HELD && refreshed &&
           report->deadline_ns < request->hold_until_ns;
}

void registry_report_extensions(struct registry *registry, const struct extension *extensions,
                                uint32_t count, instant_ns now_ns) {
    enum { AHEAD = 6 }; /* extensions between the prefetch of a request and its use */

    for (uint32_t i = 0; i < count + 2 * AHEAD; i++) {
        struct request *request;
        if (i < count)
            keeper_handle_expect(&registry->handles, extensions[i].request);
        if (i >= AHEAD && i - AHEAD < count &&
            (request = keeper_handle_find(&registry->handles, extensions[i - AHEAD].request)))
            prefetch(request, sizeof(*request));
        if (i >= 2 * AHEAD &&
            (request = keeper_handle_find(&registry->handles, extensions[i - 2 * AHEAD].request)))
            extended(registry, request, extensions[i - 2 * AHEAD].deadline_ns, now_ns);
    }
}

/* Keeps the result of an attempt for this name. */
static void note_result(struct registry *registry, struct name_table_entry *name,
                        const struct report *report, instant_ns now_ns) {
    shared_string_unref(&registry->texts, name->seen);
    name->seen = shared_string_new(&registry->texts, report->text, report->text_length, NULL, 0);
    name->seen_failure = (uint8_t) (1 + report->failure);
    name->seen_own = report->own;
    name->seen_ns = now_ns;
}

static struct request_outcome failure_of(const struct report *report) {
    return (struct request_outcome){.kind = OUTCOME_FAILED,
                                    .error = rejection_word(report->failure),
                                    .text = report->text,
                                    .text_length = report->text_length,
                                    .trace = &report->trace};
}

static void contended(struct registry *registry, struct request *request, const struct report *report,
                      instant_ns now_ns) {
    const struct request_outcome failure = failure_of(report);
    struct name_table_entry *name = request->name;

    if (restore_is_searching(request))
        restore_search_failed(registry, request, &report->trace, now_ns);
    if (request->state != REQUEST_CONTENDING)
        return;
    request->tried = true;
    history_note_contended(registry, request, &failure, now_ns);
    if (!request->resume) {
        note_result(registry, name, report, now_ns);
        name->handoffs_max = HANDOFFS_MAX;
    }
    wait_queue_reject_overdue(registry, name, now_ns);
}

static void failed(struct registry *registry, struct request *request, const struct report *report,
                   instant_ns now_ns) {
    const struct request_outcome failure = failure_of(report);

    if (restore_is_searching(request)) {
        restore_not_found(registry, request, now_ns);
        return;
    }
    if (request->state != REQUEST_CONTENDING)
        return; /* RELEASED follows */
    if (request->restore == RESTORE_UNREPORTED) {
        wait_queue_wait_on(registry, request, now_ns);
        return;
    }
    /* The attempt also answers the requests behind it that do not wait. */
    bool answers_others =
        !request->resume && (report->failure == FAILURE_BUSY || report->failure == FAILURE_NO_QUORUM);
    if (answers_others)
        note_result(registry, request->name, report, now_ns);
    request_deliver(registry, request, &failure, now_ns);
    if (answers_others) {
        assert(request->try_once);
        wait_queue_reject_overdue(registry, request->name, now_ns);
    }
    wait_queue_leave(registry, request);
}

/* Before the deadline the keeper's reason counts; at the deadline an unread grant is the reason. The keeper
 * may have extended a lease at risk, and then have paused before it reported that, or have an outdated
 * max_hold: the client knows the risk alone. */
static enum reason reason_of_loss(const struct request *request, const struct report *report,
                                  instant_ns now_ns) {
    if (now_ns < request->deadline_ns)
        return report->reason;
    if (request->unread)
        return REASON_UNREAD;
    if (request->risk == 1 + REASON_NO_QUORUM &&
        (report->reason == REASON_PAUSED || report->reason == REASON_MAX_HOLD))
        return REASON_NO_QUORUM;
    return report->reason;
}

static void lost(struct registry *registry, struct request *request, const struct report *report,
                 instant_ns now_ns) {
    if (request->state != REQUEST_HELD) { /* RELEASED follows */
        if (registry->history)
            history_explain_loss(registry->history,
                                 registry_hash(registry, report->text, report->text_length),
                                 registry_id(registry, request), &report->trace);
        return;
    }
    if (request_is_leaving(request) && request->terms.linger_ms == 0)
        request_detach(registry, request); /* its client has released it by the end of its session */
    else if (request->unwanted)
        request_deliver_kind(registry, request, OUTCOME_RELEASED, now_ns);
    else
        request_deliver(registry, request,
                        &(struct request_outcome){.kind = OUTCOME_LOST,
                                                  .reason = reason_of_loss(request, report, now_ns),
                                                  .trace = &report->trace},
                        now_ns);
    if (report->reason == REASON_TAKEN)
        request->cooldown_until_ns = 0; /* the name is another's, or this lease's at another agent */
    history_note_cooling(registry, request, now_ns);
    wait_queue_leave(registry, request);
}

static void take_report(struct registry *registry, struct request *request, const struct report *report,
                        instant_ns now_ns) {
    switch (report->kind) {
    case REPORT_GRANTED:
        granted(registry, request, report, now_ns);
        break;
    case REPORT_FAILED:
        failed(registry, request, report, now_ns);
        break;
    case REPORT_CONTENDED:
        contended(registry, request, report, now_ns);
        break;
    case REPORT_EXTENDED:
        extended(registry, request, report->deadline_ns, now_ns);
        break;
    case REPORT_AT_RISK:
        if (!is_outdated(request, report))
            request_set_risk(registry, request, report->reason, &report->trace, now_ns);
        break;
    case REPORT_LOST:
        lost(registry, request, report, now_ns);
        break;
    case REPORT_RELEASED:
        if (request->state == REQUEST_CONTENDING)
            wait_queue_contend_again(registry, request, now_ns);
        if (request->state != REQUEST_RELEASING)
            break;
        request_deliver_kind(registry, request, OUTCOME_RELEASED, now_ns);
        request_free(registry, request);
        break;
    case REPORT_AWAITED:
    case REPORT_LEADER:
    case REPORT_NODE:
    case REPORT_FOREIGN:
        assert(false); /* not reports about requests */
        break;
    }
}

void registry_report(struct registry *registry, const struct report *report, instant_ns now_ns) {
    if (report->kind == REPORT_AWAITED) {
        handoff_awaited(&registry->names, report, now_ns);
        return;
    }
    struct request *request = keeper_handle_find(&registry->handles, report->request);

    if (!request)
        return;
    if (request->state == REQUEST_CONTENDING)
        admission_leave(registry, request);
    take_report(registry, request, report, now_ns);
    wait_queue_admit(registry);
}
