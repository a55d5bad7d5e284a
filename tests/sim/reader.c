/* A reader: one more session, of a user who may see everything. It asks one agent after another what they
 * know of leases and nodes. The answers must agree with each other, and with what the clients know at this
 * instant. */

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "calm.h"
#include "client.h"
#include "clients.h"
#include "events.h"
#include "front.h"
#include "lingering.h"
#include "observer.h"
#include "other-library.h"
#include "reader.h"
#include "resp.h"

enum {
    TOKENS_MAX = 8192,
    QUESTIONS_MAX = 8,
    ANSWERED_MS = 5000, /* at the latest, if nothing troubles the agent */
    QUERY_MS = 500,     /* an observer's question is answered by then, and a push sent */
    UNKNOWN_MS = 8000,  /* protocol.md says 5 to 7 s, from the last answer, */
    KNOWN_MS = 5000,    /* not before */
    BLESSING_MS = 4000, /* by then a command has reached the nodes */
    EXTENDED_MS = 1500, /* a lease that is so old has been extended on all nodes */
    SHOWN_MS = 3000,    /* protocol.md says about a second, and one more after many pushes */
};

enum question {
    QUESTION_OTHER,
    QUESTION_LEASES,
    QUESTION_STATUS,
    QUESTION_NODES,
    QUESTION_METRICS,
    QUESTION_LEADER,
    QUESTION_EXAMPLE
};

static struct {
    unsigned agent;
    enum question asked[QUESTIONS_MAX];
    unsigned n_asked;
    unsigned example; /* the last one */
    int64_t true_asked_ns;
    unsigned name;                   /* of LEADER */
    bool untroubled;                 /* the agent, then */
    unsigned held, waiting, cooling; /* in the last LEASES, */
    bool counted;                    /* which was answered at this instant */
    int64_t voting;                  /* in the last STATUS */
    bool observes[SIM_NAMES];
    int64_t true_observed_ns[SIM_NAMES]; /* since when */
    char leaders[SIM_NAMES][64];         /* of the last pushes */
    int64_t answered_ns[SIM_NAMES];      /* when all nodes answered, by the host's clock; 0: not yet */
} reader;

static struct resp_token tokens[TOKENS_MAX];

/* Requests whose answer is the same at any time, and how it begins; at the end of a line, the whole
 * answer. */
static const struct {
    const char *request, *answer;
} examples[] = {
    {"PING", "+PONG\r\n"},
    {"ping hello", "$5\r\nhello\r\n"},
    {"ECHO hello", "$5\r\nhello\r\n"},
    {"ECHO", "-ERR wrong number of arguments for ECHO: 0 given, 1 expected\r\n"},
    {"ECHO a b", "-ERR wrong number of arguments for ECHO: 2 given, 1 expected\r\n"},
    {"PIN", "-ERR unknown command 'PIN'; "},
    {"SELECT 0", "+OK\r\n"},
    {"SELECT 1", "-BADARG there is only database 0\r\n"},
    {"HELLO 4", "-NOPROTO "},
    {"HELLO 3 SETNAME reader", "%9\r\n$6\r\nserver\r\n$8\r\nredlockd\r\n"},
    {"HELLO 3 SETNAME", "-ERR HELLO takes "},
    {"CLIENT SETNAME reader", "+OK\r\n"},
    {"CLIENT SETNAME", "-ERR CLIENT knows "},
    {"CLIENT SETINFO a b", "+OK\r\n"},
    {"COMMAND COUNT", ":25\r\n"},
    {"COMMAND DOCS", "%0\r\n"},
    {"CHECK 1", ":0\r\n"},
    {"BEAT 1", ":0\r\n"},
    {"RELEASE 1", ":0\r\n"},
    {"RELEASE x", "-BADARG an id is "},
    {"RELEASE 9007199254740993", "-BADARG an id is "},
    {"ACQUIRE 0 TTL 99", "-BADARG TTL wants milliseconds from 100 to "},
    {"ACQUIRE 0 TTL 1e3", "-BADARG TTL wants "},
    {"ACQUIRE 0 TTL -100", "-BADARG TTL wants "},
    {"ACQUIRE 0 TTL", "-BADARG TTL wants "},
    {"ACQUIRE 0 TTL 100 TTL 100", "-BADARG TTL is given twice\r\n"},
    {"ACQUIRE 0 TTL 99999999", "-BADARG TTL wants "},
    {"ACQUIRE 0 WAIT -2", "-BADARG WAIT wants milliseconds from -1"},
    {"ACQUIRE 0 WAIT -", "-BADARG WAIT wants "},
    {"ACQUIRE 0 HEARTBEAT 99", "-BADARG HEARTBEAT wants "},
    {"ACQUIRE 0 LINGER -1", "-BADARG LINGER wants milliseconds from 0 to "},
    {"ACQUIRE 0 COOLDOWN 99999999", "-BADARG COOLDOWN wants "},
    {"ACQUIRE 0 SOON", "-BADARG unknown option number 1; "},
    {"ACQUIRE 0 ASYNC SOON", "-BADARG unknown option number 2; "},
    {"ACQUIRE redlockd:x", "-BADNAME names that begin with 'redlockd:' are the agent's own\r\n"},
    {"LEADER redlockd:x", "-BADNAME "},
    {"OBSERVE redlockd:x", "-BADNAME "},
    {"ACQUIRE \xff", "-BADNAME a name is valid UTF-8\r\n"},
    {"ACQUIRE \xc2\x85", "-BADNAME a name has no control characters\r\n"},
    {"RESUME 0 1-00", "-BADARG this is not the secret of a lease\r\n"},
    {"RESUME 0", "-ERR wrong number of arguments for RESUME: 1 given, "},
    {"LEASES FROM 1", "-BADARG LEASES takes "},
    {"LEASES LATEST 0", "-BADARG LEASES takes "},
    {"BLESS nothing", "-BADARG no node has this name; "},
    {"WHOAMI", "%16\r\n$3\r\nuid\r\n:1000\r\n"},
    {"FLUSHALL", "-ERR unknown command 'FLUSHALL'; "},
};

enum { EXAMPLES = sizeof(examples) / sizeof(examples[0]) };

/* When each client's lease was granted, in true time, as far as it was held since. */
static int64_t true_since_ns[SIM_CLIENTS_MAX];

static struct sim_agent *agent_here(void) {
    return &sim_agents[reader.agent];
}

static int64_t host_now(void) {
    return clock_read(&agent_here()->clock);
}

/* --- maps --- */

static bool is(const struct resp_token *token, const char *word) {
    return token->length == strlen(word) && memcmp(token->text, word, token->length) == 0 &&
           (token->type == RESP_BULK || token->type == RESP_STRING);
}

/* The value of the key in this map of plain values; NULL: none. */
static const struct resp_token *value_of(const struct resp_token *map, const char *key) {
    for (uint32_t i = 0; map->type == RESP_MAP && i < map->count; i++)
        if (is(&map[1 + 2 * i], key))
            return &map[2 + 2 * i];
    return NULL;
}

static int64_t number_of(const struct resp_token *map, const char *key) {
    const struct resp_token *value = value_of(map, key);

    if (!value || value->type != RESP_INTEGER)
        violation("an answer has no number for %s", key);
    return value ? value->integer : -1;
}

static bool has_word(const struct resp_token *map, const char *key, const char *word) {
    const struct resp_token *value = value_of(map, key);

    if (!value)
        violation("an answer has nothing for %s", key);
    return value && is(value, word);
}

/* --- LEASES --- */

/* The client knows this lease, and holds it by its session with this agent. */
static bool knows(const struct client *client, int64_t id) {
    return client->state == CLIENT_HOLDING && client->agent == reader.agent && (int64_t) client->id == id;
}

/* Other clients may have lost their lease and not know it, if another program took the keys. */
static bool is_certain(const struct client *client) {
    return exclusion_holds(client) && client->pushes;
}

static void check_known(const struct client *client, const struct resp_token *row) {
    char name[2] = {(char) ('0' + client->name)};
    int64_t left_ns = instant_max(client->deadline_ns - host_now(), 0);

    if (!has_word(row, "name", name) || number_of(row, "fence") != client->fence ||
        number_of(row, "ttl") != client->lease.terms.ttl_ms ||
        number_of(row, "uid") != (int64_t) client_uid(client_index(client)))
        violation("LEASES shows another lease of client %u than it has", client_index(client));
    if (client->paged && client->holding && number_of(row, "validity") != left_ns / NS_PER_MS)
        violation("LEASES shows %lld ms left for client %u, which has %lld",
                  (long long) number_of(row, "validity"), client_index(client),
                  (long long) (left_ns / NS_PER_MS));
    if (number_of(row, "cooldown") > client->lease.terms.cooldown_ms)
        violation("LEASES shows a longer cooldown for client %u than it asked for", client_index(client));
}

static void check_row(const struct resp_token *row) {
    int64_t index = client_of_pid((unsigned) number_of(row, "pid")), ttl_ms = number_of(row, "ttl");
    bool held = has_word(row, "state", "held") || has_word(row, "state", "at-risk");
    bool lingers = has_word(row, "state", "lingering"), waits = has_word(row, "state", "waiting");
    bool cools = has_word(row, "state", "cooling");

    if (index < 0 || index >= (int64_t) sim_n_clients) {
        violation("LEASES shows a lease of no client");
        return;
    }
    const struct client *client = &sim_clients[index];
    reader.held += held || lingers;
    reader.waiting += waits;
    reader.cooling += cools;
    if (held + lingers + waits + cools != 1)
        violation("LEASES shows an unknown state");
    if (number_of(row, "validity") > ttl_ms || number_of(row, "age") < 0 ||
        (number_of(row, "validity") > 0 && (waits || cools)) ||
        (cools && number_of(row, "cooldown") > agent_here()->max_ttl_ms))
        violation("LEASES shows impossible numbers for client %lld", (long long) index);
    if (knows(client, number_of(row, "id"))) {
        if (held)
            check_known(client, row);
        else if (is_certain(client))
            violation("LEASES shows that client %lld does not hold its lease", (long long) index);
    }
}

/* Each lease that a client holds is there once. */
static void check_leases(void) {
    const struct resp_token *row = &tokens[1];

    reader.held = reader.waiting = reader.cooling = 0;
    for (uint32_t i = 0; i < tokens[0].count; i++, row += 1 + 2 * row->count)
        check_row(row);
    for (unsigned i = 0; i < sim_n_clients; i++) {
        const struct client *client = &sim_clients[i];
        unsigned n = 0;
        if (!knows(client, (int64_t) client->id) || !exclusion_holds(client))
            continue;
        row = &tokens[1];
        for (uint32_t j = 0; j < tokens[0].count; j++, row += 1 + 2 * row->count)
            n += number_of(row, "id") == (int64_t) client->id;
        if (n > 1 || (n == 0 && is_certain(client)))
            violation("LEASES shows the lease of client %u %u times", i, n);
    }
    reader.counted = true;
}

/* --- STATUS, NODES, METRICS: at the instant of LEASES --- */

/* What all users have of it. */
static int64_t quota_use(const char *limit) {
    const struct resp_token *quota = value_of(tokens, "quota"), *key = quota ? quota + 1 : NULL;

    for (uint32_t i = 0; quota && i < quota->count; i++, key += 2 + 2 * key[1].count)
        if (is(key, limit))
            return number_of(key + 1, "all");
    violation("STATUS has no use of %s", limit);
    return -1;
}

/* Only the reader observes. */
static void check_quota(void) {
    unsigned observed = 0;

    for (unsigned name = 0; name < SIM_NAMES; name++)
        observed += reader.observes[name];
    if (quota_use("max_leases") < reader.held + reader.waiting ||
        quota_use("max_observed_names") != observed || quota_use("max_observations") != observed)
        violation(
            "STATUS has a use of %lld leases and %lld observed names (%lld observations), not %u and %u",
            (long long) quota_use("max_leases"), (long long) quota_use("max_observed_names"),
            (long long) quota_use("max_observations"), reader.held + reader.waiting, observed);
}

static void check_status(void) {
    unsigned quorum = agent_here()->n_nodes / 2 + 1;

    reader.voting = number_of(tokens, "voting");
    if (number_of(tokens, "leases") != reader.held || number_of(tokens, "waiters") != reader.waiting ||
        number_of(tokens, "cooling") != reader.cooling)
        violation("STATUS counts %lld leases, %lld waiters and %lld names that cool, LEASES %u, %u and %u",
                  (long long) number_of(tokens, "leases"), (long long) number_of(tokens, "waiters"),
                  (long long) number_of(tokens, "cooling"), reader.held, reader.waiting, reader.cooling);
    if (number_of(tokens, "nodes") != agent_here()->n_nodes || number_of(tokens, "quorum") != quorum ||
        number_of(tokens, "keepers") != sim_n_keepers)
        violation("STATUS shows another agent");
    if (!has_word(tokens, "state", reader.voting >= (int64_t) quorum ? "ready" : "no-quorum"))
        violation("STATUS shows a wrong state");
    if (number_of(tokens, "sessions") < 1 || number_of(tokens, "uptime") < 0)
        violation("STATUS shows impossible numbers");
    check_quota();
}

static void check_nodes(void) {
    const struct resp_token *row = &tokens[1];
    int64_t voting = 0;

    if (tokens[0].count != agent_here()->n_nodes)
        violation("NODES shows %u nodes", tokens[0].count);
    for (uint32_t i = 0; i < tokens[0].count; i++, row += 1 + 2 * row->count) {
        char name[2] = {(char) ('a' + i)};
        voting += has_word(row, "state", "voting");
        if (!has_word(row, "name", name) || number_of(row, "since") < 0 || number_of(row, "until") < -1)
            violation("NODES shows node %u wrongly", i);
    }
    /* NODES shows a node's worst state of all keepers, STATUS the keeper with the fewest votes. */
    if (voting > reader.voting ||
        (voting < reader.voting && (sim_n_keepers == 1 || reader.voting == agent_here()->n_nodes)))
        violation("NODES shows %lld nodes that vote, STATUS %lld", (long long) voting,
                  (long long) reader.voting);
}

static bool has_line(const char *metric, int64_t value) {
    char line[96];

    (void) snprintf(line, sizeof(line), "\n%s %lld\n", metric, (long long) value);
    return memmem(tokens[0].text, tokens[0].length, line, strlen(line)) != NULL;
}

static void check_metrics(void) {
    if (!has_line("redlock_leases", reader.held) || !has_line("redlock_waiters", reader.waiting) ||
        !has_line("redlock_cooling_names", reader.cooling) ||
        !has_line("redlock_voting_nodes", reader.voting) ||
        !has_line("redlock_nodes", agent_here()->n_nodes) || !has_line("redlock_keepers", sim_n_keepers))
        violation("METRICS shows other numbers than STATUS");
}

/* --- LEADER and OBSERVE --- */

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
    if (data->length > 0 && !is(data, word))
        violation("LEADER shows %.*s as the data of client %u", (int) data->length, data->text,
                  client_of_pid(pid));
}

/* Not more than a majority of the nodes had since the question. */
static void check_left(const struct resp_token *holder, int64_t validity_ms) {
    const char *at = memrchr(holder->text, ':', holder->length);
    unsigned client = client_of_pid(at ? (unsigned) strtoul(at + 1, NULL, 10) : 0);
    int64_t since_ns = sim_now_ns - reader.true_asked_ns, left_ns;

    if (sim_steps || sim_sets_differ || client >= sim_n_clients ||
        !observer_left_ns(client, reader.name, reader.true_asked_ns, &left_ns))
        return;
    if (validity_ms > (left_ns + since_ns + since_ns / 50) / NS_PER_MS + 1)
        violation("LEADER shows %lld ms for name %u, and a majority has %lld", (long long) validity_ms,
                  reader.name, (long long) (left_ns / NS_PER_MS));
}

static void check_leader(void) {
    bool sees_all = !sim_sets_differ && reader.untroubled && agent_is_untroubled(agent_here());
    const struct client *holder = sees_all ? certain_holder(reader.name, reader.true_asked_ns) : NULL;
    char text[64];

    if (tokens[0].type == RESP_ERROR)
        return;
    if (tokens[0].type == RESP_NIL) {
        if (holder)
            violation("LEADER shows no holder of name %u, which client %u holds", reader.name,
                      client_index(holder));
        return;
    }
    const struct resp_token *shown = value_of(tokens, "holder"), *data = value_of(tokens, "data");
    if (shown && data && !has_word(tokens, "host", "")) {
        check_holder(shown, data);
        check_left(shown, number_of(tokens, "validity"));
    }
    if (!shown || !data || number_of(tokens, "validity") < -1) {
        violation("LEADER shows impossible values");
        return;
    }
    (void) snprintf(text, sizeof(text), "h%u", holder ? sim_agents[holder->agent].host + 1 : 0);
    if (holder && !has_word(tokens, "host", text))
        violation("LEADER shows %.*s as the holder of name %u, which client %u holds", (int) shown->length,
                  shown->text, reader.name, client_index(holder));
    int64_t fence = number_of(tokens, "fence");
    if (holder && holder->fence != 0 && fence != 0 && fence != holder->fence)
        violation("LEADER shows token %lld, and the holder of name %u has %lld", (long long) fence,
                  reader.name, (long long) holder->fence);
}

/* Neither the front nor a keeper of the reader's agent has stood still since then. */
static bool has_run_since(int64_t true_ns) {
    bool has_run = instant_max(agent_here()->started_ns, agent_here()->paused_until_ns) < true_ns;

    for (unsigned i = 0; i < sim_n_keepers; i++)
        has_run = has_run && agent_here()->keepers[i].paused_until_ns < true_ns;
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
        int64_t since_ns = instant_max(reader.true_observed_ns[name], sim_dark_from_ns);
        if (reader.observes[name] && sim_now_ns < sim_dark_until_ns && has_run_since(since_ns) &&
            sim_now_ns > since_ns + UNKNOWN_MS * NS_PER_MS && reader.leaders[name][0] != 'u')
            violation("no node has answered for %lld ms, and name %u is not shown as unknown",
                      (long long) ((sim_now_ns - since_ns) / NS_PER_MS), name);
    }
}

/* In the calm, the last push of each observed name shows what all nodes have had for SHOWN_MS. */
static void check_shown(void) {
    int64_t drift_ms = sim_longest_ttl_ms / 50; /* a cooldown ends by the agent's clock */
    int64_t since_ns = sim_now_ns - (SHOWN_MS + drift_ms) * NS_PER_MS;
    char holds[16];

    if (!calm_is_untroubled_since(reader.agent, since_ns))
        return;
    for (unsigned name = 0; name < SIM_NAMES; name++) {
        int64_t free_ns = calm_since_ns(name, reader.agent);
        const struct client *holder = certain_holder(name, since_ns);
        const char *shown = reader.leaders[name];

        if (!reader.observes[name] || reader.true_observed_ns[name] > since_ns)
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

void reader_all_answered(const struct sim_agent *agent, unsigned name) {
    if (agent == agent_here())
        reader.answered_ns[name] = host_now();
}

/* No majority has answered for KNOWN_MS. */
static void check_outage(unsigned name) {
    int64_t since_ns = host_now() - reader.answered_ns[name];

    if (reader.answered_ns[name] != 0 && since_ns < KNOWN_MS * NS_PER_MS)
        violation("name %u is shown as unknown %lld ms after all nodes answered", name,
                  (long long) (since_ns / NS_PER_MS));
}

/* No push repeats the last one. */
static void read_observed(void) {
    unsigned name = (unsigned) (tokens[2].length == 1 ? tokens[2].text[0] - '0' : SIM_NAMES);
    const struct resp_token *map = &tokens[3], *holder = value_of(map, "holder");
    char shown[64];

    if (!is(&tokens[1], "leader") || name >= SIM_NAMES || !reader.observes[name]) {
        violation("the reader gets a push that it did not ask for");
        return;
    }
    bool held = has_word(map, "state", "held");
    if (held != (holder != NULL) ||
        (!held && !has_word(map, "state", "free") && !has_word(map, "state", "unknown")) ||
        number_of(map, "since") < 0)
        violation("a push shows an impossible leader");
    (void) snprintf(shown, sizeof(shown), "%.*s %lld", holder ? (int) holder->length : 1,
                    holder                           ? holder->text
                    : has_word(map, "state", "free") ? "f"
                                                     : "u",
                    (long long) (holder ? number_of(map, "fence") : 0));
    if (strcmp(shown, reader.leaders[name]) == 0 && !holder)
        violation("a push repeats the last one, %s", shown);
    if (shown[0] == 'f')
        check_free(name);
    else if (shown[0] == 'u')
        check_outage(name);
    memcpy(reader.leaders[name], shown, sizeof(shown));
}

/* --- answers --- */

static void check_example(const char *bytes, size_t length) {
    const char *answer = examples[reader.example].answer;
    size_t prefix = strlen(answer);

    if (length < prefix || memcmp(bytes, answer, prefix) != 0)
        violation("%s is answered by %.*s", examples[reader.example].request, (int) length, bytes);
}

static void read_answer(const char *bytes, size_t length);

size_t reader_reads(const char *bytes, size_t length) {
    static const struct resp_limits limits = {
        .bulk_bytes_max = REPLY_BYTES_MAX, .tokens_max = TOKENS_MAX, .depth_max = RESP_DEPTH_MAX};
    size_t n;
    long parsed = resp_parse(bytes, length, &limits, tokens, &n);

    if (parsed <= 0)
        return 0;
    if (tokens[0].type == RESP_PUSH)
        read_observed();
    else
        read_answer(bytes, (size_t) parsed);
    return (size_t) parsed;
}

static void read_answer(const char *bytes, size_t length) {
    if (reader.n_asked == 0) {
        violation("the reader gets an answer to no question");
        return;
    }
    enum question question = reader.asked[0];
    memmove(reader.asked, reader.asked + 1, --reader.n_asked * sizeof(reader.asked[0]));
    if (question == QUESTION_LEASES)
        check_leases();
    else if (question == QUESTION_STATUS)
        check_status();
    else if (question == QUESTION_NODES)
        check_nodes();
    else if (question == QUESTION_METRICS)
        check_metrics();
    else if (question == QUESTION_LEADER)
        check_leader();
    else if (question == QUESTION_EXAMPLE)
        check_example(bytes, length);
}

/* --- questions --- */

static void say(enum question question, const char *line) {
    char bytes[64];
    size_t length = strlen(line);

    assert(reader.n_asked < QUESTIONS_MAX && length + 2 <= sizeof(bytes));
    reader.asked[reader.n_asked++] = question;
    memcpy(bytes, line, length);
    memcpy(bytes + length, "\r\n", 2);
    front_receive(SIM_READER, bytes, length + 2);
}

static void say_of(enum question question, const char *word, unsigned name) {
    char line[24];

    (void) snprintf(line, sizeof(line), "%s %u", word, name);
    say(question, line);
}

static void connect(void) {
    reader.agent = (unsigned) pick(0, sim_n_agents - 1);
    reader.n_asked = 0;
    memset(reader.observes, 0, sizeof(reader.observes));
    memset(reader.leaders, 0, sizeof(reader.leaders));
    memset(reader.answered_ns, 0, sizeof(reader.answered_ns));
    if (!front_serves(agent_here()))
        return;
    front_connect(agent_here(), SIM_READER);
    say(QUESTION_OTHER, "HELLO 3");
}

static void ask(void) {
    unsigned name = (unsigned) pick(0, SIM_NAMES - 1);

    if (chance(sim_calm ? 60 : 30)) {
        reader.name = name;
        reader.true_asked_ns = sim_now_ns;
        reader.untroubled = agent_is_untroubled(agent_here());
        say_of(QUESTION_LEADER, "LEADER", name);
        if (chance(5))
            front_hang_up(SIM_READER);
    } else if (chance(20)) {
        bool observes = chance(80);
        if (!reader.observes[name])
            reader.true_observed_ns[name] = sim_now_ns;
        reader.observes[name] = true; /* a push may come with the answer */
        say_of(QUESTION_OTHER, observes ? "OBSERVE" : "UNOBSERVE", name);
        reader.observes[name] = observes;
        if (!observes)
            reader.leaders[name][0] = '\0';
    } else {
        reader.example = (unsigned) pick(0, EXAMPLES - 1);
        say(QUESTION_EXAMPLE, examples[reader.example].request);
        say(QUESTION_LEASES, "LEASES");
        if (chance(50)) /* a STATUS takes as long as several requests */
            return;
        say(QUESTION_STATUS, "STATUS");
        if (chance(20))
            say(QUESTION_NODES, "NODES");
        if (chance(1)) /* takes as long as fifty other requests */
            say(QUESTION_METRICS, "METRICS");
    }
}

/* No node may have a key that the keeper has set. */
static bool has_no_keys(const struct sim_keeper *keeper) {
    const struct pool *leases = &keeper->shard.leases;

    for (uint32_t i = 0; i < leases->touched; i++) {
        const struct lease *lease = pool_at(leases, i);
        if (lease->state != LEASE_FREE && lease->maybe != 0)
            return false;
    }
    return true;
}

/* No lease is valid, lingers, or is on its way; no name cools down. */
static bool nothing_is_held(void) {
    for (unsigned i = 0; i < sim_n_clients; i++)
        if (exclusion_holds(&sim_clients[i]))
            return false;
    for (unsigned i = 0; i < sim_n_agents; i++)
        for (unsigned j = 0; j < sim_n_keepers; j++)
            if (sim_agents[i].frozen || sim_agents[i].keepers[j].paused_until_ns > sim_now_ns ||
                (sim_agents[i].running && !has_no_keys(&sim_agents[i].keepers[j])))
                return false;
    for (unsigned i = 0; i < SIM_NAMES; i++)
        if (other_library_holds(i) || observer_cools(i))
            return false;
    return !lingering_lasts();
}

/* Agents with another set of nodes use the server, or wait for it. */
static bool is_of_others(const struct sim_agent *agent, unsigned node) {
    for (unsigned i = 0; i < sim_n_agents; i++)
        if (sim_agents[i].set != agent->set &&
            agent_index_of(&sim_agents[i], agent->at[node]) != SIM_NODES_MAX)
            return true;
    return false;
}

/* An operator knows that nothing was held. Until the node has the mark, no node loses its memory: the
 * operator answers for that. */
static void bless(void) {
    char line[] = "BLESS a";
    unsigned node = (unsigned) pick(0, agent_here()->n_nodes - 1);

    /* The agents of a node's other fleet have not ended, and a node with another address is another
     * server. */
    if (sim_sets_differ && (agent_here()->set != 2 || is_of_others(agent_here(), node)))
        return;
    sim_blessed |= node_set_of(agent_here()->at[node]);
    line[6] = (char) ('a' + node);
    sim_blessing_until_ns = sim_now_ns + BLESSING_MS * NS_PER_MS;
    sim_counts.blessings++;
    trace("an operator asks agent %u: %s", reader.agent, line);
    say(QUESTION_OTHER, line);
}

void reader_granted(unsigned client, bool in_calm) {
    true_since_ns[client] = in_calm ? sim_now_ns : 0;
}

void reader_resumes(unsigned client) {
    true_since_ns[client] = 0;
}

void reader_step(void) {
    events_add(&(struct event){
        .kind = EVENT_CLIENT, .client = SIM_READER, .at_ns = sim_now_ns + pick(20, 1500) * NS_PER_MS});
    if (!front_is_connected(SIM_READER)) {
        connect();
        return;
    }
    if (!front_serves(agent_here()) || sim_now_ns < agent_here()->paused_until_ns)
        return;
    check_unknown();
    check_shown();
    if (reader.n_asked > 0) {
        int64_t since_ns = instant_max(reader.true_asked_ns, agent_here()->halted_until_ns);
        if (sim_now_ns > since_ns + ANSWERED_MS * NS_PER_MS && agent_is_untroubled(agent_here()))
            violation("the reader waits for an answer");
        return;
    }
    if (chance(5)) {
        front_hang_up(SIM_READER);
        return;
    }
    if (!sim_steps && !sim_calm && sim_now_ns >= sim_blessing_until_ns && chance(30) && nothing_is_held())
        bless();
    else
        ask();
}

void reader_reset(void) {
    memset(&reader, 0, sizeof(reader));
    memset(true_since_ns, 0, sizeof(true_since_ns));
    events_add(&(struct event){
        .kind = EVENT_CLIENT, .client = SIM_READER, .at_ns = sim_now_ns + pick(0, 500) * NS_PER_MS});
}
