#include "local/whoami.h"

#include "local/call.h"
#include "local/quota-listing.h"
#include "local/reply.h"

/* 0, "no bound", for a limit that no rule sets. */
static void put_limits(struct resp_writer *writer, const struct session *session,
                       const struct policy_rule *rule) {
    const struct policy *policy = &session->front->policy;
    const struct policy_limits *limits = policy_limits_of(policy, rule);
    const struct quota_rule_use use =
        quota_rule_use(&session->front->registry.quota, session->uid, (uint8_t) policy_number(policy, rule));

    int64_t max_ttl_ms = policy_max_ttl_ms(policy, limits);

    reply_put_integer_pair(writer, "default_ttl", instant_min(limits->default_ttl_ms, max_ttl_ms));
    reply_put_integer_pair(writer, "max_ttl", max_ttl_ms);
    reply_put_integer_pair(writer, "max_hold", limits->max_hold_ms);
    reply_put_integer_pair(writer, "max_leases", limits->max_leases);
    reply_put_integer_pair(writer, "leases", use.leases);
    reply_put_integer_pair(writer, "max_waiters", limits->max_waiters);
    reply_put_integer_pair(writer, "waiters", use.waiters);
}

static void put_may(struct resp_writer *writer, const struct session *session,
                    const struct resp_token *name) {
    bool may[POLICY_ACTIONS];
    size_t n = 0;

    for (unsigned action = POLICY_FREE + 1; action < POLICY_ACTIONS; action++)
        n += may[action] = session_may(session, (enum policy_action) action, name->text, name->length);
    reply_put_text(writer, "may");
    resp_put_array(writer, n);
    for (unsigned action = POLICY_FREE + 1; action < POLICY_ACTIONS; action++)
        if (may[action])
            reply_put_text(writer, policy_word((enum policy_action) action));
}

void whoami_command(const struct call *call) {
    static const struct resp_token no_name = {.text = ""};
    const struct session *session = call->session;
    const struct resp_token *name = call->n_arguments > 0 ? &call->arguments[0] : &no_name;

    if (call->n_arguments > 0 && !call_has_name(call))
        return;
    const struct policy_rule *rule = session_rule(session, name->text, name->length);
    struct resp_writer writer = reply_begin(session);
    resp_put_map(&writer, 16, session->protocol);
    reply_put_integer_pair(&writer, "uid", session->uid);
    reply_put_integer_pair(&writer, "gid", session->gid == (gid_t) -1 ? -1 : (int64_t) session->gid);
    reply_put_integer_pair(&writer, "pid", session->pid);
    reply_put_text_pair(&writer, "unit", session->unit ? session->unit : "");
    reply_put_text(&writer, "name");
    resp_put_bulk(&writer, name->text, name->length);
    reply_put_text_pair(&writer, "rule", rule ? rule->pattern : "");
    reply_put_integer_pair(&writer, "line", rule ? rule->line : 0);
    put_may(&writer, session, name);
    put_limits(&writer, session, rule);
    quota_listing_put(&writer, session, false);
    reply_send(call->session, &writer);
}
