#include "front-and-keeper.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

struct front_and_keeper harness;
struct asker askers[ASKERS_MAX];

/* --- mail: commands, reports, calls to nodes and their answers --- */

struct mail *post(enum mail_kind kind, int64_t after_us) {
    assert(harness.n_mail < MAIL_MAX);
    struct mail *mail = &harness.mail[harness.n_mail++];

    memset(mail, 0, offsetof(struct mail, text));
    mail->kind = kind;
    mail->at_ns = harness.now_ns + after_us * NS_PER_US;
    mail->order = harness.order++;
    return mail;
}

bool is_faulty(unsigned node) {
    return harness.faulty & node_set_of(node);
}

int64_t way_us(unsigned node) {
    if (is_faulty(node) && (harness.fault == HUNG || harness.fault == STALLED || harness.fault == CUT))
        return -1;
    if (is_faulty(node) && harness.fault == SLOW)
        return 30 * 1000;
    if (is_faulty(node) && harness.fault == TOO_SLOW)
        return 100 * 1000;
    return 250 + 50 * (int64_t) node;
}

static void on_send(void *userdata, const struct send *send) {
    (void) userdata;
    for (unsigned i = 0; i < harness.n_nodes; i++) {
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
    if (way_us(node) >= 0 && !(is_faulty(node) && harness.fault == CONNECTING))
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
    memset(secret, ++harness.secrets, SECRET_BYTES);
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
    case OPERATION_SEARCH:
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
    struct key *key = call->our_name ? &harness.keys[call->node] : &other_names[call->node];
    struct mail *answer = post(MAIL_VOTE, way_us(call->node) < 0 ? 1000 : way_us(call->node));

    if (!call->our_name)
        key->secret = 0;
    answer->node = call->node;
    answer->ticket = call->ticket;
    answer->vote = (struct vote){.ttl_left_ms = LEFT_MS, .text = ""};
    answer->vote.kind =
        is_faulty(call->node) && harness.fault == REFUSING ? VOTE_REFUSED : execute(key, call);
    if (answer->vote.kind == VOTE_FOREIGN)
        answer->vote.text = key->text ? key->text : "0000000000000000000000000000000000000000:web1:0:1:0:";
    if (answer->vote.kind == VOTE_REFUSED)
        answer->vote.text = "READONLY it is a replica";
    answer->vote.text_length = strlen(answer->vote.text);
}

static void probe_answered(unsigned node) {
    struct probe probe = {
        .blessed = true, .rested = true, .max_ttl_ms = 60000, .time_us = -1, .floor_us = 1};

    if (is_faulty(node) && harness.fault == QUARANTINED)
        probe = (struct probe){.time_us = -1};
    node_trust_probed(&harness.shard, node, &probe, harness.now_ns);
}

void node_breaks(unsigned node) {
    node_trust_gone(&harness.shard, node, NODE_STATE_CONNECTING, "connection refused", harness.now_ns);
}

/* --- time --- */

static void deliver(struct mail *mail) {
    switch (mail->kind) {
    case MAIL_COMMAND:
        mail->command.text = mail->text;
        shard_command(&harness.shard, &mail->command, harness.now_ns);
        break;
    case MAIL_REPORT:
        mail->report.text = mail->text;
        registry_report(&harness.registry, &mail->report, harness.now_ns);
        break;
    case MAIL_CALL:
        call_arrives(mail);
        break;
    case MAIL_VOTE:
        shard_vote(&harness.shard, mail->node, mail->ticket, &mail->vote, harness.now_ns);
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
    unsigned next = harness.n_mail;

    for (unsigned i = 0; i < harness.n_mail; i++)
        if (next == harness.n_mail || harness.mail[i].at_ns < harness.mail[next].at_ns ||
            (harness.mail[i].at_ns == harness.mail[next].at_ns &&
             harness.mail[i].order < harness.mail[next].order))
            next = i;
    return next;
}

static void pass_us(int64_t us) {
    instant_ns until_ns = harness.now_ns + us * NS_PER_US;

    for (;;) {
        unsigned next = next_mail();
        instant_ns mail_ns = next < harness.n_mail ? harness.mail[next].at_ns : INSTANT_NEVER;
        instant_ns due_ns = instant_min(
            mail_ns, instant_min(shard_due_ns(&harness.shard), registry_due_ns(&harness.registry)));
        if (due_ns > until_ns)
            break;
        harness.now_ns = instant_max(harness.now_ns, due_ns);
        if (mail_ns == due_ns) {
            struct mail mail = harness.mail[next];
            harness.mail[next] = harness.mail[--harness.n_mail];
            deliver(&mail);
        } else if (shard_due_ns(&harness.shard) <= harness.now_ns) {
            shard_tick(&harness.shard, harness.now_ns);
        } else {
            registry_tick(&harness.registry, harness.now_ns);
        }
    }
    harness.now_ns = until_ns;
}

void pass_ms(int64_t ms) {
    pass_us(ms * 1000);
}

/* --- the harness --- */

static void *reserve(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(memory != MAP_FAILED);
    return memory;
}

void front_and_keeper_begin(unsigned nodes) {
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

    if (harness.shard_memory) {
        (void) munmap(harness.shard_memory, shard_bytes);
        (void) munmap(harness.registry_memory, registry_bytes);
    }
    memset(&harness, 0, sizeof(harness));
    memset(askers, 0, sizeof(askers));
    for (unsigned i = 0; i < ASKERS_MAX; i++)
        admission_requester_init(&askers[i].requester);
    harness.now_ns = 1000 * NS_PER_S;
    harness.n_nodes = nodes;
    harness.shard_memory = reserve(shard_bytes);
    harness.registry_memory = reserve(registry_bytes);
    shard_init(&harness.shard, &config, &shard_sink, harness.shard_memory);
    registry_init(&harness.registry, &registry_sink, 64, 64, key, harness.registry_memory);
}

void ask_for(unsigned index, const char *name, int64_t wait_ms, bool resume) {
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

    *asker = (struct asker){.wait_ms = wait_ms, .asked_ns = harness.now_ns};
    admission_requester_init(&asker->requester);
    struct request *request =
        registry_ask(&harness.registry, (struct session *) (void *) asker, &ask, harness.now_ns);
    assert(request);
    registry_start(&harness.registry, request, &ask, harness.now_ns);
}

void set_keys(enum situation situation) {
    static const char there[] = "0123456789abcdef0123456789abcdef01234567:web9:00c0ffee:4321:1000:",
                      other[] = "fedcba9876543210fedcba9876543210fedcba98:web8:00c0ffee:4321:1000:",
                      library[] = "9ac8a1d0-5b53-4bb3-9d0f-0e1c1f8b8f61";

    for (unsigned i = 0; i < harness.n_nodes; i++) {
        struct key *key = &harness.keys[i];
        if (situation == HELD_THERE || situation == RESUMED_ENDED)
            key->text = situation == HELD_THERE || i % 2 ? there : NULL;
        else if (situation == HELD_BY_LIBRARY)
            key->text = i < quorum_of(harness.n_nodes) ? library : NULL;
        else if (situation == SPLIT)
            key->text = i < harness.n_nodes / 2 ? there : i < harness.n_nodes / 2 * 2 ? other : NULL;
        else if (situation == RESUMED)
            key->secret = SECRET_TO_RESUME;
    }
}

void begin_faults(enum fault fault, node_set faulty) {
    if (fault == QUARANTINED || fault == CONNECTING || fault == REFUSING)
        return;
    harness.fault = fault;
    harness.faulty = faulty;
    for (unsigned i = 0; i < harness.n_nodes; i++)
        if (is_faulty(i) && fault == DOWN)
            node_breaks(i);
    if (fault == STALLED) {
        ask_for(ASKERS_MAX - 1, "y", 0, false);
        pass_ms(1300);
    }
}

void join_nodes(enum fault fault, node_set faulty) {
    if (fault == QUARANTINED || fault == CONNECTING || fault == REFUSING) {
        harness.fault = fault;
        harness.faulty = faulty;
    }
    for (unsigned i = 0; i < harness.n_nodes; i++)
        if (!is_faulty(i) || fault != CONNECTING)
            node_trust_ready(&harness.shard, i, harness.now_ns);
    pass_ms(5);
}
