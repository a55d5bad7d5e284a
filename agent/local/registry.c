#include "local/registry.h"

#include <assert.h>
#include <string.h>

#include "base/prefetch.h"
#include "local/wait-queue.h"
#include "local/rejection.h"
#include "local/request.h"
#include "local/recovery/restore.h"

uint64_t registry_hash(const struct registry *registry, const char *name, size_t length) {
    return name_table_hash(&registry->names, name, length);
}

const struct request *registry_holder(const struct registry *registry, uint64_t name_hash) {
    const struct name_table_entry *name = name_table_find_hash(&registry->names, name_hash);

    return name ? wait_queue_holder(name) : NULL;
}

/* --- the sessions' requests --- */

bool registry_may_ask(struct registry *registry, struct session *session, uid_t uid) {
    return admission_may_ask(registry, admission_requester_of(session), uid);
}

struct request *registry_ask(struct registry *registry, struct session *session,
                             const struct registry_ask *ask, instant_ns now_ns) {
    if (registry->requests.taken >= registry->limit)
        return NULL;
    struct shared_string *tail = shared_string_new(&registry->texts, ask->tail, ask->tail_length, NULL, 0);
    if (!tail)
        return NULL;
    uint32_t generation, index = registry_slot_take(registry, now_ns, &generation);
    assert(index != POOL_NONE);
    struct request *request = request_new(registry, index, generation, session, ask, tail);
    request->asked_ns = now_ns;
    if (ask->wait_ms > 0)
        request->wait_until_ns = instant_add(now_ns, ask->wait_ms * NS_PER_MS);
    list_append(&admission_requester_of(session)->requests, &request->session_link);
    return request;
}

/* A RESUME fails if a session of this host has the lease, or another one in its place, or resumes with the
 * same token. */
static void start_resume(struct registry *registry, struct request *request,
                         const uint8_t secret[SECRET_BYTES], instant_ns now_ns) {
    struct name_table_entry *name = request->name;
    const char *error = NULL, *text = NULL;

    list_for_each_safe(node, &name->queue) {
        const struct request *other = list_entry(node, struct request, queue_link);
        if (other->state == REQUEST_HELD && other->unwanted) {
            error = "NOTHELD";
            text = "it was released or lost at this agent";
        } else if (other->state == REQUEST_HELD && other->restore != RESTORE_NONE && !other->session &&
                   !request_is_lingering(other)) {
            continue; /* may be the lease in question */
        } else if (other->state == REQUEST_HELD) {
            error = "NOTHELD";
            text = "another session of this agent holds the name";
        } else if (request_is_resume(other) && !error) {
            error = "BUSY";
            text = "another session is resuming it at this moment";
        }
    }
    if (error) {
        list_append(&name->queue, &request->queue_link);
        request_deliver_failed(registry, request, error, text, now_ns);
        wait_queue_leave(registry, request);
        return;
    }
    list_prepend(&name->queue, &request->queue_link);
    request_set_wait_due(registry, request, now_ns);
    request_resume(registry, request, secret);
}

bool registry_start(struct registry *registry, struct request *request, const struct registry_ask *ask,
                    instant_ns now_ns) {
    assert(request->state == REQUEST_NEW);

    struct name_table_entry *name = name_table_get(&registry->names, ask->name, ask->name_length);
    if (!name) {
        request_free(registry, request);
        return false;
    }
    struct request *first = wait_queue_first(name);
    request->name = name;
    if (ask->resume) {
        start_resume(registry, request, ask->resume, now_ns);
        return true;
    }
    wait_queue_insert(request); /* it may have asked earlier: a former process left it unanswered */
    request_set_wait_due(registry, request, now_ns);
    if (!first || (first->held_back && request == wait_queue_first(name))) {
        if (first)
            admission_leave(registry, first);
        wait_queue_contend(registry, request);
        return true;
    }
    request_enter(registry, request, REQUEST_QUEUED);
    if (request->overdue && wait_queue_knows(request))
        wait_queue_reject(registry, request, now_ns);
    return true;
}

/* Hands the lease off to the next request of the queue. False: it must be released. */
static bool hand_off(struct registry *registry, struct request *holder, instant_ns now_ns) {
    struct name_table_entry *name = holder->name;
    struct list *second = holder->queue_link.next;
    struct request *next = second != &name->queue ? list_entry(second, struct request, queue_link) : NULL;

    if (!handoff_is_fine(holder, next, registry->ledger != NULL, now_ns)) {
        name->pause_ns = (int32_t) handoff_pause_ns(holder, now_ns);
        name->handoffs_max = handoff_next_max(holder, now_ns);
        return false;
    }
    admission_leave(registry, next);
    request_leave_page(holder); /* first: two slots never show the lease at once */
    list_unlink(&holder->queue_link);
    holder->name = NULL;
    handoff_move(holder, next, now_ns);
    request_drop_secrets(registry, next); /* restored, and its grant was not found */
    next->secrets = holder->secrets;
    holder->secrets = NULL;
    registry->sink.secret(registry->sink.userdata, next->secrets->reported);
    keeper_handle_give(&registry->handles, next->handle_slot); /* the same */
    next->handle_slot = holder->handle_slot;
    holder->handle_slot = 0;
    keeper_handle_move(&registry->handles, next->handle_slot, next);
    registry->handoffs++;
    request_enter(registry, next, REQUEST_HELD);
    request_await_reading(registry, next, now_ns);
    next->page_slot = (int16_t) deadline_page_take(request_page(next));
    request_set_deadline(registry, next, next->deadline_ns);
    if (next->terms.heartbeat_ms > 0)
        request_beat(registry, next, now_ns);
    const struct request_outcome outcome = {.kind = OUTCOME_GRANTED,
                                            .text = (const char *) next->secrets->reported,
                                            .text_length = SECRET_BYTES};
    request_deliver(registry, next, &outcome, now_ns);
    request_deliver_kind(registry, holder, OUTCOME_RELEASED, now_ns);
    request_free(registry, holder);
    return true;
}

void registry_release(struct registry *registry, struct request *request, instant_ns now_ns) {
    switch ((enum request_state) request->state) {
    case REQUEST_QUEUED:
        request_deliver_kind(registry, request, OUTCOME_RELEASED, now_ns);
        wait_queue_leave(registry, request);
        break;
    case REQUEST_HELD:
        if (request->restore != RESTORE_NONE)
            restore_release(registry, request, now_ns);
        else if (!hand_off(registry, request, now_ns))
            wait_queue_hand_back(registry, request, COMMAND_RELEASE);
        break;
    case REQUEST_CONTENDING:
        wait_queue_hand_back(registry, request, COMMAND_RELEASE);
        break;
    case REQUEST_RELEASING:
        break;
    case REQUEST_NEW:
    case REQUEST_FREE:
        assert(false);
        break;
    }
}

void registry_drop(struct registry *registry, struct request *request, instant_ns now_ns) {
    request_detach(registry, request);
    if (request->state == REQUEST_HELD && request->terms.linger_ms > 0)
        request_linger(registry, request, now_ns);
    else if (request->state == REQUEST_CONTENDING)
        wait_queue_withdraw(registry, request);
    else
        registry_release(registry, request, now_ns);
}

bool registry_abandon(struct registry *registry, struct request *request, instant_ns now_ns) {
    if (request->state != REQUEST_HELD) {
        registry_drop(registry, request, now_ns);
        return false;
    }
    request->abandoned = true;
    request_command_simple(registry, request, request->name->hash,
                           request->restore != RESTORE_NONE ? COMMAND_FORGET : COMMAND_ABANDON);
    restore_abandon(request);
    return true;
}

void registry_beat(struct registry *registry, struct request *request) {
    if (request->state == REQUEST_HELD && request->terms.heartbeat_ms > 0)
        request_beat(registry, request, 0);
}

/* --- the keeper's reports --- */

/* Keeps the random part in the keys to the agent. Returns another one for the holder (handoff.h). */
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
        name->seen_ns = now_ns; /* another host held it until now, and was reported only once */
    name->seen_failure = 0;
    name->seen = shared_string_unref(&registry->texts, name->seen);
}

static void granted(struct registry *registry, struct request *request, const struct report *report,
                    instant_ns now_ns) {
    instant_ns deadline_ns = report->deadline_ns;
    struct request_outcome outcome = {
        .kind = OUTCOME_GRANTED, .text = report->text, .text_length = report->text_length};

    if (restore_is_searching(request) && now_ns < deadline_ns) {
        restore_found(registry, request, deadline_ns, now_ns);
        return;
    }
    if (request->state != REQUEST_CONTENDING)
        return; /* withdrawn: its release is under way */
    if (now_ns >= deadline_ns) {
        request_deliver_failed(registry, request, "NOQUORUM",
                               "the grant came too late: the agent was stopped or starved", now_ns);
        request_detach(registry, request);
        wait_queue_withdraw(registry, request);
        return;
    }
    request_enter(registry, request, REQUEST_HELD);
    request_note_holder(registry, request->name);
    request->restore = RESTORE_NONE;
    request->token = report->token;
    request->cooldown_until_ns = report->cooldown_until_ns;
    request->tenure = (struct handoff_tenure){.acquired_ns = now_ns,
                                              .secret = request->from_queue && registry->sink.secret &&
                                                        request->cooldown_until_ns == 0};
    request->name->token_last = report->token_last;
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
    if (request->risk != 0 && !request->unread) {
        request->risk = 0;
        request_deliver_kind(registry, request, OUTCOME_EXTENDED, now_ns);
    }
}

void registry_extended(struct registry *registry, const struct extension *extensions, uint32_t count,
                       instant_ns now_ns) {
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

static void at_risk(struct registry *registry, struct request *request, enum reason reason,
                    instant_ns now_ns) {
    if (request->state != REQUEST_HELD)
        return;
    request->risk = (uint8_t) (1 + reason);
    request_deliver(registry, request, &(struct request_outcome){.kind = OUTCOME_AT_RISK, .reason = reason},
                    now_ns);
}

/* Keeps the result of an attempt for this name. */
static void note_result(struct registry *registry, struct name_table_entry *name,
                        const struct report *report, instant_ns now_ns) {
    shared_string_unref(&registry->texts, name->seen);
    name->seen = shared_string_new(&registry->texts, report->text, report->text_length, NULL, 0);
    name->seen_failure = (uint8_t) (1 + report->failure);
    name->seen_ns = now_ns;
}

static void contended(struct registry *registry, struct request *request, const struct report *report,
                      instant_ns now_ns) {
    struct name_table_entry *name = request->name;

    if (request->state != REQUEST_CONTENDING)
        return;
    request->tried = true;
    if (!request->resume) {
        note_result(registry, name, report, now_ns);
        name->handoffs_max = HANDOFFS_MAX;
    }
    wait_queue_reject_overdue(registry, name, now_ns);
}

static void failed(struct registry *registry, struct request *request, const struct report *report,
                   instant_ns now_ns) {
    if (restore_is_searching(request)) {
        restore_not_found(registry, request, now_ns);
        return;
    }
    if (request->state != REQUEST_CONTENDING)
        return; /* RELEASED follows */
    if (request->restore == RESTORE_UNREPORTED) {
        restore_not_granted(registry, request, now_ns);
        return;
    }
    request_deliver(registry, request,
                    &(struct request_outcome){.kind = OUTCOME_FAILED,
                                              .error = rejection_word(report->failure),
                                              .text = report->text,
                                              .text_length = report->text_length},
                    now_ns);
    /* The attempt also answers the requests behind it that do not wait. */
    if (!request->resume && (report->failure == FAILURE_BUSY || report->failure == FAILURE_NO_QUORUM)) {
        assert(request->try_once);
        note_result(registry, request->name, report, now_ns);
        wait_queue_reject_overdue(registry, request->name, now_ns);
    }
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
        at_risk(registry, request, report->reason, now_ns);
        break;
    case REPORT_LOST:
        if (request->state != REQUEST_HELD)
            break; /* RELEASED follows */
        request_deliver(
            registry, request,
            &(struct request_outcome){.kind = OUTCOME_LOST,
                                      .reason = request->unread ? REASON_UNREAD : report->reason},
            now_ns);
        if (report->reason == REASON_TAKEN)
            request->cooldown_until_ns = 0; /* the name is another's, or this lease's at another agent */
        wait_queue_leave(registry, request);
        break;
    case REPORT_RELEASED:
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

/* --- time --- */

static void wait_ended(struct registry *registry, struct request *request, instant_ns now_ns) {
    instant_ns latest_ns =
        instant_add(request->wait_until_ns, (int64_t) request->terms.node_timeout_ms * NS_PER_MS);

    if (request->overdue || now_ns >= latest_ns || wait_queue_knows(request)) {
        wait_queue_reject(registry, request, now_ns);
        return;
    }
    request->overdue = true;
    request_set_due(registry, request, latest_ns);
}

/* The keeper reports the same at this time; the order does not matter. */
static void deadline_passed(struct registry *registry, struct request *request, instant_ns now_ns) {
    enum reason reason = REASON_PAUSED;

    if (request->unread)
        reason = REASON_UNREAD;
    else if (request->abandoned)
        reason = REASON_CLOSED;
    else if (request->risk != 0)
        reason = (enum reason)(request->risk - 1);
    if (request->unwanted)
        request_deliver_kind(registry, request, OUTCOME_RELEASED, now_ns);
    else
        request_deliver(registry, request, &(struct request_outcome){.kind = OUTCOME_LOST, .reason = reason},
                        now_ns);
    request_detach(registry, request);
    wait_queue_hand_back(registry, request,
                         request->restore != RESTORE_NONE ? COMMAND_FORGET : COMMAND_RELEASE);
}

static void stop_lingering(struct registry *registry, struct request *request, instant_ns now_ns) {
    request->linger_until_ns = INSTANT_NEVER;
    request_set_due(registry, request, request->deadline_ns);
    registry_release(registry, request, now_ns);
}

/* The client should have read the grant by now. */
static void reading_ended(struct registry *registry, struct request *request, instant_ns now_ns) {
    request->read_until_ns = INSTANT_NEVER;
    if (request->abandoned || registry->sink.has_read(registry->sink.userdata, request)) {
        request_set_held_due_after(registry, request, now_ns);
        return;
    }
    request->unread = true;
    (void) registry_abandon(registry, request, now_ns);
    at_risk(registry, request, REASON_UNREAD, now_ns);
    request_set_held_due_after(registry, request, now_ns);
}

/* Prefetches a request that is due at the same instant, two further on. */
static void expect_neighbours(const struct registry *registry, uint32_t item) {
    uint32_t third = timer_queue_neighbour(&registry->due, timer_queue_neighbour(&registry->due, item));

    prefetch(pool_at(&registry->requests, third), sizeof(struct request));
}

void registry_tick(struct registry *registry, instant_ns now_ns) {
    while (timer_queue_earliest(&registry->due) <= now_ns) {
        uint32_t item = timer_queue_first(&registry->due);
        struct request *request = pool_at(&registry->requests, item);
        expect_neighbours(registry, item);
        if (request->state == REQUEST_HELD && now_ns >= request->deadline_ns)
            deadline_passed(registry, request, now_ns);
        else if (request_is_lingering(request) && now_ns >= request->linger_until_ns)
            stop_lingering(registry, request, now_ns);
        else if (request->state == REQUEST_HELD && request->session && now_ns >= request->read_until_ns)
            reading_ended(registry, request, now_ns);
        else if (request->state == REQUEST_HELD && now_ns >= handoff_refresh_ns(request))
            request_refresh_keys(registry, request);
        else if (request->state == REQUEST_HELD)
            request_set_held_due_after(registry, request, now_ns); /* extended since, or near its deadline */
        else
            wait_ended(registry, request, now_ns);
    }
}
