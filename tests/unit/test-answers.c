/* Every request is answered in time and with the right error word: a table of requests (WAIT 0, short, long;
 * ACQUIRE and RESUME), states of the name, and kinds and numbers of failed nodes. The front's registry and a
 * keeper's shard run together over simulated nodes, in injected time. */

#include <assert.h>
#include <stdio.h>
#include <sys/mman.h>

#include "core/shard.h"
#include "local/registry.h"
#include "tap.h"

enum {
    MAIL_MAX = 512,
    MAIL_TEXT_MAX = 1100,
    ASKERS_MAX = 8,
    NODE_TIMEOUT_MS = 100,
    TTL_MS = 10000,
    SHORT_MS = 20,
    LONG_MS = 700,
    LEFT_MS = 8000, /* of others' keys */
    SECRET_TO_RESUME = 0xee,
};

enum stand { FREE, HELD_HERE, HELD_THERE, HELD_BY_LIBRARY, SPLIT, RESUMED, RESUMED_ENDED, STANDS };
enum fault { DOWN, REFUSING, CUT, HUNG, STALLED, SLOW, TOO_SLOW, QUARANTINED, CONNECTING, FAULTS };

static const char *const stand_names[] = {"free",  "held here", "held there",          "held by a library",
                                          "split", "to resume", "to resume, but ended"};
static const char *const fault_names[] = {"down", "refusing", "cut off",     "hung",      "stalled",
                                          "slow", "too slow", "quarantined", "connecting"};

struct key {
    const char *text; /* another holder's value; NULL: none, or the agent's own */
    uint8_t secret;   /* the agent's own; 0: none */
};

enum mail_kind { MAIL_COMMAND, MAIL_REPORT, MAIL_CALL, MAIL_VOTE, MAIL_PROBED, MAIL_GONE };

struct mail {
    enum mail_kind kind;
    instant_ns at_ns;
    uint64_t order;
    unsigned node;
    struct command command;
    struct report report;
    char text[MAIL_TEXT_MAX];
    enum operation operation;
    uint8_t secret;
    bool our_name;
    uint64_t ticket;
    struct vote vote;
};

static struct asker {
    struct admission_requester requester; /* first: the registry's */
    int64_t wait_ms;
    instant_ns asked_ns, answered_ns;
    char word[16], text[256];
} askers[ASKERS_MAX];

static struct {
    struct registry registry;
    struct shard shard;
    void *registry_memory, *shard_memory;
    instant_ns now_ns;
    struct mail mail[MAIL_MAX];
    unsigned n_mail;
    uint64_t order;
    uint8_t secrets;
    unsigned n_nodes;
    struct key keys[NODES_MAX];
    node_set faulty;
    enum fault fault;
} world;

/* --- mail: commands, reports, calls to nodes and their answers --- */

static struct mail *post(enum mail_kind kind, int64_t after_us) {
    assert(world.n_mail < MAIL_MAX);
    struct mail *mail = &world.mail[world.n_mail++];

    memset(mail, 0, offsetof(struct mail, text));
    mail->kind = kind;
    mail->at_ns = world.now_ns + after_us * NS_PER_US;
    mail->order = world.order++;
    return mail;
}

static bool is_faulty(unsigned node) {
    return world.faulty & node_set_of(node);
}

/* One way; negative: nothing gets there, or back. */
static int64_t way_us(unsigned node) {
    if (is_faulty(node) && (world.fault == HUNG || world.fault == STALLED || world.fault == CUT))
        return -1;
    if (is_faulty(node) && world.fault == SLOW)
        return 30 * 1000;
    if (is_faulty(node) && world.fault == TOO_SLOW)
        return 100 * 1000;
    return 250 + 50 * (int64_t) node;
}

static void on_send(void *userdata, const struct send *send) {
    (void) userdata;
    for (unsigned i = 0; i < world.n_nodes; i++) {
        if (!(send->nodes & node_set_of(i)) || way_us(i) < 0)
            continue;
        struct mail *call = post(MAIL_CALL, way_us(i));
        call->node = i;
        call->operation = send->operation;
        call->ticket = send->ticket;
        call->secret = send->secret ? send->secret[0] : 0;
        call->our_name = send->text->bytes[0] == 'x';
    }
}

static void on_report(void *userdata, const struct report *report) {
    (void) userdata;
    if (report->kind == REPORT_NODE || report->kind == REPORT_FOREIGN || report->kind == REPORT_AWAITED)
        return;
    struct mail *mail = post(MAIL_REPORT, 10);
    mail->report = *report;
    assert(report->text_length < MAIL_TEXT_MAX);
    if (report->text_length > 0)
        memcpy(mail->text, report->text, report->text_length);
}

static void on_probe(void *userdata, unsigned node, const struct inquiry *inquiry) {
    (void) userdata;
    (void) inquiry;
    if (way_us(node) >= 0 && !(is_faulty(node) && world.fault == CONNECTING))
        post(MAIL_PROBED, 2 * way_us(node))->node = node;
}

static void on_bless(void *userdata, unsigned node, const struct blessing *blessing) {
    (void) userdata;
    (void) node;
    (void) blessing;
}

static void on_cut(void *userdata, unsigned node) {
    (void) userdata;
    post(MAIL_GONE, 0)->node = node;
}

static void on_secret(void *userdata, uint8_t secret[SECRET_BYTES]) {
    (void) userdata;
    memset(secret, ++world.secrets, SECRET_BYTES);
}

static void on_listen(void *userdata, uint64_t request, const struct shared_string *name, bool wanted) {
    (void) userdata;
    (void) request;
    (void) name;
    (void) wanted;
}

static void on_command(void *userdata, uint64_t hash, const struct command *command) {
    struct mail *mail = post(MAIL_COMMAND, 10);
    size_t length = (size_t) command->head_length + command->tail_length;

    (void) userdata;
    (void) hash;
    mail->command = *command;
    assert(length < MAIL_TEXT_MAX);
    if (command->text)
        memcpy(mail->text, command->text, length);
}

static void on_outcome(void *userdata, struct request *request, const struct request_outcome *outcome,
                       instant_ns now_ns) {
    struct asker *asker = (struct asker *) (void *) request->session;

    (void) userdata;
    if (outcome->kind != OUTCOME_GRANTED && outcome->kind != OUTCOME_FAILED)
        return;
    assert(asker->answered_ns == 0);
    asker->answered_ns = now_ns;
    (void) snprintf(asker->word, sizeof(asker->word), "%s",
                    outcome->kind == OUTCOME_GRANTED ? "granted" : outcome->error);
    if (outcome->kind == OUTCOME_FAILED)
        (void) snprintf(asker->text, sizeof(asker->text), "%.*s", (int) outcome->text_length, outcome->text);
}

/* --- a node --- */

static enum vote_kind execute(struct key *key, const struct mail *call) {
    bool ours = !key->text && key->secret == call->secret && key->secret != 0;

    switch (call->operation) {
    case OPERATION_ACQUIRE:
        if (key->text || key->secret != 0)
            return VOTE_FOREIGN;
        key->secret = call->secret;
        return VOTE_YES;
    case OPERATION_ADOPT:
        return key->text ? VOTE_FOREIGN : ours ? VOTE_YES : VOTE_FREE;
    case OPERATION_RELEASE:
        if (ours)
            key->secret = 0;
        return VOTE_YES;
    case OPERATION_EXTEND:
        return ours ? VOTE_YES : VOTE_FOREIGN;
    case OPERATION_RAISE:
    case OPERATION_REFRESH:
    case OPERATION_QUERY:
        break;
    }
    return VOTE_FREE;
}

static void call_arrives(const struct mail *call) {
    static struct key other_names[NODES_MAX];
    struct key *key = call->our_name ? &world.keys[call->node] : &other_names[call->node];
    struct mail *answer = post(MAIL_VOTE, way_us(call->node) < 0 ? 1000 : way_us(call->node));

    if (!call->our_name)
        key->secret = 0;
    answer->node = call->node;
    answer->ticket = call->ticket;
    answer->vote = (struct vote){.ttl_left_ms = LEFT_MS, .text = ""};
    answer->vote.kind = is_faulty(call->node) && world.fault == REFUSING ? VOTE_REFUSED : execute(key, call);
    if (answer->vote.kind == VOTE_FOREIGN)
        answer->vote.text = key->text ? key->text : "0000000000000000000000000000000000000000:web1:0:1:0:";
    if (answer->vote.kind == VOTE_REFUSED)
        answer->vote.text = "READONLY it is a replica";
    answer->vote.text_length = strlen(answer->vote.text);
}

static void probe_answered(unsigned node) {
    struct probe probe = {
        .blessed = true, .rested = true, .max_ttl_ms = 60000, .time_us = -1, .floor_us = 1};

    if (is_faulty(node) && world.fault == QUARANTINED)
        probe = (struct probe){.time_us = -1};
    node_trust_probed(&world.shard, node, &probe, world.now_ns);
}

static void node_breaks(unsigned node) {
    node_trust_gone(&world.shard, node, NODE_STATE_CONNECTING, "connection refused", world.now_ns);
}

/* --- time --- */

static void deliver(struct mail *mail) {
    switch (mail->kind) {
    case MAIL_COMMAND:
        mail->command.text = mail->text;
        shard_command(&world.shard, &mail->command, world.now_ns);
        break;
    case MAIL_REPORT:
        mail->report.text = mail->text;
        registry_report(&world.registry, &mail->report, world.now_ns);
        break;
    case MAIL_CALL:
        call_arrives(mail);
        break;
    case MAIL_VOTE:
        shard_vote(&world.shard, mail->node, mail->ticket, &mail->vote, world.now_ns);
        break;
    case MAIL_PROBED:
        probe_answered(mail->node);
        break;
    case MAIL_GONE:
        node_breaks(mail->node);
        break;
    }
}

static unsigned next_mail(void) {
    unsigned next = world.n_mail;

    for (unsigned i = 0; i < world.n_mail; i++)
        if (next == world.n_mail || world.mail[i].at_ns < world.mail[next].at_ns ||
            (world.mail[i].at_ns == world.mail[next].at_ns && world.mail[i].order < world.mail[next].order))
            next = i;
    return next;
}

static void pass_us(int64_t us) {
    instant_ns until_ns = world.now_ns + us * NS_PER_US;

    for (;;) {
        unsigned next = next_mail();
        instant_ns mail_ns = next < world.n_mail ? world.mail[next].at_ns : INSTANT_NEVER;
        instant_ns due_ns =
            instant_min(mail_ns, instant_min(shard_due_ns(&world.shard), registry_due_ns(&world.registry)));
        if (due_ns > until_ns)
            break;
        world.now_ns = instant_max(world.now_ns, due_ns);
        if (mail_ns == due_ns) {
            struct mail mail = world.mail[next];
            world.mail[next] = world.mail[--world.n_mail];
            deliver(&mail);
        } else if (shard_due_ns(&world.shard) <= world.now_ns) {
            shard_tick(&world.shard, world.now_ns);
        } else {
            registry_tick(&world.registry, world.now_ns);
        }
    }
    world.now_ns = until_ns;
}

static void pass_ms(int64_t ms) {
    pass_us(ms * 1000);
}

/* --- a world --- */

static void *reserve(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(memory != MAP_FAILED);
    return memory;
}

static void world_begin(unsigned nodes) {
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    static const uint64_t key[2] = {1, 2};
    const struct shard_config config = {.nodes = nodes,
                                        .requests_max = 64,
                                        .node_names = names,
                                        .max_ttl_ms = 60000,
                                        .quarantine = true,
                                        .seed = 7};
    const struct shard_sink shard_sink = {.send = on_send,
                                          .report = on_report,
                                          .probe = on_probe,
                                          .bless = on_bless,
                                          .cut = on_cut,
                                          .secret = on_secret,
                                          .listen = on_listen};
    const struct registry_sink registry_sink = {
        .command = on_command, .outcome = on_outcome, .secret = on_secret};
    size_t shard_bytes = shard_memory_bytes(&config), registry_bytes = registry_memory_bytes(64);

    if (world.shard_memory) {
        (void) munmap(world.shard_memory, shard_bytes);
        (void) munmap(world.registry_memory, registry_bytes);
    }
    memset(&world, 0, sizeof(world));
    memset(askers, 0, sizeof(askers));
    for (unsigned i = 0; i < ASKERS_MAX; i++)
        admission_requester_init(&askers[i].requester);
    world.now_ns = 1000 * NS_PER_S;
    world.n_nodes = nodes;
    world.shard_memory = reserve(shard_bytes);
    world.registry_memory = reserve(registry_bytes);
    shard_init(&world.shard, &config, &shard_sink, world.shard_memory);
    registry_init(&world.registry, &registry_sink, 64, 64, key, world.registry_memory);
}

static void ask_for(unsigned index, const char *name, int64_t wait_ms, bool resume) {
    static const uint8_t secret[SECRET_BYTES] = {SECRET_TO_RESUME};
    struct asker *asker = &askers[index];
    const struct registry_ask ask = {
        .name = name,
        .name_length = 1,
        .tail = "1:0:",
        .tail_length = 4,
        .wait_ms = wait_ms,
        .terms.ttl_ms = TTL_MS,
        .terms.node_timeout_ms = NODE_TIMEOUT_MS,
        .resume = resume ? secret : NULL,
        .hold_until_ns = INSTANT_NEVER,
    };

    *asker = (struct asker){.wait_ms = wait_ms, .asked_ns = world.now_ns};
    admission_requester_init(&asker->requester);
    struct request *request =
        registry_ask(&world.registry, (struct session *) (void *) asker, &ask, world.now_ns);
    assert(request);
    bool started = registry_start(&world.registry, request, &ask, world.now_ns);
    assert(started);
    (void) started;
}

static void set_keys(enum stand stand) {
    static const char there[] = "0123456789abcdef0123456789abcdef01234567:web9:00c0ffee:4321:1000:",
                      other[] = "fedcba9876543210fedcba9876543210fedcba98:web8:00c0ffee:4321:1000:",
                      library[] = "9ac8a1d0-5b53-4bb3-9d0f-0e1c1f8b8f61";

    for (unsigned i = 0; i < world.n_nodes; i++) {
        struct key *key = &world.keys[i];
        if (stand == HELD_THERE || stand == RESUMED_ENDED)
            key->text = stand == HELD_THERE || i % 2 ? there : NULL;
        else if (stand == HELD_BY_LIBRARY)
            key->text = i < quorum_of(world.n_nodes) ? library : NULL;
        else if (stand == SPLIT)
            key->text = i < world.n_nodes / 2 ? there : i < world.n_nodes / 2 * 2 ? other : NULL;
        else if (stand == RESUMED)
            key->secret = SECRET_TO_RESUME;
    }
}

/* Everything that is wrong from now on. Nodes that are faulty from the start join, if at all, as such. */
static void begin_faults(enum fault fault, node_set faulty) {
    if (fault == QUARANTINED || fault == CONNECTING || fault == REFUSING)
        return;
    world.fault = fault;
    world.faulty = faulty;
    for (unsigned i = 0; i < world.n_nodes; i++)
        if (is_faulty(i) && fault == DOWN)
            node_breaks(i);
    if (fault == STALLED) {
        ask_for(ASKERS_MAX - 1, "y", 0, false);
        pass_ms(1300);
    }
}

static void join_nodes(enum fault fault, node_set faulty) {
    if (fault == QUARANTINED || fault == CONNECTING || fault == REFUSING) {
        world.fault = fault;
        world.faulty = faulty;
    }
    for (unsigned i = 0; i < world.n_nodes; i++)
        if (!is_faulty(i) || fault != CONNECTING)
            node_trust_ready(&world.shard, i, world.now_ns);
    pass_ms(5);
}

/* --- expected answers --- */

static unsigned voters(void) {
    return world.n_nodes - (world.fault == SLOW ? 0 : node_set_count(world.faulty));
}

/* Of those that vote: nodes that have no key to resume. */
static unsigned known_gone(enum stand stand) {
    return stand == RESUMED_ENDED ? voters() : 0;
}

/* `granted`: an earlier request holds the name. */
static const char *expected_word(enum stand stand, int64_t wait_ms, bool granted) {
    bool quorum = voters() >= quorum_of(world.n_nodes);
    const char *taken = wait_ms == 0 ? "BUSY" : "TIMEOUT";

    if (stand == HELD_HERE || granted)
        return taken;
    if (stand == RESUMED_ENDED && known_gone(stand) > world.n_nodes - quorum_of(world.n_nodes))
        return "NOTHELD";
    if (!quorum || stand == RESUMED_ENDED)
        return "NOQUORUM";
    return stand == FREE || stand == RESUMED ? "granted" : taken;
}

static int64_t bound_ms(int64_t wait_ms) {
    return wait_ms == 0 ? 3 * NODE_TIMEOUT_MS : wait_ms + NODE_TIMEOUT_MS;
}

static unsigned cells, wrong;

static void check_answer(const char *cell, unsigned index, const char *word) {
    const struct asker *asker = &askers[index];
    int64_t took_us = (asker->answered_ns - asker->asked_ns) / NS_PER_US;
    bool in_time = asker->answered_ns != 0 && took_us <= 1000 * bound_ms(asker->wait_ms);

    cells++;
    if (in_time && strcmp(asker->word, word) == 0)
        return;
    if (wrong++ > 200)
        return;
    if (asker->answered_ns == 0)
        (void) printf("# %s, request %u, WAIT %lld: no answer; wanted: %s\n", cell, index + 1,
                      (long long) asker->wait_ms, word);
    else
        (void) printf("# %s, request %u, WAIT %lld: %s after %lld.%03lld ms (%s); wanted: %s\n", cell,
                      index + 1, (long long) asker->wait_ms, asker->word, (long long) (took_us / 1000),
                      (long long) (took_us % 1000), asker->text, word);
}

/* The answers are complete: no request is granted the name unseen, then or later. */
static void check_nothing_hidden(const char *cell, enum stand stand, bool granted) {
    bool ours = false;

    pass_ms(3000);
    for (unsigned i = 0; i < world.n_nodes; i++)
        ours |= way_us(i) >= 0 && world.keys[i].secret != 0;
    unsigned held = granted || stand == HELD_HERE;
    if (world.registry.held == held && world.shard.counters.held == held &&
        (held || !ours || stand == RESUMED))
        return;
    wrong++;
    (void) printf("# %s: %u granted, held: %u in the front, %u in the keeper, %skeys\n", cell, held,
                  world.registry.held, world.shard.counters.held, ours ? "" : "no ");
}

static void set_up_cell(enum stand stand, enum fault fault, node_set faulty, unsigned nodes) {
    world_begin(nodes);
    join_nodes(fault, faulty);
    if (stand == HELD_HERE)
        ask_for(ASKERS_MAX - 2, "x", 0, false);
    pass_ms(10);
    begin_faults(fault, faulty);
    set_keys(stand);
    if (fault == CUT)
        for (unsigned i = 0; i < nodes; i++)
            if (is_faulty(i))
                post(MAIL_GONE, 30 * 1000)->node = i;
}

static bool resumes(enum stand stand) {
    return stand == RESUMED || stand == RESUMED_ENDED;
}

enum { OTHERS = 5 };

static const int64_t others_ms[OTHERS] = {0, SHORT_MS, LONG_MS, 0, 0};

/* The first request, and a little later some that come behind it on the same host. */
static void run_cell(enum stand stand, enum fault fault, node_set faulty, unsigned nodes, int64_t wait_ms,
                     int64_t later_ms) {
    char cell[160];

    set_up_cell(stand, fault, faulty, nodes);
    if (stand == HELD_HERE && strcmp(askers[ASKERS_MAX - 2].word, "granted") != 0)
        return; /* with these nodes it can't be */
    (void) snprintf(cell, sizeof(cell), "%u nodes, %#x of them %s, %s, others %lld ms later", nodes, faulty,
                    fault_names[fault], stand_names[stand], (long long) later_ms);
    ask_for(0, "x", wait_ms, resumes(stand));
    const char *first = expected_word(stand, wait_ms, false);
    bool granted = strcmp(first, "granted") == 0;
    if (later_ms >= 0) {
        pass_ms(later_ms);
        for (unsigned i = 0; i < OTHERS; i++)
            ask_for(1 + i, "x", others_ms[i], false);
    }
    pass_ms(LONG_MS + 5 * NODE_TIMEOUT_MS);
    check_answer(cell, 0, first);
    if (later_ms >= 0)
        for (unsigned i = 0; i < OTHERS; i++)
            check_answer(cell, 1 + i, expected_word(stand, others_ms[i], granted));
    check_nothing_hidden(cell, stand, granted);
}

static void run_cells(enum stand stand, enum fault fault, unsigned nodes) {
    static const int64_t waits_ms[] = {0, SHORT_MS, LONG_MS};
    unsigned all = (1u << nodes) - 1;

    for (unsigned count = 0; count <= nodes; count++)
        for (unsigned place = 0; place < 2; place++)
            for (unsigned i = 0; i < 3; i++) {
                unsigned first = (1u << count) - 1;
                node_set faulty = (node_set) (place == 0 ? first : all & ~(all >> count));
                run_cell(stand, fault, faulty, nodes, waits_ms[i], -1);
                if (resumes(stand))
                    continue; /* others meanwhile would want another table */
                run_cell(stand, fault, faulty, nodes, waits_ms[i], 0);
                run_cell(stand, fault, faulty, nodes, waits_ms[i], 50);
            }
}

/* When the answers so far decide, no request waits for more. */
static void test_at_once(void) {
    for (unsigned nodes = 3; nodes <= 5; nodes += 2)
        for (enum stand stand = HELD_THERE; stand <= RESUMED_ENDED; stand++) {
            if (stand != HELD_THERE && stand != RESUMED_ENDED)
                continue;
            set_up_cell(stand, DOWN, (node_set) (quorum_of(nodes) - 1), nodes);
            ask_for(0, "x", 0, resumes(stand));
            pass_ms(5);
            is_string(askers[0].word, expected_word(stand, 0, false),
                      "a minority is down: answered at once");
        }
    set_up_cell(FREE, HUNG, 7, 5);
    for (unsigned i = 0; i < 4; i++)
        ask_for(i, "x", 0, false);
    pass_ms(NODE_TIMEOUT_MS + 5);
    for (unsigned i = 0; i < 4; i++)
        is_string(askers[i].word, "NOQUORUM", "one attempt answers the whole queue");
}

/* A keeper reports the holder only once to a contender. After a resumed lease on the same name has ended,
 * the contender still has that report. */
static void test_beside_a_resume(void) {
    world_begin(3);
    join_nodes(DOWN, 0);
    set_keys(RESUMED);
    ask_for(0, "x", -1, false);
    pass_ms(10);
    ask_for(1, "x", 0, true);
    pass_ms(10);
    is_string(askers[1].word, "granted", "a lease is resumed beside a contender");
    struct list *link = list_first(&askers[1].requester.requests);
    registry_release(&world.registry, list_entry(link, struct request, session_link), world.now_ns);
    set_keys(HELD_THERE);
    ask_for(2, "x", 0, false);
    pass_ms(3 * NODE_TIMEOUT_MS);
    is_string(askers[2].word, "BUSY", "after it, a request that does not wait gets the contender's result");
}

/* An agent serves before it knows its nodes. Requests wait for a quorum to vote, or to become impossible,
 * and for no more than that. */
static void test_start(bool resume) {
    const char *what = resume ? "to resume" : "to acquire";

    for (unsigned wait = 0; wait < 2; wait++) {
        world_begin(3);
        set_keys(resume ? RESUMED : FREE);
        world.fault = CONNECTING;
        world.faulty = node_set_of(1);
        ask_for(0, "x", wait ? LONG_MS : 0, resume);
        pass_ms(5);
        node_trust_ready(&world.shard, 0, world.now_ns);
        pass_ms(5);
        is_string(askers[0].word, "", "one of three nodes votes");
        instant_ns begun_ns = world.now_ns;
        node_trust_ready(&world.shard, 2, world.now_ns);
        pass_ms(50);
        is_string(askers[0].word, "granted", what);
        ok(askers[0].answered_ns - begun_ns < 3 * NS_PER_MS, "as soon as the second one does");
    }
    world_begin(3);
    ask_for(0, "x", 0, resume);
    pass_ms(5);
    node_breaks(0);
    pass_ms(5);
    is_string(askers[0].word, "", "one of three nodes can't be reached");
    node_breaks(2);
    pass_ms(1);
    is_string(askers[0].word, "NOQUORUM", "answered as soon as two can't");
}

int main(void) {
    test_at_once();
    test_beside_a_resume();
    test_start(false);
    test_start(true);
    for (enum stand stand = 0; stand < STANDS; stand++)
        for (unsigned nodes = 1; nodes <= 5; nodes += 2) {
            cells = wrong = 0;
            for (enum fault fault = 0; fault < FAULTS; fault++)
                if (stand != SPLIT || nodes > 1)
                    run_cells(stand, fault, nodes);
            ok(wrong == 0,
               "a name that is %s on %u nodes: %u answers in time, each with the right error word",
               stand_names[stand], nodes, cells);
        }
    return done_testing();
}
