#include "shard-harness.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

struct shard_harness harness;

const struct probe new_node = {.time_us = -1}, marked_node = {.marked = true, .time_us = -1},
                   blessed_node = {.blessed = true,
                                   .rested = true,
                                   .max_ttl_ms = 60000,
                                   .time_us = -1,
                                   .floor_us = 1},
                   shortly_blessed_node = {
                       .blessed = true, .rested = true, .max_ttl_ms = 1000, .time_us = -1, .floor_us = 5};

static void on_send(void *userdata, const struct send *send) {
    (void) userdata;
    assert(harness.n_sends < SENDS_MAX);
    struct sent *sent = &harness.sends[harness.n_sends++];
    *sent = (struct sent){.operation = send->operation,
                          .nodes = send->nodes,
                          .ttl_ms = send->ttl_ms,
                          .quiet = send->quiet,
                          .left = send->left,
                          .ticket = send->ticket,
                          .token = send->token,
                          .token_last = send->token_last,
                          .has_former = send->former != NULL,
                          .orphan = send->orphan,
                          .predecessors = send->predecessors ? send->predecessors->count : 0};
    if (send->text)
        (void) snprintf(sent->tail, sizeof(sent->tail), "%.*s", (int) send->text->tail_length,
                        shared_string_tail(send->text));
    if (send->secret)
        memcpy(sent->secret, send->secret, SECRET_BYTES);
    if (send->former)
        memcpy(sent->former, send->former, SECRET_BYTES);
}

static void on_report(void *userdata, const struct report *report) {
    (void) userdata;
    harness.foreign += report->kind == REPORT_FOREIGN;
    if (report->kind == REPORT_NODE) {
        harness.node_states[report->node] = report->node_state;
        (void) snprintf(harness.reasons[report->node], sizeof(harness.reasons[0]), "%.*s",
                        (int) report->text_length, report->text);
    }
    if (report->kind == REPORT_NODE || report->kind == REPORT_FOREIGN)
        return;
    assert(harness.n_reports < REPORTS_MAX);
    (void) snprintf(harness.texts[harness.n_reports], sizeof(harness.texts[0]), "%.*s",
                    (int) report->text_length, report->text ? report->text : "");
    harness.reports[harness.n_reports++] = *report;
}

static void on_probe(void *userdata, unsigned node, const struct inquiry *inquiry) {
    (void) userdata;
    harness.leaves[node] = inquiry->leave;
    harness.known[node] = inquiry->known;
    harness.mark_max_ttl_ms[node] = inquiry->max_ttl_ms;
    if (harness.shard.nodes[node].trust == NODE_TRUSTED)
        return; /* probed from time to time: pass_ms() answers */
    harness.probes[node]++;
    harness.marks[node] = inquiry->mark;
    harness.disowned[node] = inquiry->disown;
    harness.withdrawn_us[node] = inquiry->withdraw_us;
}

static void on_bless(void *userdata, unsigned node, const struct blessing *blessing) {
    (void) userdata;
    harness.marks[node] = blessing->mark;
    harness.blessed[node] = *blessing;
    harness.blessings[node]++;
}

static void on_amend(void *userdata, unsigned node, const struct amendment *amendment) {
    (void) userdata;
    harness.amended[node] = *amendment;
    harness.amendments[node]++;
}

static void on_cut(void *userdata, unsigned node) {
    (void) userdata;
    (void) node;
    harness.cuts++;
}

static void on_secret(void *userdata, uint8_t secret[SECRET_BYTES]) {
    (void) userdata;
    memset(secret, ++harness.secrets, SECRET_BYTES);
}

static void on_listen(void *userdata, uint64_t request, const struct shared_string *name, bool wanted) {
    (void) userdata;
    assert(wanted ? harness.listens == 0 : harness.listens == request);
    assert(name->head_length == 1 && name->bytes[0] == 'x');
    harness.listens = wanted ? request : 0;
}

void node_joins(unsigned node) {
    node_trust_ready(&harness.shard, node, harness.now_ns);
    node_trust_probed(&harness.shard, node, &blessed_node, harness.now_ns);
}

void shard_harness_begin(unsigned nodes) {
    static const char *const names[] = {"a", "b", "c", "d", "e"};

    shard_harness_begin_named(nodes, names);
}

void shard_harness_begin_named(unsigned nodes, const char *const names[]) {
    struct shard_config config = {
        .nodes = nodes,
        .requests_max = 16,
        .node_names = names,
        .max_ttl_ms = 60000,
        .quarantine = true,
        .seed = 7,
    };
    const struct shard_sink sink = {
        .send = on_send,
        .report = on_report,
        .probe = on_probe,
        .bless = on_bless,
        .amend = on_amend,
        .cut = on_cut,
        .secret = on_secret,
        .listen = on_listen,
    };

    lock_value_identify(&config.identity, "web1", "00c0ffee");
    if (harness.memory)
        (void) munmap(harness.memory, harness.memory_bytes);
    memset(&harness, 0, sizeof(harness));
    harness.now_ns = 1000 * NS_PER_S;
    harness.memory_bytes = shard_memory_bytes(&config);
    harness.memory =
        mmap(NULL, harness.memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(harness.memory != MAP_FAILED);
    shard_init(&harness.shard, &config, &sink, harness.memory);
    for (unsigned i = 0; i < nodes; i++)
        node_joins(i);
}

void command(enum command_kind kind, uint64_t request) {
    const struct command command = {.kind = kind, .request = request};
    shard_command(&harness.shard, &command, harness.now_ns);
}

/* Requests the name "x", with a ttl of 10 s and a node time-out of 100 ms. */
void contend_with(uint64_t request, bool persist, uint32_t heartbeat_ms, uint32_t max_hold_ms) {
    const struct command command = {
        .kind = COMMAND_CONTEND,
        .persist = persist,
        .terms.fencing = harness.fencing,
        .request = request,
        .terms.ttl_ms = 10000,
        .terms.node_timeout_ms = 100,
        .terms.heartbeat_ms = heartbeat_ms,
        .terms.max_hold_ms = max_hold_ms,
        .text = "x42:",
        .head_length = 1,
        .tail_length = 3,
    };
    shard_command(&harness.shard, &command, harness.now_ns);
}

void contend(uint64_t request, bool persist) {
    contend_with(request, persist, 0, 0);
}

void vote_with(unsigned node, uint64_t ticket, const struct vote *vote) {
    shard_vote(&harness.shard, node, ticket, vote, harness.now_ns);
}

void vote(unsigned node, const struct sent *sent, enum vote_kind kind) {
    const struct vote vote = {.kind = kind,
                              .written = (kind == VOTE_YES || kind == VOTE_REPAIRED) &&
                                         sent->operation != OPERATION_RELEASE,
                              .text = kind == VOTE_FOREIGN ? "other" : "",
                              .text_length = kind == VOTE_FOREIGN ? 5 : 0,
                              .ttl_left_ms = 5000};
    vote_with(node, sent->ticket, &vote);
}

void trusted_nodes_answer(void) {
    for (unsigned i = 0; i < harness.shard.config.nodes; i++)
        if (harness.shard.nodes[i].trust == NODE_TRUSTED && harness.shard.nodes[i].probing)
            node_trust_probed(&harness.shard, i, &blessed_node, harness.now_ns);
}

void pass_ms(int64_t ms) {
    instant_ns until_ns = harness.now_ns + ms * NS_PER_MS;

    while (shard_due_ns(&harness.shard) <= until_ns) {
        harness.now_ns = instant_max(harness.now_ns, shard_due_ns(&harness.shard));
        shard_tick(&harness.shard, harness.now_ns);
        trusted_nodes_answer();
    }
    harness.now_ns = until_ns;
}

/* Time passes until the first extension is sent. */
struct sent pass_to_extension(void) {
    while (!last_sent(OPERATION_EXTEND))
        pass_ms(1);
    return *last_sent(OPERATION_EXTEND);
}

const struct sent *last_sent(enum operation operation) {
    for (unsigned i = harness.n_sends; i-- > 0;)
        if (harness.sends[i].operation == operation)
            return &harness.sends[i];
    return NULL;
}

unsigned count_sent(enum operation operation) {
    unsigned count = 0;

    for (unsigned i = 0; i < harness.n_sends; i++)
        count += harness.sends[i].operation == operation;
    return count;
}

const struct report *last_report(enum report_kind kind) {
    for (unsigned i = harness.n_reports; i-- > 0;)
        if (harness.reports[i].kind == kind)
            return &harness.reports[i];
    return NULL;
}

unsigned count_reports(enum report_kind kind) {
    unsigned count = 0;

    for (unsigned i = 0; i < harness.n_reports; i++)
        count += harness.reports[i].kind == kind;
    return count;
}

void hold(uint64_t request) {
    contend(request, true);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    for (unsigned i = 0; i < harness.shard.config.nodes; i++)
        vote(i, &sent, VOTE_YES);
    assert(last_report(REPORT_GRANTED));
}
