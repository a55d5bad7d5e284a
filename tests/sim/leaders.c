#include "leaders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "calm.h"
#include "client.h"
#include "clients.h"
#include "observer.h"
#include "reply-map.h"

enum {
    QUERY_MS = 500,     /* an observer's question is answered by then, and a push sent */
    UNKNOWN_MS = 8000,  /* protocol.md says 5 to 7 s, from the last answer, */
    KNOWN_MS = 5000,    /* not before */
    EXTENDED_MS = 1500, /* a lease that is so old has been extended on all nodes */
    SHOWN_MS = 3000,    /* protocol.md says about a second, and one more after many pushes */
};

static const struct sim_agent *agent; /* the reader's; NULL: none yet */

/* The last LEADER. */
static struct {
    unsigned name;
    int64_t true_asked_ns;
    bool untroubled; /* the agent, then */
} question;

/* What OBSERVE shows. */
static struct {
    bool observed;
    int64_t true_observed_ns; /* since when */
    char leader[64];          /* of the last push */
    int64_t answered_ns;      /* when all nodes answered, by the host's clock; 0: not yet */
} names[SIM_NAMES];

/* When each client's lease was granted, in true time, as far as it was held since. */
static int64_t true_since_ns[SIM_CLIENTS_MAX];

void leaders_reset(void) {
    agent = NULL;
    memset(&question, 0, sizeof(question));
    memset(names, 0, sizeof(names));
    memset(true_since_ns, 0, sizeof(true_since_ns));
}

void leaders_begin(const struct sim_agent *readers) {
    agent = readers;
    for (unsigned name = 0; name < SIM_NAMES; name++) {
        names[name].observed = false;
        names[name].leader[0] = '\0';
        names[name].answered_ns = 0;
    }
}

void leaders_asked(unsigned name) {
    question.name = name;
    question.true_asked_ns = sim_now_ns;
    question.untroubled = agent_is_untroubled(agent);
}

void leaders_observe(unsigned name) {
    if (!names[name].observed)
        names[name].true_observed_ns = sim_now_ns;
    names[name].observed = true;
}

void leaders_unobserve(unsigned name) {
    names[name].observed = false;
    names[name].leader[0] = '\0';
}

unsigned leaders_observed(void) {
    unsigned n = 0;

    for (unsigned name = 0; name < SIM_NAMES; name++)
        n += names[name].observed;
    return n;
}

void leaders_granted(unsigned client, bool in_calm) {
    true_since_ns[client] = in_calm ? sim_now_ns : 0;
}

void leaders_resumes(unsigned client) {
    true_since_ns[client] = 0;
}

/* The client whose lease all nodes have had since then; NULL: none, or it is not certain. In the calm no
 * node loses a key, and an extension sets keys that are missing. */
static const struct client *certain_holder(unsigned name, int64_t true_ns) {
    for (unsigned i = 0; i < sim_n_clients; i++) {
        const struct client *client = &sim_clients[i];
        if (client->name == name && client->holding && exclusion_holds(client) && true_since_ns[i] > 0 &&
            true_since_ns[i] < true_ns - EXTENDED_MS * NS_PER_MS &&
            agent_is_untroubled(client_agent(client)))
            return client;
    }
    return NULL;
}

/* "host:agent:pid", and what this client may have asked to publish. */
static void check_holder(const struct resp_token *holder, const struct resp_token *data) {
    char text[64], word[16];
    int end = 0;
    unsigned host, pid;

    (void) snprintf(text, sizeof(text), "%.*s", (int) holder->length, holder->text);
    if (sscanf(text, "h%u:%*8[0-9a-f]:%u%n", &host, &pid, &end) != 2 || text[end] != '\0' || host == 0 ||
        host > sim_n_agents || client_of_pid(pid) >= sim_n_clients) {
        violation("LEADER shows %s as a holder", text);
        return;
    }
    (void) snprintf(word, sizeof(word), "d%u", 1 + client_of_pid(pid) % 4);
    if (data->length > 0 && !reply_map_is(data, word))
        violation("LEADER shows %.*s as the data of client %u", (int) data->length, data->text,
                  client_of_pid(pid));
}

/* Not more than a majority of the nodes had since the question. */
static void check_left(const struct resp_token *holder, int64_t validity_ms) {
    const char *at = memrchr(holder->text, ':', holder->length);
    unsigned client = client_of_pid(at ? (unsigned) strtoul(at + 1, NULL, 10) : 0);
    int64_t since_ns = sim_now_ns - question.true_asked_ns, left_ns;

    if (sim_steps || sim_sets_differ || client >= sim_n_clients ||
        !observer_left_ns(client, question.name, question.true_asked_ns, &left_ns))
        return;
    if (validity_ms > (left_ns + since_ns + since_ns / 50) / NS_PER_MS + 1)
        violation("LEADER shows %lld ms for name %u, and a majority has %lld", (long long) validity_ms,
                  question.name, (long long) (left_ns / NS_PER_MS));
}

void leaders_check_reply(const struct resp_token *reply) {
    bool sees_all = !sim_sets_differ && question.untroubled && agent_is_untroubled(agent);
    const struct client *holder = sees_all ? certain_holder(question.name, question.true_asked_ns) : NULL;
    char text[64];

    if (reply->type == RESP_ERROR)
        return;
    if (reply->type == RESP_NIL) {
        if (holder)
            violation("LEADER shows no holder of name %u, which client %u holds", question.name,
                      client_index(holder));
        return;
    }
    const struct resp_token *shown = reply_map_value(reply, "holder"),
                            *data = reply_map_value(reply, "data");
    if (shown && data && !reply_map_has(reply, "host", "")) {
        check_holder(shown, data);
        check_left(shown, reply_map_number(reply, "validity"));
    }
    if (!shown || !data || reply_map_number(reply, "validity") < -1) {
        violation("LEADER shows impossible values");
        return;
    }
    (void) snprintf(text, sizeof(text), "h%u", holder ? sim_agents[holder->agent].host + 1 : 0);
    if (holder && !reply_map_has(reply, "host", text))
        violation("LEADER shows %.*s as the holder of name %u, which client %u holds", (int) shown->length,
                  shown->text, question.name, client_index(holder));
    int64_t fence = reply_map_number(reply, "fence");
    if (holder && holder->fence != 0 && fence != 0 && fence != holder->fence)
        violation("LEADER shows token %lld, and the holder of name %u has %lld", (long long) fence,
                  question.name, (long long) holder->fence);
}

/* Neither the front nor a keeper of the reader's agent has stood still since then. */
static bool has_run_since(int64_t true_ns) {
    bool has_run = instant_max(agent->started_ns, agent->paused_until_ns) < true_ns;

    for (unsigned i = 0; i < sim_n_keepers; i++)
        has_run = has_run && agent->keepers[i].paused_until_ns < true_ns;
    return has_run;
}

/* No client holds the name by keys that a majority has had since before the question. */
static void check_free(unsigned name) {
    int64_t since_ns = sim_now_ns - QUERY_MS * NS_PER_MS, left_ns;

    if (sim_steps || sim_sets_differ || !has_run_since(since_ns))
        return;
    for (unsigned i = 0; i < sim_n_clients; i++)
        if (observer_left_ns(i, name, since_ns, &left_ns))
            violation("a push shows that name %u is free, which client %u holds", name, i);
}

/* When no node has answered for UNKNOWN_MS, the last push of each observed name must be `unknown`. */
static void check_unknown(void) {
    for (unsigned name = 0; name < SIM_NAMES; name++) {
        int64_t since_ns = instant_max(names[name].true_observed_ns, sim_dark_from_ns);
        if (names[name].observed && sim_now_ns < sim_dark_until_ns && has_run_since(since_ns) &&
            sim_now_ns > since_ns + UNKNOWN_MS * NS_PER_MS && names[name].leader[0] != 'u')
            violation("no node has answered for %lld ms, and name %u is not shown as unknown",
                      (long long) ((sim_now_ns - since_ns) / NS_PER_MS), name);
    }
}

/* In the calm, the last push of each observed name shows what all nodes have had for SHOWN_MS. */
static void check_shown(void) {
    int64_t drift_ms = sim_longest_ttl_ms / 50; /* a cooldown ends by the agent's clock */
    int64_t since_ns = sim_now_ns - (SHOWN_MS + drift_ms) * NS_PER_MS;
    char holds[16];

    if (!calm_is_untroubled_since(agent->index, since_ns))
        return;
    for (unsigned name = 0; name < SIM_NAMES; name++) {
        int64_t free_ns = calm_since_ns(name, agent->index);
        const struct client *holder = certain_holder(name, since_ns);
        const char *shown = names[name].leader;

        if (!names[name].observed || names[name].true_observed_ns > since_ns)
            continue;
        (void) snprintf(holds, sizeof(holds), "h%u:", holder ? sim_agents[holder->agent].host + 1 : 0);
        if (free_ns != 0 && free_ns < since_ns && shown[0] != 'f')
            violation("name %u has been free for %lld ms, and its observer sees %s", name,
                      (long long) ((sim_now_ns - free_ns) / NS_PER_MS), shown);
        if (holder && strncmp(shown, holds, strlen(holds)) != 0)
            violation("client %u holds name %u, and its observer sees %s", client_index(holder), name,
                      shown);
    }
}

void leaders_check_pushes(void) {
    check_unknown();
    check_shown();
}

void leaders_all_answered(const struct sim_agent *answered, unsigned name) {
    if (answered == agent)
        names[name].answered_ns = clock_read(&agent->clock);
}

/* No majority has answered for KNOWN_MS. */
static void check_outage(unsigned name) {
    int64_t since_ns = clock_read(&agent->clock) - names[name].answered_ns;

    if (names[name].answered_ns != 0 && since_ns < KNOWN_MS * NS_PER_MS)
        violation("name %u is shown as unknown %lld ms after all nodes answered", name,
                  (long long) (since_ns / NS_PER_MS));
}

/* No push repeats the last one. */
void leaders_read_push(const struct resp_token *push) {
    unsigned name = (unsigned) (push[2].length == 1 ? push[2].text[0] - '0' : SIM_NAMES);
    const struct resp_token *map = &push[3], *holder = reply_map_value(map, "holder");
    char shown[64];

    if (!reply_map_is(&push[1], "leader") || name >= SIM_NAMES || !names[name].observed) {
        violation("the reader gets a push that it did not ask for");
        return;
    }
    bool held = reply_map_has(map, "state", "held");
    if (held != (holder != NULL) ||
        (!held && !reply_map_has(map, "state", "free") && !reply_map_has(map, "state", "unknown")) ||
        reply_map_number(map, "since") < 0)
        violation("a push shows an impossible leader");
    (void) snprintf(shown, sizeof(shown), "%.*s %lld", holder ? (int) holder->length : 1,
                    holder                                ? holder->text
                    : reply_map_has(map, "state", "free") ? "f"
                                                          : "u",
                    (long long) (holder ? reply_map_number(map, "fence") : 0));
    if (strcmp(shown, names[name].leader) == 0 && !holder)
        violation("a push repeats the last one, %s", shown);
    if (shown[0] == 'f')
        check_free(name);
    else if (shown[0] == 'u')
        check_outage(name);
    memcpy(names[name].leader, shown, sizeof(shown));
}
