#include "local/rule-count.h"

#include "local/request.h"
#include "local/session.h"

uint8_t rule_count_number(const struct front_state *front, const struct session *session, uid_t uid,
                          const char *name, size_t length) {
    const struct policy *policy = &front->policy;
    const struct policy_peer peer = {.uid = uid, .gid = (gid_t) -1};
    policy_rules rules = session ? session->rules : policy_rules_of(policy, &peer);

    return (uint8_t) policy_number(policy, policy_find(policy, rules, name, length));
}

/* A session that has ended, or that the agent has closed, gets no rules of the new policy. Its lease stays
 * under the same rule as before if there is one. */
static void count_again(struct front_state *front, struct request *request) {
    const struct shared_string *name = request->name->key.text;
    const struct session *session = request->session;

    if (session && session->state == SESSION_QUITTING)
        session = NULL;
    if (session || request->rule == 0)
        request_set_rule(&front->registry, request,
                         rule_count_number(front, session, request->uid, name->bytes, name->head_length));
}

void rule_count_again(struct front_state *front) {
    struct request *request;

    for (uint32_t slot = 0; (request = registry_next(&front->registry, &slot));)
        if (request->name) /* else it is being released, and counts under no rule */
            count_again(front, request);
}
