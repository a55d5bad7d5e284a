/* RESUME: a client that has outlived its agent takes its lease over at this one. */

#include <assert.h>
#include <string.h>

#include "core/lock-value.h"
#include "local/argument.h"
#include "local/command.h"
#include "local/resume-token.h"

/* Terms that no longer agree with the policy are refused, as by ACQUIRE; the bound on holding becomes the
 * smaller one. */
static bool terms_are_fine(struct session *session, struct front_state *service,
                           const struct policy_limits *terms, struct resume_token *secret,
                           instant_ns now_ns) {
    if (secret->ttl_ms < TTL_MS_MIN || secret->ttl_ms > service->policy.max_ttl_ms ||
        (secret->heartbeat_ms != 0 && secret->heartbeat_ms < TTL_MS_MIN) ||
        secret->linger_ms > service->policy.max_ttl_ms) {
        session_error(session, service, "BADARG",
                      "the lease's ttl, heartbeat or linger is not allowed here");
        return false;
    }
    if (terms->max_hold_ms > 0)
        secret->hold_until_ns =
            instant_min(secret->hold_until_ns, instant_add(now_ns, terms->max_hold_ms * NS_PER_MS));
    if (now_ns >= secret->hold_until_ns) {
        session_error(session, service, "NOTHELD", "it was held for as long as allowed");
        return false;
    }
    return true;
}

const struct option command_resume_options[RESUME_OPTIONS] = {
    [RESUME_WAIT] = {"WAIT", OPTION_MILLISECONDS, 0, OPTION_MAX_TTL},
    [RESUME_ASYNC] = {"ASYNC", OPTION_FLAG, 0, 0},
};

void command_resume(struct session *session, struct front_state *service, const struct resp_token *arguments,
                    size_t n_arguments, instant_ns now_ns) {
    const char *trouble = argument_name_trouble(arguments[0].text, arguments[0].length);
    struct option_value options[RESUME_OPTIONS] = {0};
    struct resume_token secret;
    char tail[LOCK_VALUE_TAIL_BYTES_MAX];

    if (trouble) {
        session_error(session, service, "BADNAME", "%s", trouble);
        return;
    }
    if (!resume_token_read(arguments[1].text, arguments[1].length, &secret)) {
        session_error(session, service, "BADARG", "this is no secret of a lease");
        return;
    }
    options[RESUME_WAIT].ms = secret.ttl_ms; /* by then its keys have gone */
    const struct policy_limits terms =
        policy_limits_of(&service->policy, arguments[0].text, arguments[0].length);
    struct registry_ask ask = {
        .name = arguments[0].text,
        .name_length = arguments[0].length,
        .tail = tail,
        .tail_length =
            lock_value_put_tail(tail, session->pid, session->uid, secret.data, secret.data_length),
        .ttl_ms = secret.ttl_ms,
        .node_timeout_ms = policy_node_timeout_ms(&service->policy, secret.ttl_ms),
        .heartbeat_ms = secret.heartbeat_ms,
        .linger_ms = secret.linger_ms,
        .resumable = true,
        .resume = secret.value,
        .pid = session->pid,
        .uid = session->uid,
        .page = session->page,
    };
    if (!terms_are_fine(session, service, &terms, &secret, now_ns) ||
        !option_read(session, service, command_resume_options, RESUME_OPTIONS, arguments + 2,
                     n_arguments - 2, options))
        return;
    ask.wait_ms = options[RESUME_WAIT].ms;
    ask.async = options[RESUME_ASYNC].given;
    ask.hold_until_ns = secret.hold_until_ns;
    ask.token = secret.token;
    command_ask(session, service, &ask, now_ns);
}
