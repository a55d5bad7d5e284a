#include "local/request.h"

#include <assert.h>
#include <string.h>

#include "base/secret.h"
#include "local/history-note.h"
#include "local/recovery/ledger.h"
#include "local/registry.h"

enum { DEADLINE_STEPS = 256 }; /* of the ttl: the timer's grain for deadlines */

static uint32_t request_index(const struct registry *registry, const struct request *request) {
    return pool_index(&registry->requests, struct request, request);
}

void request_set_due(struct registry *registry, struct request *request, instant_ns due_ns) {
    if (due_ns == INSTANT_NEVER)
        timer_queue_remove(&registry->due, request_index(registry, request));
    else
        timer_queue_set(&registry->due, request_index(registry, request), due_ns);
}

void request_begin_wait(struct registry *registry, struct request *request, instant_ns now_ns) {
    if (request->try_once)
        request->wait_until_ns =
            instant_add(now_ns, (int64_t) ANSWER_NODE_TIMEOUTS * request->terms.node_timeout_ms * NS_PER_MS);
    request_continue_wait(registry, request);
}

void request_continue_wait(struct registry *registry, struct request *request) {
    request->overdue = false;
    if (request->try_once)
        request_set_overdue(request);
    request_set_due(registry, request, request->wait_until_ns);
}

void request_set_overdue(struct request *request) {
    request->overdue = true;
    request->name->overdue = true;
}

void request_count(struct registry *registry, const struct request *request, int sign) {
    bool leases = request->state == REQUEST_HELD || request->state == REQUEST_CONTENDING;
    bool waits = request->state == REQUEST_QUEUED && !request->held_back; /* behind another */

    quota_count_rule(&registry->quota, request->account, request->rule, leases ? sign : 0, waits ? sign : 0);
}

void request_set_rule(struct registry *registry, struct request *request, uint8_t rule) {
    request_count(registry, request, -1);
    request->rule = rule;
    request_count(registry, request, 1);
}

void request_enter(struct registry *registry, struct request *request, enum request_state state) {
    bool waited = request->state == REQUEST_QUEUED || request->state == REQUEST_CONTENDING;
    bool waits = state == REQUEST_QUEUED || state == REQUEST_CONTENDING;

    registry->waiting += (uint32_t) waits - (uint32_t) waited;
    if (request->rule != 0)
        request_count(registry, request, -1);
    registry->held += (uint32_t) (state == REQUEST_HELD) - (uint32_t) (request->state == REQUEST_HELD);
    if (state == REQUEST_HELD)
        request->linger_until_ns = request->read_until_ns = INSTANT_NEVER; /* was wait_until_ns */
    request->state = (uint8_t) state;
    if (request->rule != 0)
        request_count(registry, request, 1);
}

struct request_secrets *request_secrets(struct registry *registry, struct request *request) {
    if (request->secrets)
        return request->secrets;
    uint32_t index = pool_take(&registry->secrets_pool);
    assert(index != POOL_NONE); /* there are as many as requests */
    request->secrets = pool_at(&registry->secrets_pool, index);
    *request->secrets = (struct request_secrets){0};
    return request->secrets;
}

void request_drop_secrets(struct registry *registry, struct request *request) {
    if (!request->secrets)
        return;
    secret_clear(request->secrets, sizeof(*request->secrets));
    pool_give(&registry->secrets_pool,
              pool_index(&registry->secrets_pool, struct request_secrets, request->secrets));
    request->secrets = NULL;
}

void request_leave_page(struct request *request) {
    deadline_page_give(request_page(request), request->page_slot);
    request->page_slot = DEADLINE_PAGE_NO_SLOT;
}

void request_free(struct registry *registry, struct request *request) {
    assert(!request->name);

    admission_leave(registry, request);
    request_leave_page(request);

    request_enter(registry, request, REQUEST_FREE);
    list_unlink(&request->session_link);
    request->session = NULL;
    request->tail = shared_string_unref(&registry->texts, request->tail);
    request_drop_secrets(registry, request);
    keeper_handle_give(&registry->handles, request->handle_slot);
    request->handle_slot = 0;
    request_set_due(registry, request, INSTANT_NEVER);
    quota_refund(&registry->quota, request->account, QUOTA_LEASES, 1);
    quota_refund(&registry->quota, request->account, QUOTA_EXTENSIONS,
                 quota_extensions(request->terms.ttl_ms));
    registry_slot_give(registry, request_index(registry, request));
}

void request_note_lost(struct registry *registry, struct request *request,
                       const struct request_outcome *lost, instant_ns now_ns) {
    if (request_is_lost(request))
        return;
    registry->losses[lost->reason]++;
    if (registry->sink.lost)
        registry->sink.lost(registry->sink.userdata, request, lost->reason);
    history_note_outcome(registry, request, lost, now_ns);
    request->risk = REQUEST_LOST;
}

void request_deliver(struct registry *registry, struct request *request,
                     const struct request_outcome *outcome, instant_ns now_ns) {
    if (outcome->kind == OUTCOME_GRANTED)
        latest_grants_note(&registry->latest, request, registry_id(registry, request), now_ns);
    if (outcome->kind == OUTCOME_LOST)
        request_note_lost(registry, request, outcome, now_ns);
    else
        history_note_outcome(registry, request, outcome, now_ns);
    if (request->session)
        registry->sink.outcome(registry->sink.userdata, request, outcome, now_ns);
}

void request_deliver_kind(struct registry *registry, struct request *request, enum request_outcome_kind kind,
                          instant_ns now_ns) {
    request_deliver(registry, request, &(struct request_outcome){.kind = kind}, now_ns);
}

void request_deliver_failed(struct registry *registry, struct request *request, const char *error,
                            const char *text, instant_ns now_ns) {
    request_deliver(registry, request,
                    &(struct request_outcome){
                        .kind = OUTCOME_FAILED, .error = error, .text = text, .text_length = strlen(text)},
                    now_ns);
}

void request_set_risk(struct registry *registry, struct request *request, enum reason reason,
                      const struct round_trace *trace, instant_ns now_ns) {
    bool known = request->risk == 1 + reason; /* still so after an extension that came too late */

    if (request->state != REQUEST_HELD || (request->unread && reason != REASON_UNREAD) || known ||
        request_is_lost(request))
        return;
    request->risk = (uint8_t) (1 + reason);
    request_deliver(registry, request,
                    &(struct request_outcome){.kind = OUTCOME_AT_RISK, .reason = reason, .trace = trace},
                    now_ns);
}

struct request *request_new(struct registry *registry, uint32_t index, uint32_t generation,
                            struct session *session, const struct registry_ask *ask,
                            struct shared_string *tail) {
    struct request *request = pool_at(&registry->requests, index);

    *request = (struct request){
        .generation = generation,
        .state = REQUEST_NEW,
        .try_once = ask->wait_ms == 0,
        .async = ask->async,
        .resume = ask->resume != NULL,
        .resumable = ask->resumable,
        .terms = ask->terms,
        .pid = ask->pid,
        .uid = ask->uid,
        .page_slot = DEADLINE_PAGE_NO_SLOT,
        .account = quota_charge(&registry->quota, ask->uid, QUOTA_LEASES, 1),
        .rule = ask->rule,
        .session = session,
        .tail = tail,
        .wait_until_ns = INSTANT_NEVER,
        .hold_until_ns = ask->resume ? ask->hold_until_ns : INSTANT_NEVER,
        .cooldown_until_ns = ask->cooldown_until_ns,
        .token = ask->resume ? ask->token : 0,
    };
    quota_charge_account(&registry->quota, request->account, QUOTA_EXTENSIONS,
                         quota_extensions(ask->terms.ttl_ms));
    list_init(&request->session_link);
    list_init(&request->queue_link);
    return request;
}

static instant_ns held_due_ns(const struct request *request) {
    instant_ns due_ns = request->session ? request->read_until_ns : request->linger_until_ns;

    return instant_min(instant_min(request->deadline_ns, due_ns), handoff_refresh_ns(request));
}

/* Close deadlines share an instant of the timer, a little early: usually the lease has been extended by
 * then. */
static void set_held_due(struct registry *registry, struct request *request) {
    instant_ns due_ns = held_due_ns(request);

    if (due_ns == request->deadline_ns)
        due_ns -= due_ns % ((int64_t) request->terms.ttl_ms * NS_PER_MS / DEADLINE_STEPS);
    request_set_due(registry, request, due_ns);
}

void request_set_held_due_after(struct registry *registry, struct request *request, instant_ns now_ns) {
    set_held_due(registry, request);
    if (timer_queue_at(&registry->due, request_index(registry, request)) <= now_ns)
        request_set_due(registry, request, held_due_ns(request));
}

/* Rounded up, so that many requests share an instant of the timer. */
void request_await_reading(const struct registry *registry, struct request *request, instant_ns now_ns) {
    const int64_t step_ns = INT64_C(1) << 24;
    uint32_t within_ms = request->terms.ttl_ms < GRANT_READ_MS ? request->terms.ttl_ms : GRANT_READ_MS;

    request->unread = false;
    request->read_until_ns = INSTANT_NEVER;
    if (registry->sink.grant_reading && request->session)
        request->read_until_ns = (now_ns + within_ms * NS_PER_MS) / step_ns * step_ns + step_ns;
}

void request_note_read(const struct registry *registry, const struct request *request) {
    if (request->entry != 0)
        ledger_at(registry->ledger, request->entry)->read = true;
}

static void show_deadline(const struct registry *registry, struct request *request, instant_ns deadline_ns) {
    request->deadline_ns = deadline_ns;
    if (request->entry != 0)
        __atomic_store_n(&ledger_at(registry->ledger, request->entry)->deadline_ns, deadline_ns,
                         __ATOMIC_RELEASE);
    deadline_page_set(request_page(request), request->page_slot, registry_id(registry, request),
                      deadline_ns);
}

void request_set_deadline(struct registry *registry, struct request *request, instant_ns deadline_ns) {
    show_deadline(registry, request, deadline_ns);
    set_held_due(registry, request);
}

void request_extend(struct registry *registry, struct request *request, instant_ns deadline_ns) {
    assert(request->state == REQUEST_HELD);

    if (deadline_ns >= request->deadline_ns)
        show_deadline(registry, request, deadline_ns);
    else
        request_set_deadline(registry, request, deadline_ns);
}

/* The keeper does not know each restored lease. */
static uint64_t known_handle(struct registry *registry, struct request *request) {
    if (request->handle_slot == 0)
        request->handle_slot = keeper_handle_take(&registry->handles, request);
    return keeper_handle_of(&registry->handles, request->handle_slot);
}

void request_command_simple(struct registry *registry, struct request *request, enum command_kind kind) {
    const struct command command = {.kind = kind,
                                    .request = known_handle(registry, request),
                                    .unread = request->unread,
                                    .cooldown_until_ns = request->cooldown_until_ns};
    registry->sink.command(registry->sink.userdata, request->name->key.hash, &command);
}

struct command request_command(struct registry *registry, struct request *request, enum command_kind kind,
                               char text[REQUEST_COMMAND_TEXT_BYTES]) {
    const struct name_table_entry *name = request->name;

    assert((size_t) name->key.text->head_length + request->tail->head_length <= REQUEST_COMMAND_TEXT_BYTES);
    memcpy(text, name->key.text->bytes, name->key.text->head_length);
    memcpy(text + name->key.text->head_length, request->tail->bytes, request->tail->head_length);
    return (struct command){
        .kind = kind,
        .request = known_handle(registry, request),
        .persist = !request->try_once,
        .head_length = name->key.text->head_length,
        .tail_length = request->tail->head_length,
        .user = request->account,
        .terms = request->terms,
        .text = text,
    };
}

void request_note_holder(struct registry *registry, const struct name_table_entry *name) {
    if (registry->sink.changed)
        registry->sink.changed(registry->sink.userdata, name->key.hash, name->key.text->bytes,
                               name->key.text->head_length);
}

void request_refresh_keys(struct registry *registry, struct request *request) {
    char text[REQUEST_COMMAND_TEXT_BYTES];

    request->tenure.secret = false;
    if (!request->abandoned && (request->tenure.handoffs > 0 || request->resumable)) {
        struct command command = request_command(registry, request, COMMAND_REFRESH, text);
        command.hold_until_ns = request->hold_until_ns;
        command.token = request->token;
        memcpy(command.secret, request->secrets->reported, sizeof(command.secret));
        registry->sink.command(registry->sink.userdata, request->name->key.hash, &command);
        secret_clear(command.secret, sizeof(command.secret));
        request_note_holder(registry, request->name);
    }
    request_drop_secrets(registry, request);
    request->tail = shared_string_unref(&registry->texts, request->tail);
    set_held_due(registry, request);
}

/* The command to resume a lease, or to search for one. */
static void send_resume(struct registry *registry, struct request *request, enum command_kind kind,
                        const uint8_t secret[SECRET_BYTES], instant_ns beat_ns) {
    char text[REQUEST_COMMAND_TEXT_BYTES];
    struct command command = request_command(registry, request, kind, text);

    command.hold_until_ns = request->hold_until_ns;
    command.cooldown_until_ns = request->cooldown_until_ns;
    command.token = request->token;
    command.beat_ns = beat_ns;
    command.persist |= request->state == REQUEST_HELD;
    memcpy(command.secret, secret, sizeof(command.secret));
    registry->sink.command(registry->sink.userdata, request->name->key.hash, &command);
    secret_clear(command.secret, sizeof(command.secret));
}

void request_resume(struct registry *registry, struct request *request, const uint8_t secret[SECRET_BYTES]) {
    bool is_new = request_is_resume(request) && !registry->restoring;
    enum command_kind kind = is_new ? COMMAND_RESUME : COMMAND_SEARCH;

    request_enter(registry, request, REQUEST_CONTENDING);
    send_resume(registry, request, kind, secret, 0);
}

void request_search(struct registry *registry, struct request *request, const uint8_t secret[SECRET_BYTES]) {
    assert(request->state == REQUEST_HELD);

    send_resume(registry, request, COMMAND_SEARCH, secret, request->secrets->beat_ns);
}

void request_beat(struct registry *registry, const struct request *request, instant_ns now_ns) {
    if (request->handle_slot == 0)
        return; /* restored and not searched for: the keeper does not know it */
    const struct command command = {.kind = COMMAND_BEAT,
                                    .request = keeper_handle_of(&registry->handles, request->handle_slot),
                                    .beat_ns = now_ns};
    registry->sink.command(registry->sink.userdata, request->name->key.hash, &command);
}

void request_beat_lingering(struct registry *registry, const struct request *request, instant_ns now_ns) {
    int64_t heartbeat_ns = (int64_t) request->terms.heartbeat_ms * NS_PER_MS;

    if (request->terms.heartbeat_ms > 0)
        request_beat(registry, request, instant_max(now_ns, request->linger_until_ns - heartbeat_ns));
}

void request_linger(struct registry *registry, struct request *request, instant_ns now_ns) {
    request->linger_until_ns = instant_add(now_ns, (int64_t) request->terms.linger_ms * NS_PER_MS);
    request_beat_lingering(registry, request, now_ns);
    set_held_due(registry, request);
}

void request_detach(struct registry *registry, struct request *request) {
    admission_orphan(registry, request);
    request_leave_page(request);
    list_unlink(&request->session_link);
    request->session = NULL;
    if (request->state == REQUEST_HELD)
        request->linger_until_ns = INSTANT_NEVER; /* was read_until_ns */
    request->entry = 0;                           /* another lease may have the entry soon */
}
