#include "local/recovery/restore.h"

#include <assert.h>
#include <string.h>

#include "base/generation.h"
#include "base/secret.h"
#include "local/history-note.h"
#include "local/request.h"
#include "local/wait-queue.h"

static void restore_secrets(struct registry *registry, struct request *request, const uint8_t *reported,
                            const uint8_t *acquired) {
    struct request_secrets *secrets = request_secrets(registry, request);

    memcpy(secrets->reported, reported, SECRET_BYTES);
    memcpy(secrets->acquired, acquired, SECRET_BYTES);
}

struct request *restore_request(struct registry *registry, struct session *session,
                                const struct registry_ask *ask, const struct restore_entry *entry) {
    uint32_t index = (uint32_t) (entry->id & (REQUESTS_MAX - 1));
    uint32_t generation = (uint32_t) (entry->id >> REQUEST_INDEX_BITS);

    if (generation == 0 || !pool_claim(&registry->requests, index))
        return NULL;
    struct shared_string *tail = shared_string_new(&registry->texts, ask->tail, ask->tail_length, NULL, 0);
    struct name_table_entry *name =
        tail ? name_table_get(&registry->names, ask->name, ask->name_length) : NULL;
    if (!name) {
        shared_string_unref(&registry->texts, tail);
        pool_give(&registry->requests, index);
        return NULL;
    }
    registry->generation = generation_latest(registry->generation, generation);
    struct request *request = request_new(registry, index, generation, session, ask, tail);
    request->name = name;
    request->restore = entry->state;
    request->unwanted = entry->unwanted;
    request->unread = entry->unread;
    request->abandoned = entry->abandoned;
    request->asked_ns = entry->asked_ns;
    request->wait_until_ns = entry->wait_until_ns;
    if (restore_state_is_held(entry->state)) {
        request->deadline_ns = entry->deadline_ns;
        request->read_until_ns = entry->read ? INSTANT_NEVER : 0; /* until start_held() */
        request->risk = entry->risk;
        request->page_slot = (int16_t) deadline_page_claim(request_page(request), entry->page_slot);
    }
    if (ask->resume) {
        request->tenure.handoffs = entry->handoffs;
        restore_secrets(registry, request, ask->resume, entry->acquired);
    }
    if (session)
        list_append(&admission_requester_of(session)->requests, &request->session_link);
    return request;
}

/* --- starting --- */

/* True if the configuration does not let the agent extend the lease any more, and the lease's risk is not
 * that of max_hold. */
static bool is_cut_short(const struct request *request) {
    return restore_state_is_left(request->restore) && !request->abandoned &&
           request->risk != 1 + REASON_MAX_HOLD;
}

const char *restore_loss_text(const struct request *request) {
    if (!is_cut_short(request))
        return NULL;
    return request->restore == RESTORE_MOVED
               ? "key_format has changed since the agent's restart"
               : "max_ttl is shorter than the lease's ttl since the agent's restart";
}

static void announce_loss(struct registry *registry, struct request *request, instant_ns now_ns) {
    bool known = request->risk == 1 + REASON_NO_QUORUM;
    const struct request_outcome outcome = {
        .kind = OUTCOME_AT_RISK, .reason = REASON_NO_QUORUM, .text = restore_loss_text(request)};

    request->risk = 1 + REASON_NO_QUORUM;
    if (!known)
        request_deliver(registry, request, &outcome, now_ns);
}

/* A client that has read its grant need not have read what came later. */
static void start_held(struct registry *registry, struct request *request, instant_ns now_ns) {
    bool has_read = request->read_until_ns == INSTANT_NEVER;

    list_prepend(&request->name->queue, &request->queue_link);
    request_enter(registry, request, REQUEST_HELD);
    if (!has_read && !restore_state_is_left(request->restore))
        request_await_reading(registry, request, now_ns);
    request_set_due(registry, request, instant_min(request->deadline_ns, request->read_until_ns));
    if (restore_is_searching(request)) {
        request->secrets->beat_ns = now_ns; /* no client can send heartbeats to an agent that is down */
        request_search(registry, request, request->secrets->reported);
    }
    if (!request->session && !request->unwanted && !request->abandoned)
        request_linger(registry, request, now_ns);
    if (is_cut_short(request))
        announce_loss(registry, request, now_ns);
}

/* The order of a name's queue after a restart: the held lease, then clients' RESUME, then grants that were
 * not reported, which may soon be waiting requests. */
static bool comes_before(const struct request *one, const struct request *other) {
    return one->state == REQUEST_HELD || (request_is_resume(one) && !request_is_resume(other));
}

static void put_in_place(struct request *request) {
    struct list *queue = &request->name->queue, *at = queue->next;

    while (at != queue && comes_before(list_entry(at, struct request, queue_link), request))
        at = at->next;
    list_append(at, &request->queue_link);
}

/* Waiting requests, in the order of their arrival. Slots are in any order, so the timer sorts the requests:
 * nothing is due yet. */
static void queue_waiting(struct registry *registry) {
    struct timer_queue *due = &registry->due;
    struct request *request;
    uint32_t slot;

    assert(timer_queue_earliest(due) == INSTANT_NEVER);
    for (slot = 0; (request = registry_next(registry, &slot));)
        if (!request->resume && !restore_state_is_held(request->restore))
            request_set_due(registry, request, request->asked_ns);
    while ((slot = timer_queue_first(due)) != TIMER_QUEUE_ABSENT) {
        request = pool_at(&registry->requests, slot);
        timer_queue_remove(due, slot);
        list_append(&request->name->queue, &request->queue_link);
    }
}

static void start_waiting(struct registry *registry, struct request *request, instant_ns now_ns) {
    request_begin_wait(registry, request, now_ns);
    if (request->resume) {
        put_in_place(request);
        request_resume(registry, request, request->secrets->reported);
        if (request->restore == RESTORE_UNREPORTED)
            request->cooldown_until_ns = 0; /* until it is found: withdrawn before, it leaves no cooldown */
    } else {
        request_enter(registry, request, REQUEST_QUEUED);
    }
}

/* Lets the first of each queue contend. */
static void contend(struct registry *registry) {
    const struct request *request;

    for (uint32_t slot = 0; (request = registry_next(registry, &slot));) {
        struct request *first = request->name ? wait_queue_first(request->name) : NULL;
        if (first && first->state == REQUEST_QUEUED)
            wait_queue_contend(registry, first);
    }
}

void restore_start(struct registry *registry, instant_ns now_ns) {
    struct request *request;

    registry->restoring = true; /* an unanswered request may be the first of its queue */
    queue_waiting(registry);
    for (uint32_t slot = 0; (request = registry_next(registry, &slot));) {
        assert(request->state == REQUEST_NEW);
        if (restore_state_is_held(request->restore))
            start_held(registry, request, now_ns);
        else
            start_waiting(registry, request, now_ns);
    }
}

/* --- the keeper's reports --- */

void restore_found(struct registry *registry, struct request *request, instant_ns deadline_ns,
                   instant_ns now_ns) {
    bool other_value = request->restore == RESTORE_ACQUIRED;

    request->restore = RESTORE_NONE;
    if (request->unwanted) {
        instant_ns answer_by_ns = request->session ? request->answer_by_ns : INSTANT_NEVER;
        wait_queue_hand_back(registry, request, COMMAND_RELEASE);
        request_set_due(registry, request, answer_by_ns);
        return;
    }
    request_set_deadline(registry, request, instant_max(request->deadline_ns, deadline_ns));
    history_note_event(registry, request, HISTORY_RESUMED, now_ns);
    if (request_is_lingering(request))
        request_beat_lingering(registry, request, now_ns);
    if (other_value)
        request_refresh_keys(registry, request); /* to the client's value */
    /* The end of max_hold is as near as before. */
    if (request->risk != 0 && request->risk != 1 + REASON_MAX_HOLD) {
        request->risk = 0;
        request_deliver_kind(registry, request, OUTCOME_EXTENDED, now_ns);
    }
}

void restore_search_failed(struct registry *registry, struct request *request,
                           const struct round_trace *trace, instant_ns now_ns) {
    if (!request->unwanted && request->risk != 1 + REASON_MAX_HOLD)
        request_set_risk(registry, request, REASON_NO_QUORUM, trace, now_ns);
}

/* Ends the request. A lease without keys has no cooldown. In RESTORE_SPLIT the name stays taken until the
 * deadline: the client may not have read the loss, and the keys may still exist. */
static void end_lost(struct registry *registry, struct request *request, instant_ns now_ns) {
    bool may_exist =
        request->restore == RESTORE_SPLIT && !request->unwanted && now_ns < request->deadline_ns;

    if (request->unwanted)
        request_deliver_kind(registry, request, OUTCOME_RELEASED, now_ns);
    else
        request_deliver(registry, request,
                        &(struct request_outcome){.kind = OUTCOME_LOST, .reason = REASON_NO_QUORUM}, now_ns);
    if (request->restore == RESTORE_VANISHED && !request->unwanted)
        request->cooldown_until_ns = 0;
    if (may_exist) {
        request_detach(registry, request);
        request->abandoned = true;
        request->restore = RESTORE_LEFT;
    } else {
        wait_queue_leave(registry, request);
    }
}

void restore_not_found(struct registry *registry, struct request *request, instant_ns now_ns) {
    const struct request_secrets *secrets = request->secrets;

    assert(restore_is_searching(request));
    if (request->restore == RESTORE_REPORTED &&
        !secret_equal(secrets->reported, secrets->acquired, SECRET_BYTES)) {
        request->restore = RESTORE_ACQUIRED;
        request_search(registry, request, secrets->acquired);
        return;
    }
    request->restore = request->restore == RESTORE_ACQUIRED ? RESTORE_SPLIT : RESTORE_VANISHED;
    if (!registry->restoring || request->unwanted)
        end_lost(registry, request, now_ns);
}

static bool is_not_found(const struct request *request) {
    return request->restore == RESTORE_VANISHED || request->restore == RESTORE_SPLIT;
}

/* --- calls of sessions --- */

static void await_found(struct registry *registry, struct request *request, instant_ns now_ns) {
    int64_t timeout_ns = (int64_t) request->terms.node_timeout_ms * NS_PER_MS;

    if (!request->session)
        return;
    request->answer_by_ns = instant_add(now_ns, timeout_ns);
    request_set_due(registry, request, instant_min(request->answer_by_ns, request->deadline_ns));
}

/* The keeper does not know an abandoned lease: it searches for the keys again, to delete them. A new handle,
 * since reports about the former search may be under way. A search sets the lease's ttl, so keys of a ttl
 * that is not allowed any more are left alone. */
static bool search_to_delete(struct registry *registry, struct request *request, instant_ns now_ns) {
    if (request->restore != RESTORE_LEFT || !request->abandoned ||
        request->terms.ttl_ms > registry->searched_ttl_ms_max || !request->secrets || !request->tail ||
        now_ns >= request->deadline_ns)
        return false;
    keeper_handle_give(&registry->handles, request->handle_slot);
    request->handle_slot = 0;
    request->restore = RESTORE_REPORTED;
    request_search(registry, request, request->secrets->reported);
    return true;
}

void restore_release(struct registry *registry, struct request *request, instant_ns now_ns) {
    request_leave_page(request);
    request->unwanted = true;
    if (restore_is_searching(request) || search_to_delete(registry, request, now_ns)) {
        await_found(registry, request, now_ns);
    } else if (restore_state_is_left(request->restore)) {
        request_deliver_kind(registry, request, OUTCOME_RELEASED, now_ns);
        wait_queue_leave(registry, request);
    } else {
        end_lost(registry, request, now_ns);
    }
}

void restore_answer_release(struct registry *registry, struct request *request, instant_ns now_ns) {
    request_deliver_kind(registry, request, OUTCOME_RELEASED, now_ns);
    request_detach(registry, request);
    request_set_due(registry, request,
                    request->state == REQUEST_HELD ? request->deadline_ns : INSTANT_NEVER);
}

bool restore_may_be_resumed(const struct request *request) {
    return request->state == REQUEST_HELD && !request->unwanted && request->restore != RESTORE_NONE &&
           !request->session && !request_is_lingering(request);
}

void restore_end_left(struct registry *registry, const struct request *resumed) {
    list_for_each_safe(node, &resumed->name->queue) {
        struct request *other = list_entry(node, struct request, queue_link);
        if (other->state == REQUEST_QUEUED)
            break; /* held ones come first, and there may be many others */
        if (other == resumed || !restore_may_be_resumed(other))
            continue;
        other->cooldown_until_ns = 0; /* the resumed lease has it */
        wait_queue_hand_back(registry, other, COMMAND_FORGET);
    }
}

void restore_abandon(struct request *request) {
    if (restore_is_searching(request))
        request->restore = RESTORE_LEFT;
}

void restore_end(struct registry *registry, instant_ns now_ns) {
    struct request *request;

    registry->restoring = false;
    contend(registry);
    for (uint32_t slot = 0; (request = registry_next(registry, &slot));) {
        if (is_not_found(request))
            end_lost(registry, request, now_ns);
        else if (request->try_once && request->state == REQUEST_QUEUED && wait_queue_is_taken(request->name))
            wait_queue_reject_overdue(registry, request->name, now_ns);
    }
}
