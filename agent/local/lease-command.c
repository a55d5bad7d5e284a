#include "local/lease-command.h"

#include <assert.h>

#include "core/lock-value.h"
#include "local/argument.h"
#include "local/call.h"
#include "local/outcome.h"
#include "local/recovery/ledger-writer.h"
#include "local/reply.h"

enum { WAIT_MS_MAX = INT32_MAX };

const struct option lease_command_options[LEASE_COMMAND_OPTIONS] = {
    [LEASE_COMMAND_TTL] = {"TTL", OPTION_MILLISECONDS, TTL_MS_MIN, OPTION_MAX_TTL},
    [LEASE_COMMAND_WAIT] = {"WAIT", OPTION_MILLISECONDS, -1, WAIT_MS_MAX},
    [LEASE_COMMAND_HEARTBEAT] = {"HEARTBEAT", OPTION_MILLISECONDS, TTL_MS_MIN, WAIT_MS_MAX},
    [LEASE_COMMAND_MAX_HOLD] = {"MAXHOLD", OPTION_MILLISECONDS, TTL_MS_MIN, WAIT_MS_MAX},
    [LEASE_COMMAND_LINGER] = {"LINGER", OPTION_MILLISECONDS, 0, OPTION_MAX_TTL},
    [LEASE_COMMAND_COOLDOWN] = {"COOLDOWN", OPTION_MILLISECONDS, 0, OPTION_MAX_TTL},
    [LEASE_COMMAND_DATA] = {"DATA", OPTION_BYTES, 0, 0},
    [LEASE_COMMAND_RESUMABLE] = {"RESUMABLE", OPTION_FLAG, 0, 0},
    [LEASE_COMMAND_ASYNC] = {"ASYNC", OPTION_FLAG, 0, 0},
};

static_assert(2 + 2 * LEASE_COMMAND_OPTIONS <= REQUEST_ITEMS_MAX, "a request has room for all options");

/* False: a time exceeds the rule's max_ttl, and the session has got the error. */
static bool times_are_allowed(const struct call *call, const struct policy_rule *rule,
                              const struct option_value options[LEASE_COMMAND_OPTIONS]) {
    static const enum lease_command_option bounded[] = {LEASE_COMMAND_TTL, LEASE_COMMAND_LINGER,
                                                        LEASE_COMMAND_COOLDOWN};

    for (size_t i = 0; rule && !call->accepted && i < sizeof(bounded) / sizeof(bounded[0]); i++) {
        int64_t max_ms = policy_max_ttl_ms(&call->session->front->policy, &rule->terms);
        if (options[bounded[i]].ms <= max_ms)
            continue;
        reply_error(call->session, "DENIED",
                    "rule \"%s\" (line %u) allows %s at most %lld ms (max_ttl), not %lld", rule->pattern,
                    rule->line, lease_command_options[bounded[i]].word, (long long) max_ms,
                    (long long) options[bounded[i]].ms);
        return false;
    }
    return true;
}

/* Applies a max_ttl that is smaller since the request was accepted. (No key has LINGER as its ttl.) */
static void shorten(const struct policy *policy, struct option_value options[LEASE_COMMAND_OPTIONS]) {
    options[LEASE_COMMAND_TTL].ms = instant_min(options[LEASE_COMMAND_TTL].ms, policy->max_ttl_ms);
    options[LEASE_COMMAND_COOLDOWN].ms = instant_min(options[LEASE_COMMAND_COOLDOWN].ms, policy->max_ttl_ms);
}

static struct lease_terms terms_of(const struct policy *policy, const struct policy_limits *limits,
                                   const struct option_value options[LEASE_COMMAND_OPTIONS]) {
    uint32_t ttl_ms = (uint32_t) options[LEASE_COMMAND_TTL].ms;

    return (struct lease_terms){
        .ttl_ms = ttl_ms,
        .node_timeout_ms = policy_node_timeout_ms(policy, ttl_ms),
        .heartbeat_ms = (uint32_t) options[LEASE_COMMAND_HEARTBEAT].ms,
        .linger_ms = (uint32_t) options[LEASE_COMMAND_LINGER].ms,
        .max_hold_ms = (uint32_t) policy_hold_ms(limits->max_hold_ms, options[LEASE_COMMAND_MAX_HOLD].ms),
        .cooldown_ms = (uint32_t) options[LEASE_COMMAND_COOLDOWN].ms,
        .fencing = limits->fencing,
        .legacy_setnx = limits->legacy_setnx,
    };
}

void lease_command_acquire(const struct call *call) {
    struct session *session = call->session;
    const struct policy *policy = &session->front->policy;
    const struct resp_token *name = &call->arguments[0];
    struct option_value options[LEASE_COMMAND_OPTIONS] = {0};
    char tail[LOCK_VALUE_TAIL_BYTES_MAX];

    if (!call_has_name(call))
        return;
    const struct policy_rule *rule = session_rule(session, name->text, name->length);
    const struct policy_limits *limits = policy_limits_of(policy, rule);
    options[LEASE_COMMAND_TTL].ms = instant_min(limits->default_ttl_ms, policy_max_ttl_ms(policy, limits));
    if (!option_read(call, 1, lease_command_options, LEASE_COMMAND_OPTIONS, options) ||
        !times_are_allowed(call, rule, options))
        return;
    if (call->accepted)
        shorten(policy, options);
    const struct option_value *data = &options[LEASE_COMMAND_DATA];
    struct registry_ask ask = {
        .name = name->text,
        .name_length = name->length,
        .tail = tail,
        .tail_length = lock_value_put_tail(tail, session->pid, session->uid, data->bytes, data->length),
        .wait_ms = options[LEASE_COMMAND_WAIT].ms,
        .terms = terms_of(policy, limits, options),
        .async = options[LEASE_COMMAND_ASYNC].given,
        .resumable = options[LEASE_COMMAND_RESUMABLE].given,
        .accepted = call->accepted,
        .pid = session->pid,
        .uid = session->uid,
        .rule = (uint8_t) policy_number(policy, rule),
    };
    lease_command_ask(call, &ask);
}

static void reply_waiting(struct session *session, struct request *request, const struct registry_ask *ask) {
    struct resp_writer writer = reply_begin(session);

    session->pushes = true;
    ledger_writer_waiting(session, request, ask);
    resp_put_array(&writer, 2);
    reply_put_text(&writer, "waiting");
    resp_put_integer(&writer, (int64_t) registry_id(&session->front->registry, request));
    reply_send(session, &writer);
    /* Delay the reply: if the grant follows at once, the client wakes once. */
    session->unhurried = true;
}

/* False: the user has as much as it may, and the session has got the error. */
static bool is_within_quota(struct session *session, const struct registry_ask *ask) {
    struct registry *registry = &session->front->registry;
    const uint64_t amounts[] = {
        [QUOTA_LEASES] = 1, [QUOTA_EXTENSIONS] = quota_extensions(ask->terms.ttl_ms)};
    bool waits = !ask->resume && registry_is_wanted(registry, ask->name, ask->name_length);

    if (ask->accepted ||
        (ask->resume && registry_has_left_lease(registry, ask->uid, ask->name, ask->name_length)))
        return true;
    for (enum quota_kind kind = QUOTA_LEASES; kind <= QUOTA_EXTENSIONS; kind++)
        if (!quota_may(&registry->quota, ask->uid, kind, amounts[kind])) {
            reply_quota(session, kind, amounts[kind]);
            return false;
        }
    if (ask->rule == 0 || (waits && ask->wait_ms == 0) ||
        quota_rule_may(&registry->quota, ask->uid, ask->rule, waits))
        return true;
    char text[QUOTA_RULE_TEXT_BYTES];
    quota_rule_text(&registry->quota, ask->uid, ask->rule, waits, text);
    reply_error(session, "QUOTA", "%s", text);
    return false;
}

void lease_command_ask(const struct call *call, const struct registry_ask *ask) {
    struct session *session = call->session;
    struct registry *registry = &session->front->registry;

    if (session->front->draining) {
        reply_error(session, "DRAINING", "the agent is stopping and grants no new leases");
        return;
    }
    registry_drop_leaving_first(registry, ask->name, ask->name_length, call->now_ns);
    if (!is_within_quota(session, ask))
        return;
    struct request *request = registry_ask(registry, session, ask, call->asked_ns);
    if (!request && registry_is_full(registry))
        reply_error(session, "QUOTA", "the agent has %u leases and waiters, which is its limit (max_leases)",
                    registry->limit);
    else if (!request)
        reply_error(session, "QUOTA", "the agent has no room for another name or its data");
    if (!request)
        return;
    ledger_writer_accepted(session, request->asked_ns);
    if (ask->resume)
        ledger_writer_resuming(session, ask, call->now_ns);
    if (ask->async)
        reply_waiting(session, request, ask);
    else
        session_await(session, request, SESSION_ACQUIRING);
    registry_start(registry, request, ask, call->now_ns);
}

/* Finds the session's own request by the id in the first argument. False: the id is not a number, or
 * belongs to another session of the same user, and the session has got the error. *ret is NULL when the
 * session has no such request, or no longer.
 *
 * Another session of the same user is usually another connection of one pool: a reply of 0 would mean that
 * the lease has ended. */
static bool find_own(const struct call *call, struct request **ret) {
    struct session *session = call->session;
    struct request *request = NULL;
    int64_t id;

    if (!argument_integer(&call->arguments[0], 0, ARGUMENT_ID_MAX, &id)) {
        reply_error(session, "BADARG", "an id is the number that ACQUIRE gave");
        return false;
    }
    request = registry_find(&session->front->registry, (uint64_t) id);
    if (!request || request->state == REQUEST_RELEASING || !request->session) {
        *ret = NULL;
        return true;
    }
    if (request->session != session && request->uid == session->uid) {
        reply_error(session, "NOTHELD", "%s by another session",
                    request->state == REQUEST_HELD ? "held" : "asked for");
        return false;
    }
    *ret = request->session == session ? request : NULL;
    return true;
}

void lease_command_release(const struct call *call) {
    struct session *session = call->session;
    struct request *request;

    if (!find_own(call, &request))
        return;
    if (!request) {
        reply_integer(session, 0);
        return;
    }
    outcome_note_withdrawn(request, call->now_ns);
    session_await(session, request, SESSION_RELEASING);
    registry_release(&session->front->registry, request, call->now_ns);
}

void lease_command_check(const struct call *call) {
    struct request *request;

    if (!find_own(call, &request))
        return;
    int64_t left_ns = request && request->state == REQUEST_HELD ? request->deadline_ns - call->now_ns : 0;
    reply_integer(call->session, left_ns > 0 ? left_ns / NS_PER_MS : 0);
}

void lease_command_beat(const struct call *call) {
    struct request *request;

    if (!find_own(call, &request))
        return;
    bool held = request && request->state == REQUEST_HELD && call->now_ns < request->deadline_ns;
    if (held)
        registry_beat(&call->session->front->registry, request, call->now_ns);
    reply_integer(call->session, held);
}
