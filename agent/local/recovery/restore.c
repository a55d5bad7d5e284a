#include "local/recovery/restore.h"

#include <assert.h>
#include <string.h>

#include "base/generation.h"
#include "local/wait-queue.h"
#include "local/request.h"

struct request *restore_request(struct registry *registry, struct session *session,
                                const struct registry_ask *ask, const struct restore_entry *past) {
    uint32_t index = (uint32_t) (past->id & (REQUESTS_MAX - 1));
    uint32_t generation = (uint32_t) (past->id >> REQUEST_INDEX_BITS);

    if (generation == 0 || !pool_claim(&registry->requests, index))
        return NULL;
    struct shared_string *tail = shared_string_new(&registry->texts, ask->tail, ask->tail_length, NULL, 0);
    if (!tail) {
        pool_give(&registry->requests, index);
        return NULL;
    }
    registry->generation = generation_latest(registry->generation, generation);
    struct request *request = request_new(registry, index, generation, session, ask, tail);
    request->restored = past->held || past->untold;
    request->unwanted = past->unwanted;
    request->abandoned = past->forsaken;
    request->asked_ns = past->asked_ns;
    request->wait_until_ns = past->wait_until_ns;
    if (past->held) {
        request->deadline_ns = past->deadline_ns;
        request->risk = past->risk;
        request->page_slot = (int16_t) deadline_page_claim(request->page, past->page_slot);
    }
    if (ask->resume && past->standing) {
        request->tenure.handoffs = past->handoffs;
        struct request_secrets *secrets = request_secrets(registry, request);
        memcpy(secrets->told, ask->resume, SECRET_BYTES);
        memcpy(secrets->standing, past->standing, SECRET_BYTES);
        request->vanished = past->handed;
        request->alternate =
            past->held && !past->handed && memcmp(past->standing, ask->resume, SECRET_BYTES) != 0;
    }
    if (session)
        list_append(&((struct admission_requester *) (void *) session)->requests, &request->session_link);
    return request;
}

/* Its client goes on, and so does its deadline. */
static void restart_held(struct registry *registry, struct request *request) {
    list_prepend(&request->name->queue, &request->queue_link);
    request_enter(registry, request, REQUEST_HELD);
    request_set_due(registry, request, instant_min(request->deadline_ns, request->read_until_ns));
    if (request->abandoned)
        return; /* nothing is asked of the nodes: only nobody else gets it before */
    if (!request->vanished)
        request_look_for(registry, request, request->secrets->told);
}

static void put_behind_held(struct request *request) {
    struct list *queue = &request->name->queue, *at = queue->next;

    while (at != queue && list_entry(at, struct request, queue_link)->state == REQUEST_HELD)
        at = at->next;
    list_append(at, &request->queue_link);
}

bool restore_queue(struct registry *registry, struct request *request, const struct registry_ask *ask,
                   const struct restore_entry *past, instant_ns now_ns) {
    assert(request->state == REQUEST_NEW);

    request->name = name_table_get(&registry->names, ask->name, ask->name_length);
    if (!request->name) {
        request_free(registry, request);
        return false;
    }
    if (past->held) {
        request_await_reader(registry, request, now_ns);
        restart_held(registry, request);
        if (past->lingers)
            request_linger(registry, request, now_ns);
        return true;
    }
    request_set_wait_due(registry, request, now_ns);
    if (ask->resume) {
        put_behind_held(request);
        request_resume(registry, request, ask->resume);
    } else {
        wait_queue_put_in_order(request);
        request_enter(registry, request, REQUEST_QUEUED);
    }
    return true;
}

/* Who tries once does so when the nodes have had the time to connect. */
static void contend_again(struct registry *registry, bool impatient_too) {
    const struct request *request;

    for (uint32_t slot = 0; (request = registry_next(registry, &slot));) {
        struct request *first = request->name ? wait_queue_first(request->name) : NULL;
        if (first && first->state == REQUEST_QUEUED && (impatient_too || !first->try_once))
            wait_queue_contend(registry, first);
    }
}

void restore_contend(struct registry *registry) {
    registry->restoring = true;
    contend_again(registry, false);
}

void restore_found(struct registry *registry, struct request *request, instant_ns deadline_ns,
                   instant_ns now_ns) {
    request->restored = false;
    if (request->unwanted) {
        wait_queue_hand_back(registry, request, COMMAND_RELEASE);
        return;
    }
    request_set_deadline(registry, request, instant_max(request->deadline_ns, deadline_ns));
    if (request->linger_until_ns != INSTANT_NEVER)
        request_beat_lingering(registry, request, now_ns);
    if (request->refresh)
        request_tell_holder(registry, request);
    if (request->risk != 0) {
        request->risk = 0;
        request_tell_kind(registry, request, OUTCOME_EXTENDED, now_ns);
    }
}

void restore_not_found(struct registry *registry, struct request *request, instant_ns now_ns) {
    if (request->alternate) {
        request->alternate = false;
        request->refresh = true;
        request_look_for(registry, request, request->secrets->standing);
        return;
    }
    request->vanished = true;
    if (registry->restoring && !request->unwanted)
        return;
    if (request->unwanted)
        request_tell_kind(registry, request, OUTCOME_RELEASED, now_ns);
    else
        request_tell(registry, request,
                     &(struct request_outcome){.kind = OUTCOME_LOST, .reason = REASON_NO_QUORUM}, now_ns);
    if (request->refresh && !request->unwanted && now_ns < request->deadline_ns) {
        /* Both values together may have a majority, and who was told may not have read it. */
        request_silence(registry, request);
        request->abandoned = true;
        request->vanished = false;
        return;
    }
    wait_queue_leave(registry, request);
}

void restore_release(struct registry *registry, struct request *request, instant_ns now_ns) {
    request_leave_page(request);
    request->unwanted = true;
    if (request->abandoned) { /* nobody looks for it */
        request_tell_kind(registry, request, OUTCOME_RELEASED, now_ns);
        wait_queue_leave(registry, request);
    } else if (request->vanished) {
        restore_not_found(registry, request, now_ns);
    }
}

void restore_not_granted(struct registry *registry, struct request *request, instant_ns now_ns) {
    request->restored = request->resume = false;
    if (request == wait_queue_first(request->name)) {
        wait_queue_contend(registry, request);
        return;
    }
    request_enter(registry, request, REQUEST_QUEUED);
    if (wait_queue_is_taken(request->name))
        wait_queue_turn_away_overdue(registry, request->name, now_ns);
}

void restore_end(struct registry *registry, instant_ns now_ns) {
    struct request *request;

    registry->restoring = false;
    contend_again(registry, true);
    for (uint32_t slot = 0; (request = registry_next(registry, &slot));) {
        if (request->vanished)
            restore_not_found(registry, request, now_ns);
        else if (request->try_once && request->state == REQUEST_QUEUED && wait_queue_is_taken(request->name))
            wait_queue_turn_away_overdue(registry, request->name, now_ns);
    }
}
