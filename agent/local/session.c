#include "local/session.h"

/* A new user of an account does not owe the former user's pauses. (Several users share account 0.) */
static void take_account(struct session *session) {
    struct front_state *front = session->front;
    uint8_t account = quota_charge(&front->registry.quota, session->uid, QUOTA_SESSIONS, 1);

    session->account = account;
    quota_charge_account(&front->registry.quota, account, QUOTA_DESCRIPTORS, SESSION_DESCRIPTORS);
    if (account == 0 || front->users[account] == session->uid)
        return;
    front->users[account] = session->uid;
    work_share_forget(&front->work, account);
    front->observers.paused_until_ns[account] = 0;
}

void session_init(struct session *session, struct front_state *front, uint64_t id, pid_t pid, uid_t uid) {
    const struct policy_peer peer = {.uid = uid, .gid = (gid_t) -1};

    *session = (struct session){.front = front, .id = id, .protocol = 2, .pid = pid, .uid = uid};
    admission_requester_init(&session->requester);
    list_init(&session->observations);
    list_init(&session->listing_link);
    list_init(&session->query_link);
    take_account(session);
    session_set_peer(session, &peer);
    front->sessions++;
}

void session_set_peer(struct session *session, const struct policy_peer *peer) {
    session->gid = peer->gid;
    session->unit = peer->unit;
    session->rules_unknown = policy_rules_unknown(&session->front->policy, peer);
    session->rules = policy_rules_of(&session->front->policy, peer) | session->rules_unknown;
}

bool session_rule_is_unknown(const struct session *session, const struct policy_rule *rule) {
    unsigned number = policy_number(&session->front->policy, rule);

    return number > 0 && (session->rules_unknown >> (number - 1) & 1);
}

bool session_may(const struct session *session, enum policy_action action, const char *name, size_t length) {
    const struct policy *policy = &session->front->policy;
    const struct policy_rule *rule = session_rule(session, name, length);

    return action == POLICY_FREE || session_is_trusted(session) ||
           (!session_rule_is_unknown(session, rule) &&
            (policy_limits_of(policy, rule)->may & POLICY_MAY(action)));
}
