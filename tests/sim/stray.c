/* Stray keys: a request that failed leaves none, as far as nothing hinders its agent. */

#include <string.h>

#include "sim.h"

enum { ATTEMPTS_MAX = 32, STRAY_MS = 1500 /* releases are held back for a second at most */ };

static struct attempt {
    uint8_t secret[SECRET_BYTES];
    uint8_t agent, name;
    uint16_t pid;
    uint32_t life;     /* of the agent */
    int64_t sent_ns;   /* true time */
    int64_t failed_ns; /* 0: it has not failed */
} all[ATTEMPTS_MAX];
static unsigned next;

void stray_reset(void) {
    memset(all, 0, sizeof(all));
    next = 0;
}

/* The keeper sends an ACQUIRE: another one of its request has another value. */
void stray_sent(const struct sim_keeper *keeper, unsigned name, const struct sim_request *request) {
    struct attempt *last = &all[(next + ATTEMPTS_MAX - 1) % ATTEMPTS_MAX];

    if (memcmp(last->secret, request->secret, SECRET_BYTES) == 0)
        return;
    all[next] = (struct attempt){.agent = (uint8_t) keeper->agent->index,
                                 .name = (uint8_t) name,
                                 .pid = request->tail.pid,
                                 .life = keeper->agent->life,
                                 .sent_ns = sim_now_ns};
    memcpy(all[next].secret, request->secret, SECRET_BYTES);
    next = (next + 1) % ATTEMPTS_MAX;
}

/* A node has executed this request so late that the agent counts its key as expired. */
void stray_late(const struct sim_request *request) {
    for (unsigned i = 0; i < ATTEMPTS_MAX; i++)
        if (memcmp(all[i].secret, request->secret, SECRET_BYTES) == 0)
            all[i] = (struct attempt){.failed_ns = 0};
}

void stray_failed(unsigned agent, unsigned name, unsigned pid, int64_t asked_ns) {
    for (unsigned i = 0; i < ATTEMPTS_MAX; i++)
        if (all[i].failed_ns == 0 && all[i].agent == agent && all[i].name == name && all[i].pid == pid &&
            all[i].sent_ns >= asked_ns)
            all[i].failed_ns = sim_now_ns;
}

void stray_check(unsigned agent, int64_t untroubled_since_ns) {
    for (unsigned i = 0; i < ATTEMPTS_MAX; i++) {
        const struct attempt *attempt = &all[i];
        if (attempt->failed_ns == 0 || attempt->agent != agent || attempt->life != sim_agents[agent].life ||
            sim_now_ns < instant_max(attempt->failed_ns, untroubled_since_ns) + STRAY_MS * NS_PER_MS ||
            clients_want(agent, attempt->name))
            continue; /* another request may have continued the attempt */
        for (unsigned j = 0; j < sim_n_nodes; j++) {
            const struct sim_key *key = &sim_nodes[j].data.keys[attempt->name];
            if (key->set && memcmp(key->secret, attempt->secret, SECRET_BYTES) == 0 &&
                node_key_left_ns(&sim_nodes[j], attempt->name) > 0)
                violation("node %u has the key of name %u, for a request of pid %u that failed %lld ms ago",
                          j, attempt->name, attempt->pid,
                          (long long) ((sim_now_ns - attempt->failed_ns) / NS_PER_MS));
        }
    }
}
