#include "local/registry.h"

#include <assert.h>
#include <string.h>

#include "base/prefetch.h"
#include "local/history-note.h"
#include "local/wait-queue.h"
#include "local/request.h"
#include "local/recovery/restore.h"

uint64_t registry_hash(const struct registry *registry, const char *name, size_t length) {
    return name_table_hash(&registry->names, name, length);
}

const struct request *registry_holder(const struct registry *registry, uint64_t name_hash) {
    const struct name_table_entry *name = hash_table_find_hash(&registry->names.table, name_hash);

    return name ? wait_queue_holder(name) : NULL;
}

bool registry_is_wanted(const struct registry *registry, const char *name, size_t length) {
    return name_table_find(&registry->names, name, length) != NULL;
}

/* --- the sessions' requests --- */

bool registry_is_full(const struct registry *registry) {
    return registry->requests.taken >= registry->limit;
}

/* Requests that came with one receive have one `now_ns`. After a restart their queue is put in order by
 * these times. (A request that a former process left unanswered keeps its time.) */
static instant_ns next_arrival(struct registry *registry, instant_ns now_ns) {
    if (now_ns >= registry->asked_from_ns && now_ns <= registry->asked_ns)
        return ++registry->asked_ns;
    return registry->asked_from_ns = registry->asked_ns = now_ns;
}

struct request *registry_ask(struct registry *registry, struct session *session,
                             const struct registry_ask *ask, instant_ns now_ns) {
    bool is_exempt = ask->accepted || (ask->resume && registry_has_left_lease(registry, ask->uid, ask->name,
                                                                              ask->name_length));

    if ((registry_is_full(registry) && !is_exempt) || registry->requests.taken == registry->requests_max)
        return NULL;
    struct shared_string *tail = shared_string_new(&registry->texts, ask->tail, ask->tail_length, NULL, 0);
    struct name_table_entry *name =
        tail ? name_table_get(&registry->names, ask->name, ask->name_length) : NULL;
    if (!name) {
        shared_string_unref(&registry->texts, tail);
        return NULL;
    }
    uint32_t generation, index = registry_slot_take(registry, now_ns, &generation);
    assert(index != POOL_NONE);
    struct request *request = request_new(registry, index, generation, session, ask, tail);
    request->name = name;
    request->asked_ns = next_arrival(registry, now_ns);
    if (ask->wait_ms > 0)
        request->wait_until_ns = instant_add(now_ns, ask->wait_ms * NS_PER_MS);
    list_append(&admission_requester_of(session)->requests, &request->session_link);
    return request;
}

void registry_set_rules(struct registry *registry, const struct policy_rule *rules,
                        const uint8_t numbers[RULES_MAX + 1]) {
    struct request *request;
    uint32_t slot = 0;

    quota_set_rules(&registry->quota, rules);
    while ((request = registry_next(registry, &slot))) {
        request->rule = numbers[request->rule];
        request_count(registry, request, 1);
    }
}

uint32_t registry_count_longer(const struct registry *registry, int64_t ttl_ms) {
    const struct request *request;
    uint32_t longer = 0;

    for (uint32_t slot = 0; (request = registry_next(registry, &slot));)
        longer += request->name && request->terms.ttl_ms > ttl_ms;
    return longer;
}

bool registry_has_left_lease(const struct registry *registry, uid_t uid, const char *name, size_t length) {
    const struct name_table_entry *entry = name_table_find(&registry->names, name, length);

    for (const struct list *at = entry ? entry->queue.next : NULL; at && at != &entry->queue;
         at = at->next) {
        const struct request *request = list_entry(at, const struct request, queue_link);
        if (request->state == REQUEST_QUEUED)
            return false; /* held ones come first, and there may be many others */
        if (request->uid == uid && restore_may_be_resumed(request))
            return true;
    }
    return false;
}

/* A RESUME fails if a session of this host has the lease, or another one in its place, or one of its user
 * resumes with the same token. Another user's cannot succeed, and must not be in the way: two at a time, but
 * no third one before both have ended, since queued requests wait for that. All of these are before the
 * queued requests, of which there may be many. */
static void start_resume(struct registry *registry, struct request *request,
                         const uint8_t secret[SECRET_BYTES], instant_ns now_ns) {
    struct name_table_entry *name = request->name;
    const char *error = NULL, *text = NULL;
    bool beside_others = false;

    list_for_each_safe(node, &name->queue) {
        const struct request *other = list_entry(node, struct request, queue_link);
        if (other->state == REQUEST_QUEUED)
            break;
        if (other->state == REQUEST_HELD && other->unwanted) {
            error = "NOTHELD";
            text = "the lease was released or lost at this agent";
        } else if (restore_may_be_resumed(other)) {
            continue; /* may be the lease in question */
        } else if (other->state == REQUEST_HELD) {
            error = "NOTHELD";
            text = "another session of this agent holds the name";
        } else if (request_is_resume(other)) {
            beside_others = true;
            if (!error && (other->uid == request->uid || name->resumed_twice)) {
                error = "BUSY";
                text = "another session is resuming the lease at this moment";
            }
        }
    }
    if (error) {
        list_append(&name->queue, &request->queue_link);
        request_deliver_failed(registry, request, error, text, now_ns);
        wait_queue_leave(registry, request);
        return;
    }
    name->resumed_twice = beside_others;
    list_prepend(&name->queue, &request->queue_link);
    request_begin_wait(registry, request, now_ns);
    if (registry->restoring || admission_ask(registry, request)) {
        request_resume(registry, request, secret);
        return;
    }
    memcpy(request_secrets(registry, request)->reported, secret, SECRET_BYTES);
    request_enter(registry, request, REQUEST_CONTENDING); /* wait_queue_admit() goes on */
}

void registry_start(struct registry *registry, struct request *request, const struct registry_ask *ask,
                    instant_ns now_ns) {
    struct name_table_entry *name = request->name;
    struct request *first = wait_queue_first(name);

    assert(request->state == REQUEST_NEW);
    if (ask->resume) {
        start_resume(registry, request, ask->resume, now_ns);
        return;
    }
    wait_queue_insert(
        request); /* not at the end: a request that a former process left unanswered is older */
    history_note_asked(registry, request, ask->wait_ms, now_ns);
    bool had_overdue = name->overdue;
    request_begin_wait(registry, request, now_ns);
    /* The first may be held back or refused: then it is queued, and the older request contends instead. */
    if (!first || (first->state == REQUEST_QUEUED && request == wait_queue_first(name))) {
        if (first)
            admission_leave(registry, first);
        wait_queue_contend(registry, request);
        return;
    }
    request_enter(registry, request, REQUEST_QUEUED);
    if (request->overdue && wait_queue_knows(request)) {
        wait_queue_reject(registry, request, now_ns);
        name->overdue = had_overdue; /* else the next result would search the whole queue for it */
    }
}

/* Their leases count for the same limit. */
static bool same_use(const struct request *one, const struct request *other) {
    return one->account == other->account && one->rule == other->rule;
}

/* Hands the lease off to the next request of the queue. False: it must be released. */
static bool hand_off(struct registry *registry, struct request *holder, instant_ns now_ns) {
    struct name_table_entry *name = holder->name;
    struct list *second = holder->queue_link.next;
    struct request *next = second != &name->queue ? list_entry(second, struct request, queue_link) : NULL;

    if (!next || !handoff_is_fine(holder, next, registry->ledger != NULL, now_ns) ||
        !(wait_queue_has_room(registry, next) || same_use(holder, next))) {
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
    histogram_note(&registry->waits, now_ns - next->asked_ns);
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

static void note_release(struct registry *registry, const struct request *request, instant_ns now_ns) {
    if (request->unwanted)
        return; /* noted before */
    history_note_event(registry, request, HISTORY_RELEASED, now_ns);
    history_note_cooling(registry, request, now_ns);
}

void registry_release(struct registry *registry, struct request *request, instant_ns now_ns) {
    switch ((enum request_state) request->state) {
    case REQUEST_QUEUED:
        history_note_event(registry, request, HISTORY_WITHDRAWN, now_ns);
        request_deliver_kind(registry, request, OUTCOME_RELEASED, now_ns);
        wait_queue_leave(registry, request);
        break;
    case REQUEST_HELD:
        note_release(registry, request, now_ns);
        if (request->restore != RESTORE_NONE)
            restore_release(registry, request, now_ns);
        else if (!hand_off(registry, request, now_ns))
            wait_queue_hand_back(registry, request, COMMAND_RELEASE);
        break;
    case REQUEST_CONTENDING:
        history_note_event(registry, request, HISTORY_WITHDRAWN, now_ns);
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
    if (request->state == REQUEST_HELD && request->terms.linger_ms > 0 && !request->unwanted) {
        history_note_event(registry, request, HISTORY_LINGERING, now_ns);
        request_linger(registry, request, now_ns);
    } else if (request->state == REQUEST_CONTENDING) {
        history_note_event(registry, request, HISTORY_WITHDRAWN, now_ns);
        wait_queue_withdraw(registry, request);
    } else if (request->state == REQUEST_RELEASING) {
        request_set_due(registry, request, INSTANT_NEVER); /* no client waits for the reply to its RELEASE */
    } else {
        registry_release(registry, request, now_ns);
    }
}

/* True for a request that is dropped without waiting for a tick: a client may be about to resume its lease
 * in another session, or the request has left its queue. */
static bool leaves_at_once(const struct request *request) {
    return request->restore != RESTORE_NONE || request->state == REQUEST_RELEASING ||
           (request->state == REQUEST_CONTENDING && request->resume);
}

void registry_drop_in_turn(struct registry *registry, struct request *request, unsigned *room,
                           instant_ns now_ns) {
    if (*room > 0 || leaves_at_once(request)) {
        *room -= *room > 0;
        registry_drop(registry, request, now_ns);
        return;
    }
    request_detach(registry, request);
    if (request->state == REQUEST_HELD) /* others may wait for the name */
        list_prepend(&registry->leaving, &request->session_link);
    else
        list_append(&registry->leaving, &request->session_link);
}

static bool drop_leaving(struct registry *registry, instant_ns now_ns) {
    struct list *link = list_first(&registry->leaving);

    if (link)
        registry_drop(registry, list_entry(link, struct request, session_link), now_ns);
    return link;
}

void registry_drop_leaving(struct registry *registry, instant_ns now_ns) {
    while (drop_leaving(registry, now_ns)) {
    }
}

void registry_drop_leaving_first(struct registry *registry, const char *name, size_t length,
                                 instant_ns now_ns) {
    for (unsigned i = 0; i < REGISTRY_DROPS_AT_ONCE && !list_is_empty(&registry->leaving); i++) {
        const struct name_table_entry *entry = name_table_find(&registry->names, name, length);
        struct request *first = entry ? wait_queue_first(entry) : NULL;
        if (!first || !request_is_leaving(first))
            return;
        registry_drop(registry, first, now_ns);
    }
}

void registry_abandon(struct registry *registry, struct request *request) {
    assert(request->state == REQUEST_HELD);

    request->abandoned = true;
    request_command_simple(registry, request,
                           request->restore != RESTORE_NONE ? COMMAND_FORGET : COMMAND_ABANDON);
    restore_abandon(request);
}

void registry_beat(struct registry *registry, struct request *request, instant_ns now_ns) {
    if (request->state != REQUEST_HELD || request->terms.heartbeat_ms == 0)
        return;
    if (restore_is_searching(request))
        request->secrets->beat_ns = now_ns;
    request_beat(registry, request, 0);
}

/* --- time --- */

static void wait_ended(struct registry *registry, struct request *request, instant_ns now_ns) {
    instant_ns latest_ns =
        instant_add(request->wait_until_ns, (int64_t) request->terms.node_timeout_ms * NS_PER_MS);
    struct request *first = wait_queue_first(request->name);

    if (request_is_leaving(first)) { /* it may be this request's turn; else it is still due */
        registry_drop(registry, first, now_ns);
        return;
    }
    if (request->refused) {
        wait_queue_end_refusal(registry, request, now_ns);
        return;
    }
    if (request->overdue || now_ns >= latest_ns || wait_queue_knows(request)) {
        wait_queue_reject(registry, request, now_ns);
        return;
    }
    request_set_overdue(request);
    request_set_due(registry, request, latest_ns);
}

/* True: the risk is a heartbeat that was missed before a restart. The restart counts as a heartbeat. */
static bool is_moot(const struct request *request, instant_ns now_ns) {
    int64_t heartbeat_ns = (int64_t) request->terms.heartbeat_ms * NS_PER_MS;

    return restore_is_searching(request) && request->risk == 1 + REASON_HEARTBEAT &&
           now_ns < instant_add(request->secrets->beat_ns, heartbeat_ns);
}

/* The keeper reports the same at this time; the order does not matter. */
static void deadline_passed(struct registry *registry, struct request *request, instant_ns now_ns) {
    struct request_outcome lost = {
        .kind = OUTCOME_LOST, .reason = REASON_PAUSED, .text = restore_loss_text(request)};

    if (request->unread)
        lost.reason = REASON_UNREAD;
    else if (request->abandoned)
        lost.reason = REASON_CLOSED;
    else if (request->risk != 0 && !is_moot(request, now_ns))
        lost.reason = (enum reason)(request->risk - 1);
    if (request->unwanted)
        request_deliver_kind(registry, request, OUTCOME_RELEASED, now_ns);
    else
        request_deliver(registry, request, &lost, now_ns);
    history_note_cooling(registry, request, now_ns);
    request_detach(registry, request);
    wait_queue_hand_back(registry, request,
                         request->restore != RESTORE_NONE && !request->unwanted ? COMMAND_FORGET
                                                                                : COMMAND_RELEASE);
}

static void stop_lingering(struct registry *registry, struct request *request, instant_ns now_ns) {
    request->linger_until_ns = INSTANT_NEVER;
    request_set_due(registry, request, request->deadline_ns);
    registry_release(registry, request, now_ns);
}

/* The client should have read the grant by now. */
static void reading_ended(struct registry *registry, struct request *request, instant_ns now_ns) {
    enum registry_reading reading = request->abandoned
                                        ? GRANT_COUNTS_AS_READ
                                        : registry->sink.grant_reading(registry->sink.userdata, request);

    request->read_until_ns = INSTANT_NEVER;
    if (reading != GRANT_UNREAD) {
        if (reading == GRANT_READ)
            request_note_read(registry, request);
        request_set_held_due_after(registry, request, now_ns);
        return;
    }
    request->unread = true;
    registry_abandon(registry, request);
    request_set_risk(registry, request, REASON_UNREAD, NULL, now_ns);
    request_set_held_due_after(registry, request, now_ns);
}

/* Prefetches a request that is due at the same instant, two further on. */
static void expect_neighbours(const struct registry *registry, uint32_t item) {
    uint32_t third = timer_queue_neighbour(&registry->due, timer_queue_neighbour(&registry->due, item));

    prefetch(pool_at(&registry->requests, third), sizeof(struct request));
}

static void do_due(struct registry *registry, struct request *request, instant_ns now_ns) {
    if (request_is_leaving(request))
        registry_drop(registry, request, now_ns);
    else if (request->state == REQUEST_HELD && now_ns >= request->deadline_ns)
        deadline_passed(registry, request, now_ns);
    else if (request->unwanted && request->session && now_ns >= request->answer_by_ns)
        restore_answer_release(registry, request, now_ns);
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

void registry_tick(struct registry *registry, instant_ns now_ns) {
    registry->tick_ns = now_ns;
    for (unsigned i = 0; i < REGISTRY_TICK_MAX && timer_queue_earliest(&registry->due) <= now_ns; i++) {
        uint32_t item = timer_queue_first(&registry->due);
        expect_neighbours(registry, item);
        do_due(registry, pool_at(&registry->requests, item), now_ns);
    }
    for (unsigned i = 0; i < REGISTRY_TICK_MAX && drop_leaving(registry, now_ns); i++) {
    }
}
