#include "local/resume-command.h"

#include "base/secret.h"
#include "core/lock-value.h"
#include "local/call.h"
#include "local/lease-command.h"
#include "local/reply.h"
#include "local/resume-token.h"

/* True if a time of the lease exceeds this one. */
static bool is_longer_than(const struct resume_token *token, int64_t ms, instant_ns now_ns) {
    return instant_max(token->terms.ttl_ms, token->terms.linger_ms) > ms ||
           token->cooldown_until_ns > instant_add(now_ns, ms * NS_PER_MS);
}

/* Rejects terms that the policy no longer allows, as ACQUIRE does, and applies the smaller bound on holding.
 * Of a request that a former process accepted, only the ttl must be allowed, as a shorter one would shorten
 * the lease's keys. */
static bool terms_are_allowed(const struct call *call, const struct policy_rule *rule,
                              struct resume_token *token) {
    const struct policy *policy = &call->session->front->policy;
    const struct policy_limits *limits = policy_limits_of(policy, rule);

    if (token->terms.ttl_ms < TTL_MS_MIN || token->terms.ttl_ms > policy->max_ttl_ms ||
        (token->terms.heartbeat_ms != 0 && token->terms.heartbeat_ms < TTL_MS_MIN) ||
        (!call->accepted && is_longer_than(token, policy->max_ttl_ms, call->now_ns))) {
        reply_error(call->session, "BADARG",
                    "the lease's ttl, heartbeat, linger or cooldown is not allowed here");
        return false;
    }
    int64_t most_ms = policy_max_ttl_ms(policy, limits);
    if (rule && !call->accepted && is_longer_than(token, most_ms, call->now_ns)) {
        reply_error(
            call->session, "DENIED",
            "rule \"%s\" (line %u) allows a ttl, linger and cooldown of at most %lld ms (max_ttl), and "
            "the lease has more",
            rule->pattern, rule->line, (long long) most_ms);
        return false;
    }
    if (limits->max_hold_ms > 0)
        token->hold_until_ns =
            instant_min(token->hold_until_ns, instant_add(call->now_ns, limits->max_hold_ms * NS_PER_MS));
    if (call->now_ns >= token->hold_until_ns) {
        reply_error(call->session, "NOTHELD", "the lease reached its max_hold");
        return false;
    }
    return true;
}

const struct option resume_command_options[RESUME_COMMAND_OPTIONS] = {
    [RESUME_COMMAND_WAIT] = {"WAIT", OPTION_MILLISECONDS, 0, OPTION_MAX_TTL},
    [RESUME_COMMAND_ASYNC] = {"ASYNC", OPTION_FLAG, 0, 0},
};

/* Asks for the lease of this resume token. */
static void resume(const struct call *call, struct resume_token *token) {
    struct session *session = call->session;
    const struct policy *policy = &session->front->policy;
    const struct resp_token *name = &call->arguments[0];
    struct option_value options[RESUME_COMMAND_OPTIONS] = {0};
    char tail[LOCK_VALUE_TAIL_BYTES_MAX];

    token->terms.node_timeout_ms = policy_node_timeout_ms(policy, token->terms.ttl_ms);
    const struct policy_rule *rule = session_rule(session, name->text, name->length);
    token->terms.legacy_setnx = policy_limits_of(policy, rule)->legacy_setnx;
    options[RESUME_COMMAND_WAIT].ms = token->terms.ttl_ms; /* by then the lease's keys have expired */
    if (!terms_are_allowed(call, rule, token) ||
        !option_read(call, 2, resume_command_options, RESUME_COMMAND_OPTIONS, options))
        return;
    const struct registry_ask ask = {
        .name = name->text,
        .name_length = name->length,
        .tail = tail,
        .tail_length =
            lock_value_put_tail(tail, session->pid, session->uid, token->data, token->data_length),
        .wait_ms = options[RESUME_COMMAND_WAIT].ms,
        .terms = token->terms,
        .async = options[RESUME_COMMAND_ASYNC].given,
        .resumable = true,
        .accepted = call->accepted,
        .resume = token->value,
        .hold_until_ns = token->hold_until_ns,
        .cooldown_until_ns = token->cooldown_until_ns,
        .token = token->token,
        .pid = session->pid,
        .uid = session->uid,
        .rule = (uint8_t) policy_number(policy, rule),
    };
    lease_command_ask(call, &ask);
}

void resume_command(const struct call *call) {
    const struct resp_token *text = &call->arguments[1];
    struct resume_token token;

    if (!call_has_name(call))
        return;
    if (!resume_token_read(text->text, text->length, &token)) {
        reply_error(call->session, "BADARG", "this is not the secret of a lease");
        return;
    }
    lock_value_resume(token.value);
    resume(call, &token);
    secret_clear(&token, sizeof(token));
}
