/* A reader: one more session, of a user who may see everything. It asks one agent after another what they
 * know of leases and nodes. The answers must agree with each other, and with what the clients know at this
 * instant. */

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "agent.h"
#include "client.h"
#include "clients.h"
#include "events.h"
#include "front.h"
#include "leaders.h"
#include "lingering.h"
#include "listings.h"
#include "observer.h"
#include "other-library.h"
#include "reader.h"
#include "resp.h"

enum {
    TOKENS_MAX = 8192,
    QUESTIONS_MAX = 8,
    ANSWERED_MS = 5000, /* at the latest, if nothing troubles the agent */
    BLESSING_MS = 4000, /* by then a command has reached the nodes */
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
    unsigned example;      /* the last one */
    int64_t true_asked_ns; /* with LEADER */
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

static struct sim_agent *agent_here(void) {
    return &sim_agents[reader.agent];
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
        leaders_read_push(tokens);
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
        listings_check_leases(agent_here(), tokens);
    else if (question == QUESTION_STATUS)
        listings_check_status(agent_here(), tokens, leaders_observed());
    else if (question == QUESTION_NODES)
        listings_check_nodes(agent_here(), tokens);
    else if (question == QUESTION_METRICS)
        listings_check_metrics(agent_here(), tokens);
    else if (question == QUESTION_LEADER)
        leaders_check_reply(tokens);
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
    leaders_begin(agent_here());
    if (!front_serves(agent_here()))
        return;
    front_connect(agent_here(), SIM_READER);
    say(QUESTION_OTHER, "HELLO 3");
}

static void ask(void) {
    unsigned name = (unsigned) pick(0, SIM_NAMES - 1);

    if (chance(sim_calm ? 60 : 30)) {
        reader.true_asked_ns = sim_now_ns;
        leaders_asked(name);
        say_of(QUESTION_LEADER, "LEADER", name);
        if (chance(5))
            front_hang_up(SIM_READER);
    } else if (chance(20)) {
        bool observes = chance(80);
        leaders_observe(name);
        say_of(QUESTION_OTHER, observes ? "OBSERVE" : "UNOBSERVE", name);
        if (!observes)
            leaders_unobserve(name);
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

void reader_step(void) {
    events_add(&(struct event){
        .kind = EVENT_CLIENT, .client = SIM_READER, .at_ns = sim_now_ns + pick(20, 1500) * NS_PER_MS});
    if (!front_is_connected(SIM_READER)) {
        connect();
        return;
    }
    if (!front_serves(agent_here()) || sim_now_ns < agent_here()->paused_until_ns)
        return;
    leaders_check_pushes();
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
    leaders_reset();
    listings_reset();
    events_add(&(struct event){
        .kind = EVENT_CLIENT, .client = SIM_READER, .at_ns = sim_now_ns + pick(0, 500) * NS_PER_MS});
}
