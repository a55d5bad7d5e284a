#include "local/call.h"

#include "local/argument.h"
#include "local/reply.h"

bool call_has_name(const struct call *call) {
    const char *fault = argument_name_fault(call->arguments[0].text, call->arguments[0].length);

    if (fault)
        reply_error(call->session, "BADNAME", "%s", fault);
    return !fault;
}

bool call_may(const struct call *call, enum policy_action action, const char *name, size_t length) {
    struct session *session = call->session;
    const struct policy_rule *rule = session_rule(session, name, length);

    if (session_may(session, action, name, length))
        return true;
    if (session_rule_is_unknown(session, rule))
        reply_error(session, "DENIED",
                    "rule \"%s\" (line %u) may be for this process, whose groups or unit can't be read, so "
                    "'%s' is denied: connect again, from a process that lives on",
                    rule->pattern, rule->line, policy_word(action));
    else if (rule)
        reply_error(session, "DENIED",
                    "rule \"%s\" (line %u) does not allow '%s' to user %u: its may has to list the word",
                    rule->pattern, rule->line, policy_word(action), session->uid);
    else
        reply_error(session, "DENIED",
                    "no rule allows '%s' to user %u, and without a rule only root and the agent's own user "
                    "may: a rule whose may lists the word grants it",
                    policy_word(action), session->uid);
    return false;
}
