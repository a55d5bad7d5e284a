/* The rules of an agent's configuration, and what redlockd.conf(5) promises of them to a client. */

#include "agent.h"
#include "clients.h"
#include "rules.h"

static const uint32_t max_ttls_ms[] = {0, 0, 100, 300, 1000};
static const uint32_t max_holds_ms[] = {0, 0, 0, 400, 3000};

static char *choose_pattern(void) {
    static char patterns[][2] = {"0", "1", "*"};

    return patterns[pick(0, 2)];
}

static uint32_t shorter_ms(uint32_t one_ms, uint32_t other_ms) {
    return one_ms == 0 || (other_ms > 0 && other_ms < one_ms) ? other_ms : one_ms;
}

static void choose_rule(const struct sim_agent *agent, struct policy_rule *rule, uid_t *user) {
    static const unsigned rights[] = {POLICY_MAY_DEFAULT, POLICY_MAY_DEFAULT, POLICY_MAY_DEFAULT,
                                      POLICY_MAY(POLICY_ACQUIRE), POLICY_MAY(POLICY_RESUME)};
    uint32_t max_ttl_ms = shorter_ms(sim_scale * max_ttls_ms[pick(0, 4)], agent->max_ttl_ms);

    *user = (uid_t) (SIM_AGENT_UID + pick(0, 2));
    *rule = (struct policy_rule){.pattern = choose_pattern(),
                                 .users = {user, chance(60)},
                                 .terms = {.default_ttl_ms = chance(50) ? max_ttl_ms : TTL_MS_MIN,
                                           .max_ttl_ms = max_ttl_ms < agent->max_ttl_ms ? max_ttl_ms : 0,
                                           .max_hold_ms = sim_scale * max_holds_ms[pick(0, 4)],
                                           .may = rights[pick(0, 4)],
                                           .max_leases = chance(15) ? (unsigned) pick(1, 2) : 0,
                                           .max_waiters = chance(15) ? (unsigned) pick(1, 2) : 0,
                                           .fencing = sim_fencing && chance(90)}};
}

void rules_choose(struct sim_agent *agent) {
    agent->policy.rules = agent->rules;
    agent->policy.n_rules = chance(35) ? (unsigned) pick(1, SIM_RULES_MAX) : 0;
    for (unsigned i = 0; i < agent->policy.n_rules; i++)
        choose_rule(agent, &agent->rules[i], &agent->rule_users[i]);
}

void rules_apply(struct sim_agent *agent) {
    uint8_t numbers[RULES_MAX + 1] = {0};

    if (agent->policy.n_rules == 0)
        return;
    registry_set_rules(&agent->front.registry, agent->rules, numbers);
}

static unsigned find(const struct sim_agent *agent, unsigned client, unsigned name) {
    for (unsigned i = 0; i < agent->policy.n_rules; i++) {
        const struct policy_rule *rule = &agent->rules[i];
        bool for_name = rule->pattern[0] == '*' || rule->pattern[0] == (char) ('0' + name);
        if (for_name && (rule->users.n == 0 || rule->users.all[0] == client_uid(client)))
            return i + 1;
    }
    return 0;
}

struct sim_rule rules_of(const struct sim_agent *agent, unsigned client, unsigned name) {
    unsigned number = find(agent, client, name);
    const struct policy_limits *terms = number > 0 ? &agent->rules[number - 1].terms : &agent->policy.terms;
    bool trusted = client_uid(client) == SIM_AGENT_UID;

    return (struct sim_rule){
        .number = number,
        .may_acquire = trusted || terms->may & POLICY_MAY(POLICY_ACQUIRE),
        .may_resume = trusted || terms->may & POLICY_MAY(POLICY_RESUME),
        .may_leader = trusted || terms->may & POLICY_MAY(POLICY_LEADER),
        .default_ttl_ms = shorter_ms((uint32_t) terms->default_ttl_ms, agent->max_ttl_ms),
        .max_ttl_ms = shorter_ms((uint32_t) terms->max_ttl_ms, agent->max_ttl_ms),
        .max_hold_ms = (uint32_t) terms->max_hold_ms,
        .fencing = terms->fencing,
        .max_leases = trusted ? 0 : terms->max_leases,
        .max_waiters = trusted ? 0 : terms->max_waiters,
    };
}
