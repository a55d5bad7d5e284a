#include "local/registry.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "local/refusal.h"
#include "local/request.h"

/* --- names --- */

uint64_t registry_hash(const struct registry *registry, const char *name, size_t length) {
    return names_hash(&registry->names, name, length);
}

/* Who holds it is another from now on. */
static void tell_changed(struct registry *registry, const struct name *name) {
    if (registry->sink.changed)
        registry->sink.changed(registry->sink.userdata, name->hash, name->text->bytes,
                               name->text->head_length);
}

static struct request *first_in_line(const struct name *name) {
    struct list *first = list_first(&name->queue);
    return first ? list_entry(first, struct request, queue_link) : NULL;
}

/* --- the line --- */

static void not_found(struct registry *registry, struct request *request, instant_ns now_ns);

static void contend(struct registry *registry, struct request *request) {
    char text[COMMAND_TEXT_BYTES];
    struct command command = request_command(registry, request, COMMAND_CONTEND, text);

    assert(request == first_in_line(request->name));
    request->from_line = request->state == REQUEST_QUEUED;
    if (request->from_line && registry->sink.secret)
        command.spare_tokens = request->name->handoffs_max;
    command.token = request->name->token_last;
    command.pause_ns = request->name->pause_ns;
    request->name->pause_ns = 0;
    request_enter(registry, request, REQUEST_CONTENDING);
    registry->sink.command(registry->sink.userdata, request->name->hash, &command);
}

static struct command resume_command(struct registry *registry, struct request *request,
                                     const uint8_t secret[SECRET_BYTES], char text[COMMAND_TEXT_BYTES]) {
    struct command command = request_command(registry, request, COMMAND_RESUME, text);

    command.hold_until_ns = request->hold_until_ns;
    command.token = request->token;
    memcpy(command.secret, secret, sizeof(command.secret));
    return command;
}

static void resume(struct registry *registry, struct request *request, const uint8_t secret[SECRET_BYTES]) {
    char text[COMMAND_TEXT_BYTES];
    const struct command command = resume_command(registry, request, secret, text);

    request_enter(registry, request, REQUEST_CONTENDING);
    registry->sink.command(registry->sink.userdata, request->name->hash, &command);
}

/* The keeper learns who holds, and the holder can resume what it has from now on. */
static void tell_holder(struct registry *registry, struct request *request) {
    char text[COMMAND_TEXT_BYTES];

    request->tenure.secret = false;
    if (!request->abandoned && (request->tenure.handoffs > 0 || request->resumable)) {
        struct command command = request_command(registry, request, COMMAND_HAND_OVER, text);
        command.hold_until_ns = request->hold_until_ns;
        command.token = request->token;
        memcpy(command.secret, request->guise->told, sizeof(command.secret));
        registry->sink.command(registry->sink.userdata, request->name->hash, &command);
        tell_changed(registry, request->name);
    }
    request_drop_guise(registry, request);
    request->tail = text_unref(&registry->texts, request->tail);
    request_set_due(registry, request, request_held_due_ns(request));
}

/* Takes the request out of its line; the next one comes forward. The name goes with its last request. */
static void leave_line(struct registry *registry, struct request *request) {
    struct name *name = request->name;
    bool was_first = request == first_in_line(name);

    list_unlink(&request->queue_link);
    request->name = NULL;
    struct request *next = first_in_line(name);
    if (!next) {
        names_free(&registry->names, name);
        return;
    }
    if (was_first && next->state == REQUEST_QUEUED) {
        name->seen = text_unref(&registry->texts, name->seen);
        contend(registry, next);
    }
}

/* Leaves the line for good while the keeper has it: it is remembered until the keeper confirms. */
static void hand_back_by(struct registry *registry, struct request *request, enum command_kind kind) {
    request_leave_page(request);
    request_command_simple(registry, request, request->name->hash, kind);
    if (request->state == REQUEST_HELD)
        tell_changed(registry, request->name);
    request_enter(registry, request, REQUEST_RELEASING);
    request_set_due(registry, request, INSTANT_NEVER);
    leave_line(registry, request);
}

static void hand_back(struct registry *registry, struct request *request) {
    hand_back_by(registry, request, COMMAND_RELEASE);
}

/* Nobody waits for it any more. Who wants to resume may believe in the lease until its last deadline, and
 * ask again: then nothing is deleted. */
static void withdraw(struct registry *registry, struct request *request) {
    bool believed = request->resume && !request->restored && request->state == REQUEST_CONTENDING;
    hand_back_by(registry, request, believed ? COMMAND_FORGET : COMMAND_RELEASE);
}

/* The request is over and the keeper does not have it. */
static void end(struct registry *registry, struct request *request) {
    if (request->state == REQUEST_HELD)
        tell_changed(registry, request->name);
    leave_line(registry, request);
    request_free(registry, request);
}

/* `now_ns`: 0 for when the keeper hears of it. */
static void beat(struct registry *registry, const struct request *request, instant_ns now_ns) {
    const struct command command = {.kind = COMMAND_BEAT, .request = request->number, .beat_ns = now_ns};

    if (request->number == 0)
        return; /* of a former process, and not looked for: its keeper does not know it */
    registry->sink.command(registry->sink.userdata, request->name->hash, &command);
}

/* Nobody waits for its outcome any more. */
static void silence(struct request *request) {
    request_leave_page(request);
    request->kept_ns = NULL;
    list_unlink(&request->session_link);
    request->session = NULL;
    request->kept_ns = NULL; /* goes with the session, and may be another's then */
}

/* Who holds it, or NULL. One that is unwanted goes as soon as it is found; one that resumes may stand
 * before it, in vain. */
static const struct request *holder_of(const struct name *name) {
    for (const struct list *at = name->queue.next; at != &name->queue; at = at->next) {
        const struct request *request = list_entry(at, const struct request, queue_link);
        if (request->state == REQUEST_HELD && !request->unwanted)
            return request;
        if (request->state == REQUEST_QUEUED)
            break;
    }
    return NULL;
}

/* "held by …" for requests that find the name taken. */
static void fail_busy(struct registry *registry, struct request *request, instant_ns now_ns) {
    const struct request *holder = holder_of(request->name);
    char text[REFUSAL_BYTES];
    const char *error =
        refusal_busy(request->name, holder ? holder : first_in_line(request->name), now_ns, text);

    request_tell_failed(registry, request, error, text, now_ns);
}

static bool is_taken(const struct name *name) {
    return holder_of(name) || name->seen;
}

/* Those who don't wait learn that they can't have it now. */
static void turn_away_impatient(struct registry *registry, struct name *name, instant_ns now_ns) {
    list_for_each_safe(node, &name->queue) {
        struct request *request = list_entry(node, struct request, queue_link);
        if (request->state != REQUEST_QUEUED || !request->try_once)
            continue;
        fail_busy(registry, request, now_ns);
        end(registry, request);
    }
}

struct request *registry_ask(struct registry *registry, struct session *session,
                             struct list *session_requests, const struct registry_ask *ask,
                             instant_ns now_ns) {
    if (registry->requests.taken >= registry->limit)
        return NULL;
    struct text *tail = text_new(&registry->texts, ask->tail, ask->tail_length, NULL, 0);
    if (!tail)
        return NULL;
    uint32_t index = pool_take(&registry->requests);
    assert(index != POOL_NONE);
    uint32_t before = ((struct request *) pool_at(&registry->requests, index))->generation;
    uint32_t generation = (before > registry->generation ? before : registry->generation) + 1;
    generation += generation == 0;
    struct request *request = request_new(registry, index, generation, session, ask, tail);
    request->asked_ns = now_ns;
    if (ask->wait_ms > 0)
        request->wait_until_ns = instant_add(now_ns, ask->wait_ms * NS_PER_MS);
    list_append(session_requests, &request->session_link);
    return request;
}

/* A holder of this host has the lease, or has another in its place; and who else resumes may have the same
 * secret. */
static void start_resume(struct registry *registry, struct request *request,
                         const uint8_t secret[SECRET_BYTES], instant_ns now_ns) {
    struct name *name = request->name;
    const char *error = NULL, *text = NULL;

    list_for_each_safe(node, &name->queue) {
        const struct request *other = list_entry(node, struct request, queue_link);
        if (other->state == REQUEST_HELD && other->unwanted) {
            error = "NOTHELD";
            text = "it was released or lost at this agent";
        } else if (other->state == REQUEST_HELD && other->restored && !other->session &&
                   other->linger_until_ns == INSTANT_NEVER) {
            continue; /* it may be this one */
        } else if (other->state == REQUEST_HELD) {
            error = "NOTHELD";
            text = "another session of this agent holds the name";
        } else if (other->resume && !other->restored && !error) {
            error = "BUSY";
            text = "another session is resuming it at this moment";
        }
    }
    if (error) {
        list_append(&name->queue, &request->queue_link);
        request_tell_failed(registry, request, error, text, now_ns);
        end(registry, request);
        return;
    }
    list_prepend(&name->queue, &request->queue_link);
    request_set_due(registry, request, request->wait_until_ns);
    resume(registry, request, secret);
}

/* Behind those that asked before it, and behind who is with the keeper. */
static void put_in_order(struct request *request) {
    struct list *queue = &request->name->queue, *at = queue->previous;

    while (at != queue) {
        const struct request *other = list_entry(at, struct request, queue_link);
        if (other->state != REQUEST_QUEUED || other->asked_ns <= request->asked_ns)
            break;
        at = at->previous;
    }
    list_prepend(at, &request->queue_link);
}

bool registry_start(struct registry *registry, struct request *request, const struct registry_ask *ask,
                    instant_ns now_ns) {
    assert(request->state == REQUEST_NEW);

    struct name *name = names_get(&registry->names, ask->name, ask->name_length);
    if (!name) {
        request_free(registry, request);
        return false;
    }
    const struct request *first = first_in_line(name);
    request->name = name;
    if (ask->resume) {
        start_resume(registry, request, ask->resume, now_ns);
        return true;
    }
    put_in_order(request); /* one that a former process left unanswered asked long ago */
    if (!first) {
        request_set_due(registry, request, request->wait_until_ns);
        contend(registry, request);
        return true;
    }
    request_enter(registry, request, REQUEST_QUEUED);
    if (request->try_once && is_taken(name)) {
        fail_busy(registry, request, now_ns);
        end(registry, request);
        return true;
    }
    request_set_due(registry, request, request->wait_until_ns);
    return true;
}

/* Gives the lease to the next in line, who was in the line before; FIFO. False: it is to be released. */
static bool hand_over(struct registry *registry, struct request *holder, instant_ns now_ns) {
    struct name *name = holder->name;
    struct list *second = holder->queue_link.next;
    struct request *next = second != &name->queue ? list_entry(second, struct request, queue_link) : NULL;

    if (!handoff_is_fine(holder, next, registry->kept, now_ns)) {
        name->pause_ns = (int32_t) handoff_pause_ns(holder, now_ns);
        name->handoffs_max = handoff_next_max(holder, now_ns);
        return false;
    }
    request_leave_page(holder); /* first: at no instant two slots show the lease */
    list_unlink(&holder->queue_link);
    holder->name = NULL;
    handoff_move(holder, next, now_ns);
    request_drop_guise(registry, next); /* a former process's, if its grant was not found */
    next->guise = holder->guise;
    holder->guise = NULL;
    registry->sink.secret(registry->sink.userdata, next->guise->told);
    number_give(&registry->numbers, next->number); /* it has one if a former process's grant was not found */
    next->number = holder->number;
    holder->number = 0;
    number_move(&registry->numbers, next->number, next);
    registry->handoffs++;
    request_enter(registry, next, REQUEST_HELD);
    next->page_slot = (int16_t) page_take(next->page);
    request_set_deadline(registry, next, next->deadline_ns);
    if (next->heartbeat_ms > 0)
        beat(registry, next, now_ns);
    const struct outcome outcome = {
        .kind = OUTCOME_GRANTED, .text = (const char *) next->guise->told, .text_length = SECRET_BYTES};
    request_tell(registry, next, &outcome, now_ns);
    request_tell_kind(registry, holder, OUTCOME_RELEASED, now_ns);
    request_free(registry, holder);
    return true;
}

void registry_release(struct registry *registry, struct request *request, instant_ns now_ns) {
    switch ((enum request_state) request->state) {
    case REQUEST_QUEUED:
        request_tell_kind(registry, request, OUTCOME_RELEASED, now_ns);
        end(registry, request);
        break;
    case REQUEST_HELD:
        if (request->restored) {
            request_leave_page(request);
            request->unwanted = true;
            if (request->abandoned) { /* nobody looks for it */
                request_tell_kind(registry, request, OUTCOME_RELEASED, now_ns);
                end(registry, request);
            } else if (request->vanished) {
                not_found(registry, request, now_ns);
            }
            break;
        }
        if (!hand_over(registry, request, now_ns))
            hand_back(registry, request);
        break;
    case REQUEST_CONTENDING:
        hand_back(registry, request);
        break;
    case REQUEST_RELEASING:
        break;
    case REQUEST_NEW:
    case REQUEST_FREE:
        assert(false);
        break;
    }
}

/* No BEAT will come any more: the linger is bound enough. */
static void beat_while_lingering(struct registry *registry, const struct request *request,
                                 instant_ns now_ns) {
    int64_t heartbeat_ns = (int64_t) request->heartbeat_ms * NS_PER_MS;

    if (request->heartbeat_ms > 0)
        beat(registry, request, instant_max(now_ns, request->linger_until_ns - heartbeat_ns));
}

static void linger(struct registry *registry, struct request *request, instant_ns now_ns) {
    request->linger_until_ns = instant_add(now_ns, (int64_t) request->linger_ms * NS_PER_MS);
    beat_while_lingering(registry, request, now_ns);
    request_set_due(registry, request, request_held_due_ns(request));
}

void registry_drop(struct registry *registry, struct request *request, instant_ns now_ns) {
    silence(request);
    if (request->state == REQUEST_HELD && request->linger_ms > 0)
        linger(registry, request, now_ns);
    else if (request->state == REQUEST_CONTENDING)
        withdraw(registry, request);
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
                           request->restored ? COMMAND_FORGET : COMMAND_ABANDON);
    return true;
}

void registry_beat(struct registry *registry, struct request *request) {
    if (request->state == REQUEST_HELD && request->heartbeat_ms > 0)
        beat(registry, request, 0);
}

/* --- requests of a former process --- */

struct request *registry_restore(struct registry *registry, struct session *session,
                                 struct list *session_requests, const struct registry_ask *ask,
                                 const struct registry_past *past) {
    uint32_t index = (uint32_t) (past->id & (REQUESTS_MAX - 1));
    uint32_t generation = (uint32_t) (past->id >> REQUEST_INDEX_BITS);

    if (generation == 0 || !pool_claim(&registry->requests, index))
        return NULL;
    struct text *tail = text_new(&registry->texts, ask->tail, ask->tail_length, NULL, 0);
    if (!tail) {
        pool_give(&registry->requests, index);
        return NULL;
    }
    if (generation > registry->generation)
        registry->generation = generation;
    struct request *request = request_new(registry, index, generation, session, ask, tail);
    request->restored = past->held || past->untold;
    request->unwanted = past->unwanted;
    request->abandoned = past->forsaken;
    request->asked_ns = past->asked_ns;
    request->wait_until_ns = past->wait_until_ns;
    if (past->held) {
        request->deadline_ns = past->deadline_ns;
        request->risk = past->risk;
        request->page_slot = (int16_t) page_claim(request->page, past->page_slot);
    }
    if (ask->resume && past->standing) {
        request->tenure.handoffs = past->handoffs;
        struct guise *guise = request_guise(registry, request);
        memcpy(guise->told, ask->resume, SECRET_BYTES);
        memcpy(guise->standing, past->standing, SECRET_BYTES);
        request->vanished = past->handed;
        request->alternate =
            past->held && !past->handed && memcmp(past->standing, ask->resume, SECRET_BYTES) != 0;
    }
    if (session)
        list_append(session_requests, &request->session_link);
    return request;
}

/* With this random part in its keys. */
static void look_for(struct registry *registry, struct request *request,
                     const uint8_t secret[SECRET_BYTES]) {
    char text[COMMAND_TEXT_BYTES];
    struct command command = resume_command(registry, request, secret, text);

    command.persist = true;
    registry->sink.command(registry->sink.userdata, request->name->hash, &command);
}

/* Its client goes on, and so does its deadline. */
static void restart_held(struct registry *registry, struct request *request) {
    list_prepend(&request->name->queue, &request->queue_link);
    request_enter(registry, request, REQUEST_HELD);
    request_set_due(registry, request, request->deadline_ns);
    if (request->abandoned)
        return; /* nothing is asked of the nodes: only nobody else gets it before */
    if (!request->vanished)
        look_for(registry, request, request->guise->told);
}

static void put_behind_held(struct request *request) {
    struct list *queue = &request->name->queue, *at = queue->next;

    while (at != queue && list_entry(at, struct request, queue_link)->state == REQUEST_HELD)
        at = at->next;
    list_append(at, &request->queue_link);
}

bool registry_restart(struct registry *registry, struct request *request, const struct registry_ask *ask,
                      const struct registry_past *past, instant_ns now_ns) {
    assert(request->state == REQUEST_NEW);

    request->name = names_get(&registry->names, ask->name, ask->name_length);
    if (!request->name) {
        request_free(registry, request);
        return false;
    }
    if (past->held) {
        restart_held(registry, request);
        if (past->lingers)
            linger(registry, request, now_ns);
        return true;
    }
    request_set_due(registry, request, request->wait_until_ns);
    if (ask->resume) {
        put_behind_held(request);
        resume(registry, request, ask->resume);
    } else {
        put_in_order(request);
        request_enter(registry, request, REQUEST_QUEUED);
    }
    return true;
}

/* Who tries once does so when the nodes have had the time to connect. */
static void contend_again(struct registry *registry, bool impatient_too) {
    const struct request *request;

    for (uint32_t slot = 0; (request = registry_next(registry, &slot));) {
        struct request *first = request->name ? first_in_line(request->name) : NULL;
        if (first && first->state == REQUEST_QUEUED && (impatient_too || !first->try_once))
            contend(registry, first);
    }
}

void registry_restarted(struct registry *registry) {
    registry->restoring = true;
    contend_again(registry, false);
}

/* The nodes have it. */
static void found(struct registry *registry, struct request *request, instant_ns deadline_ns,
                  instant_ns now_ns) {
    request->restored = false;
    if (request->unwanted) {
        hand_back(registry, request);
        return;
    }
    request_set_deadline(registry, request, instant_max(request->deadline_ns, deadline_ns));
    if (request->linger_until_ns != INSTANT_NEVER)
        beat_while_lingering(registry, request, now_ns);
    if (request->refresh)
        tell_holder(registry, request);
    if (request->risk != 0) {
        request->risk = 0;
        request_tell_kind(registry, request, OUTCOME_EXTENDED, now_ns);
    }
}

/* They have not: it had ended, or was being released; or it was handed over, and its holder was told of a
 * value that is not in the keys yet. */
static void not_found(struct registry *registry, struct request *request, instant_ns now_ns) {
    if (request->alternate) {
        request->alternate = false;
        request->refresh = true;
        look_for(registry, request, request->guise->standing);
        return;
    }
    request->vanished = true;
    if (registry->restoring && !request->unwanted)
        return;
    if (request->unwanted)
        request_tell_kind(registry, request, OUTCOME_RELEASED, now_ns);
    else
        request_tell(registry, request, &(struct outcome){.kind = OUTCOME_LOST, .reason = REASON_NO_QUORUM},
                     now_ns);
    if (request->refresh && !request->unwanted && now_ns < request->deadline_ns) {
        /* Both values together may have a majority, and who was told may not have read it. */
        silence(request);
        request->abandoned = true;
        request->vanished = false;
        return;
    }
    end(registry, request);
}

void registry_restore_end(struct registry *registry, instant_ns now_ns) {
    struct request *request;

    registry->restoring = false;
    contend_again(registry, true);
    for (uint32_t slot = 0; (request = registry_next(registry, &slot));) {
        if (request->vanished)
            not_found(registry, request, now_ns);
        else if (request->try_once && request->state == REQUEST_QUEUED && is_taken(request->name))
            turn_away_impatient(registry, request->name, now_ns);
    }
}

/* --- what the keeper says --- */

/* Nobody else is to know what stands in its keys. What its holder is told instead. */
static const char *disguise(struct registry *registry, struct request *request,
                            const struct report *report) {
    struct guise *guise = request_guise(registry, request);

    assert(report->text_length == SECRET_BYTES);
    memcpy(guise->standing, report->text, sizeof(guise->standing));
    guise->token_last = report->token_last;
    registry->sink.secret(registry->sink.userdata, guise->told);
    return (const char *) guise->told;
}

static void granted(struct registry *registry, struct request *request, const struct report *report,
                    instant_ns now_ns) {
    instant_ns deadline_ns = report->deadline_ns;
    struct outcome outcome = {
        .kind = OUTCOME_GRANTED, .text = report->text, .text_length = report->text_length};

    if (request->state == REQUEST_HELD && request->restored && !request->abandoned && !request->vanished &&
        now_ns < deadline_ns) {
        found(registry, request, deadline_ns, now_ns);
        return;
    }
    if (request->state != REQUEST_CONTENDING)
        return; /* withdrawn meanwhile: its release is on the way */
    if (now_ns >= deadline_ns) {
        request_tell_failed(registry, request, "NOQUORUM",
                            "the grant came too late: the agent was stopped or starved", now_ns);
        silence(request);
        withdraw(registry, request);
        return;
    }
    request_enter(registry, request, REQUEST_HELD);
    tell_changed(registry, request->name);
    request->restored = false;
    request->token = report->token;
    request->tenure =
        (struct tenure){.acquired_ns = now_ns, .secret = request->from_line && registry->sink.secret};
    request->name->token_last = report->token_last;
    if (request->tenure.secret)
        outcome.text = disguise(registry, request, report);
    else
        request_drop_guise(registry, request);
    request->page_slot = (int16_t) page_take(request->page);
    request_set_deadline(registry, request, deadline_ns);
    if (!request->resume && request->max_hold_ms > 0)
        request->hold_until_ns = instant_add(now_ns, request->max_hold_ms * NS_PER_MS);
    if (request->name->seen)
        request->name->seen_ns = now_ns; /* another had it until now: that it has was told once */
    request->name->seen = text_unref(&registry->texts, request->name->seen);
    list_unlink(&request->queue_link); /* one that resumes in vain may stand before it */
    list_prepend(&request->name->queue, &request->queue_link);
    request_tell(registry, request, &outcome, now_ns);
    if (!request->tenure.secret)
        request->tail = text_unref(&registry->texts, request->tail);
    if (request->state == REQUEST_HELD)
        turn_away_impatient(registry, request->name, now_ns);
}

static void extended(struct registry *registry, struct request *request, instant_ns deadline_ns,
                     instant_ns now_ns) {
    /* Late by our own clock: the tick that tells the loss is about to run. */
    if (request->state != REQUEST_HELD || now_ns >= request->deadline_ns)
        return;
    request_set_deadline(registry, request, deadline_ns);
    if (request->risk != 0) {
        request->risk = 0;
        request_tell_kind(registry, request, OUTCOME_EXTENDED, now_ns);
    }
}

static void at_risk(struct registry *registry, struct request *request, enum reason reason,
                    instant_ns now_ns) {
    if (request->state != REQUEST_HELD)
        return;
    request->risk = (uint8_t) (1 + reason);
    request_tell(registry, request, &(struct outcome){.kind = OUTCOME_AT_RISK, .reason = reason}, now_ns);
}

static void contended(struct registry *registry, struct request *request, const struct report *report,
                      instant_ns now_ns) {
    struct name *name = request->name;

    if (request->state != REQUEST_CONTENDING)
        return;
    text_unref(&registry->texts, name->seen);
    name->seen = text_new(&registry->texts, report->text, report->text_length, NULL, 0);
    name->seen_failure = (uint8_t) report->failure;
    name->seen_ns = now_ns;
    name->handoffs_max = HANDOFFS_MAX;
    if (name->seen)
        turn_away_impatient(registry, name, now_ns);
}

static void failed(struct registry *registry, struct request *request, const struct report *report,
                   instant_ns now_ns) {
    static const char *const errors[] = {
        [FAILURE_BUSY] = "BUSY",
        [FAILURE_NO_QUORUM] = "NOQUORUM",
        [FAILURE_QUOTA] = "QUOTA",
        [FAILURE_NOT_HELD] = "NOTHELD",
    };

    if (request->state == REQUEST_HELD && request->restored && !request->abandoned) {
        not_found(registry, request, now_ns);
        return;
    }
    if (request->state != REQUEST_CONTENDING)
        return; /* RELEASED follows */
    if (request->restored) {
        request->restored = request->resume = false; /* it goes on waiting */
        if (request == first_in_line(request->name)) {
            contend(registry, request);
            return;
        }
        request_enter(registry, request, REQUEST_QUEUED);
        if (is_taken(request->name))
            turn_away_impatient(registry, request->name, now_ns);
        return;
    }
    request_tell(registry, request,
                 &(struct outcome){.kind = OUTCOME_FAILED,
                                   .error = errors[report->failure],
                                   .text = report->text,
                                   .text_length = report->text_length},
                 now_ns);
    end(registry, request);
}

void registry_report(struct registry *registry, const struct report *report, instant_ns now_ns) {
    if (report->kind == REPORT_AWAITED) {
        handoff_awaited(&registry->names, report, now_ns);
        return;
    }
    struct request *request = number_find(&registry->numbers, report->request);

    if (!request)
        return;
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
        request_tell(registry, request, &(struct outcome){.kind = OUTCOME_LOST, .reason = report->reason},
                     now_ns);
        end(registry, request);
        break;
    case REPORT_RELEASED:
        if (request->state != REQUEST_RELEASING)
            break;
        request_tell_kind(registry, request, OUTCOME_RELEASED, now_ns);
        request_free(registry, request);
        break;
    case REPORT_AWAITED:
    case REPORT_LOOKED:
    case REPORT_NODE:
    case REPORT_FOREIGN:
        assert(false); /* not about requests */
        break;
    }
}

/* --- time --- */

static void wait_ended(struct registry *registry, struct request *request, instant_ns now_ns) {
    char text[REFUSAL_BYTES];
    const char *error = refusal_timeout(request, first_in_line(request->name), now_ns, text);

    request_tell_failed(registry, request, error, text, now_ns);
    silence(request);
    if (request->state == REQUEST_CONTENDING)
        withdraw(registry, request);
    else
        end(registry, request);
}

/* The keeper says the same at this instant; who is first does not matter. */
static void deadline_passed(struct registry *registry, struct request *request, instant_ns now_ns) {
    enum reason reason = REASON_PAUSED;

    if (request->abandoned)
        reason = REASON_CLOSED;
    else if (request->risk != 0)
        reason = (enum reason)(request->risk - 1);
    if (request->unwanted)
        request_tell_kind(registry, request, OUTCOME_RELEASED, now_ns);
    else
        request_tell(registry, request, &(struct outcome){.kind = OUTCOME_LOST, .reason = reason}, now_ns);
    silence(request);
    hand_back_by(registry, request, request->restored ? COMMAND_FORGET : COMMAND_RELEASE);
}

/* It has lingered long enough. */
static void stop_lingering(struct registry *registry, struct request *request, instant_ns now_ns) {
    request->linger_until_ns = INSTANT_NEVER;
    request_set_due(registry, request, request->deadline_ns);
    registry_release(registry, request, now_ns);
}

void registry_tick(struct registry *registry, instant_ns now_ns) {
    while (heap_earliest(&registry->due) <= now_ns) {
        struct request *request = pool_at(&registry->requests, heap_first(&registry->due));
        if (request->state == REQUEST_HELD && now_ns >= request->deadline_ns)
            deadline_passed(registry, request, now_ns);
        else if (request->state == REQUEST_HELD && now_ns >= request->linger_until_ns)
            stop_lingering(registry, request, now_ns);
        else if (request->state == REQUEST_HELD)
            tell_holder(registry, request);
        else
            wait_ended(registry, request, now_ns);
    }
}
