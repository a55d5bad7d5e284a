#include "local/wait-queue.h"

#include <assert.h>

#include "local/cooling.h"
#include "local/rejection.h"
#include "local/request.h"

struct request *wait_queue_first(const struct name_table_entry *name) {
    struct list *first = list_first(&name->queue);
    return first ? list_entry(first, struct request, queue_link) : NULL;
}

static void contend(struct registry *registry, struct request *request) {
    char text[REQUEST_COMMAND_TEXT_BYTES];
    struct command command = request_command(registry, request, COMMAND_CONTEND, text);

    assert(request == wait_queue_first(request->name));
    if (request->from_queue && registry->sink.secret)
        command.spare_tokens = request->name->handoffs_max;
    command.token = request->name->token_last;
    command.pause_ns = request->name->pause_ns;
    request->name->pause_ns = 0;
    request_enter(registry, request, REQUEST_CONTENDING);
    registry->sink.command(registry->sink.userdata, request->name->key.hash, &command);
}

bool wait_queue_has_room(const struct registry *registry, const struct request *request) {
    return quota_rule_may(&registry->quota, request->uid, request->rule, false);
}

/* The request fails later, in a turn of its own, unless its user has room by then. A failure makes the next
 * request of the queue contend, and many requests may fail one after another. */
static void refuse(struct registry *registry, struct request *request) {
    request->refused = true;
    request_enter(registry, request, REQUEST_QUEUED);
    request_set_due(registry, request, registry->tick_ns); /* after all deadlines that have passed */
}

void wait_queue_contend(struct registry *registry, struct request *request) {
    if (request->held_back || request->refused) /* wait_queue_admit(), wait_queue_end_refusal() go on */
        return;
    if (request_is_leaving(request)) /* registry_tick() goes on */
        return;
    if (registry->restoring) { /* restore_end() lets that request contend which is the first then */
        request_enter(registry, request, REQUEST_QUEUED);
        return;
    }
    if (!wait_queue_has_room(registry, request)) {
        refuse(registry, request);
        return;
    }
    request->from_queue = request->state == REQUEST_QUEUED;
    if (admission_ask(registry, request))
        contend(registry, request);
    else
        request_enter(registry, request, REQUEST_QUEUED);
}

void wait_queue_wait_on(struct registry *registry, struct request *request, instant_ns now_ns) {
    request->restore = RESTORE_NONE;
    request->resume = false;
    if (request == wait_queue_first(request->name)) {
        wait_queue_contend(registry, request);
        return;
    }
    request_enter(registry, request, REQUEST_QUEUED);
    if (wait_queue_is_taken(request->name))
        wait_queue_reject_overdue(registry, request->name, now_ns);
}

void wait_queue_contend_again(struct registry *registry, struct request *request, instant_ns now_ns) {
    keeper_handle_give(&registry->handles, request->handle_slot);
    request->handle_slot = 0;
    if (request->restore == RESTORE_UNREPORTED) {
        wait_queue_wait_on(registry, request, now_ns);
        return;
    }
    request_enter(registry, request, REQUEST_QUEUED);
    if (request == wait_queue_first(request->name))
        wait_queue_contend(registry, request);
}

/* An admitted request that is behind one that resumes contends when the latter leaves. */
void wait_queue_admit(struct registry *registry) {
    struct request *request;

    while ((request = admission_next(registry))) {
        if (request_is_resume(request)) {
            request_resume(registry, request, request->secrets->reported);
            continue;
        }
        bool is_first = request == wait_queue_first(request->name);
        if (is_first && wait_queue_has_room(registry, request)) {
            contend(registry, request);
            continue;
        }
        admission_leave(registry, request);
        if (is_first)
            refuse(registry, request);
    }
}

/* Takes the request out of its queue; the next one contends. The name goes with its last request. */
static void leave(struct registry *registry, struct request *request) {
    struct name_table_entry *name = request->name;
    bool was_first = request == wait_queue_first(name);

    list_unlink(&request->queue_link);
    request->name = NULL;
    struct request *next = wait_queue_first(name);
    if (!next) {
        name_table_free(&registry->names, name);
        return;
    }
    if (was_first && next->state == REQUEST_QUEUED)
        wait_queue_contend(registry, next);
}

/* A held lease ends; its request is still in the queue. */
static void note_end(struct registry *registry, const struct request *request) {
    request_note_holder(registry, request->name);
    if (request->cooldown_until_ns != 0 && registry->cooling)
        cooling_begin(registry->cooling, request, registry_id(registry, request));
}

void wait_queue_hand_back(struct registry *registry, struct request *request, enum command_kind kind) {
    if (request->held_back)
        admission_leave(registry, request);
    request_leave_page(request);
    request_command_simple(registry, request, kind);
    if (request->state == REQUEST_HELD)
        note_end(registry, request);
    request_enter(registry, request, REQUEST_RELEASING);
    request->restore = RESTORE_NONE; /* the answer to a search that is under way comes too late */
    request_set_due(registry, request, INSTANT_NEVER);
    leave(registry, request);
}

void wait_queue_leave(struct registry *registry, struct request *request) {
    if (request->state == REQUEST_HELD)
        note_end(registry, request);
    leave(registry, request);
    request_free(registry, request);
}

/* A request that resumes in vain may be before the holder. */
const struct request *wait_queue_holder(const struct name_table_entry *name) {
    for (const struct list *at = name->queue.next; at != &name->queue; at = at->next) {
        const struct request *request = list_entry(at, const struct request, queue_link);
        if (request->state == REQUEST_HELD && !request->unwanted)
            return request;
        if (request->state == REQUEST_QUEUED)
            break;
    }
    return NULL;
}

/* A client that resumes may consider its lease valid until the last deadline, and ask again: no key is
 * deleted. */
void wait_queue_withdraw(struct registry *registry, struct request *request) {
    assert(request->state == REQUEST_CONTENDING && !request->session);

    bool may_be_valid = request_is_resume(request);
    wait_queue_hand_back(registry, request, may_be_valid ? COMMAND_FORGET : COMMAND_RELEASE);
}

void wait_queue_end_refusal(struct registry *registry, struct request *request, instant_ns now_ns) {
    bool is_first = request == wait_queue_first(request->name); /* a request that resumes may be before it */

    assert(request->refused);
    if (is_first && !wait_queue_has_room(registry, request)) {
        wait_queue_reject(registry, request, now_ns);
        return;
    }
    request->refused = false;
    request_continue_wait(registry, request);
    if (is_first)
        wait_queue_contend(registry, request);
}

void wait_queue_reject(struct registry *registry, struct request *request, instant_ns now_ns) {
    char text[REJECTION_TEXT_BYTES];
    const struct request *holder = wait_queue_holder(request->name);
    bool full = request->refused && !wait_queue_has_room(registry, request);
    const char *error = full ? rejection_text_of_rule(&registry->quota, request, text)
                             : rejection_text(request, holder, now_ns, text);

    request_deliver_failed(registry, request, error, text, now_ns);
    request_detach(registry, request);
    if (request->state == REQUEST_CONTENDING)
        wait_queue_withdraw(registry, request);
    else
        wait_queue_leave(registry, request);
}

bool wait_queue_is_taken(const struct name_table_entry *name) {
    return wait_queue_holder(name) || name->seen_failure != 0;
}

bool wait_queue_knows(const struct request *request) {
    return request->resume ? request->tried : wait_queue_is_taken(request->name);
}

/* Queued requests first: when the contender leaves, the next one contends. A queue may have tens of
 * thousands of requests, none of them overdue: it is not searched then. */
void wait_queue_reject_overdue(struct registry *registry, struct name_table_entry *name, instant_ns now_ns) {
    struct request *contends = NULL;

    if (!name->overdue)
        return;
    name->overdue = false; /* unless one stays */
    list_for_each_safe(node, &name->queue) {
        struct request *request = list_entry(node, struct request, queue_link);
        if (!request->overdue || request->state == REQUEST_HELD)
            continue;
        bool knows = wait_queue_knows(request);
        if (knows && request->state == REQUEST_QUEUED)
            wait_queue_reject(registry, request, now_ns);
        else if (knows && request->state == REQUEST_CONTENDING && !request->try_once && !contends)
            contends = request;
        else
            name->overdue = true;
    }
    if (contends)
        wait_queue_reject(registry, contends, now_ns);
}

void wait_queue_insert(struct request *request) {
    struct list *queue = &request->name->queue, *at = queue->previous;

    while (at != queue) {
        const struct request *other = list_entry(at, struct request, queue_link);
        if (other->state != REQUEST_QUEUED || other->asked_ns <= request->asked_ns)
            break;
        at = at->previous;
    }
    list_prepend(at, &request->queue_link);
}
