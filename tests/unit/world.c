#include "world.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

struct world world;

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
    assert(world.n_sends < SENDS_MAX);
    struct sent *sent = &world.sends[world.n_sends++];
    *sent = (struct sent){.operation = send->operation,
                          .nodes = send->nodes,
                          .quiet = send->quiet,
                          .ticket = send->ticket,
                          .token = send->token,
                          .token_last = send->token_last,
                          .has_former = send->former != NULL,
                          .orphan = send->orphan};
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
    world.strangers += report->kind == REPORT_FOREIGN;
    if (report->kind == REPORT_NODE) {
        world.standings[report->node] = report->standing;
        (void) snprintf(world.reasons[report->node], sizeof(world.reasons[0]), "%.*s",
                        (int) report->text_length, report->text);
    }
    if (report->kind == REPORT_NODE || report->kind == REPORT_FOREIGN)
        return;
    assert(world.n_reports < REPORTS_MAX);
    (void) snprintf(world.texts[world.n_reports], sizeof(world.texts[0]), "%.*s", (int) report->text_length,
                    report->text ? report->text : "");
    world.reports[world.n_reports++] = *report;
}

static void on_probe(void *userdata, unsigned node, const struct inquiry *inquiry) {
    (void) userdata;
    if (world.shard.nodes[node].trust == NODE_TRUSTED)
        return; /* as from time to time: pass_ms() answers */
    world.probes[node]++;
    world.marks[node] = inquiry->mark;
    world.leaves[node] = inquiry->leave;
    world.disowned[node] = inquiry->disown;
    world.withdrawn_us[node] = inquiry->withdraw_us;
}

static void on_bless(void *userdata, unsigned node, const struct blessing *blessing) {
    (void) userdata;
    world.marks[node] = blessing->mark;
    world.blessed[node] = *blessing;
    world.blessings[node]++;
}

static void on_amend(void *userdata, unsigned node, const struct amendment *amendment) {
    (void) userdata;
    world.amended[node] = *amendment;
    world.amendments[node]++;
}

static void on_cut(void *userdata, unsigned node) {
    (void) userdata;
    (void) node;
    world.cuts++;
}

static void on_secret(void *userdata, uint8_t secret[SECRET_BYTES]) {
    (void) userdata;
    memset(secret, ++world.secrets, SECRET_BYTES);
}

static void on_listen(void *userdata, uint64_t request, const struct shared_string *name, bool wanted) {
    (void) userdata;
    assert(wanted ? world.listens == 0 : world.listens == request);
    assert(name->head_length == 1 && name->bytes[0] == 'x');
    world.listens = wanted ? request : 0;
}

void node_joins(unsigned node) {
    shard_node_ready(&world.shard, node, world.now_ns);
    shard_node_probed(&world.shard, node, &blessed_node, world.now_ns);
}

void world_begin(unsigned nodes) {
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    const struct shard_config config = {
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

    if (world.memory)
        (void) munmap(world.memory, world.memory_bytes);
    memset(&world, 0, sizeof(world));
    world.now_ns = 1000 * NS_PER_S;
    world.memory_bytes = shard_memory_bytes(&config);
    world.memory =
        mmap(NULL, world.memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(world.memory != MAP_FAILED);
    shard_init(&world.shard, &config, &sink, world.memory);
    for (unsigned i = 0; i < nodes; i++)
        node_joins(i);
}

void command(enum command_kind kind, uint64_t request) {
    const struct command command = {.kind = kind, .request = request};
    shard_command(&world.shard, &command, world.now_ns);
}

/* Asks for the name "x" with a ttl of 10 s and a node time-out of 100 ms. */
void contend_with(uint64_t request, bool persist, uint32_t heartbeat_ms, int64_t max_hold_ms) {
    const struct command command = {
        .kind = COMMAND_CONTEND,
        .persist = persist,
        .fencing = world.fencing,
        .request = request,
        .ttl_ms = 10000,
        .node_timeout_ms = 100,
        .heartbeat_ms = heartbeat_ms,
        .max_hold_ms = max_hold_ms,
        .text = "x42:",
        .head_length = 1,
        .tail_length = 3,
    };
    shard_command(&world.shard, &command, world.now_ns);
}

void contend(uint64_t request, bool persist) {
    contend_with(request, persist, 0, 0);
}

void vote_with(unsigned node, uint64_t ticket, const struct vote *vote) {
    shard_vote(&world.shard, node, ticket, vote, world.now_ns);
}

void vote(unsigned node, const struct sent *sent, enum vote_kind kind) {
    const struct vote vote = {.kind = kind,
                              .text = kind == VOTE_FOREIGN ? "other" : "",
                              .text_length = kind == VOTE_FOREIGN ? 5 : 0,
                              .ttl_left_ms = 5000};
    vote_with(node, sent->ticket, &vote);
}

void trusted_nodes_answer(void) {
    for (unsigned i = 0; i < world.shard.config.nodes; i++)
        if (world.shard.nodes[i].trust == NODE_TRUSTED && world.shard.nodes[i].probing)
            shard_node_probed(&world.shard, i, &blessed_node, world.now_ns);
}

void pass_ms(int64_t ms) {
    instant_ns until_ns = world.now_ns + ms * NS_PER_MS;

    while (shard_due_ns(&world.shard) <= until_ns) {
        world.now_ns = instant_max(world.now_ns, shard_due_ns(&world.shard));
        shard_tick(&world.shard, world.now_ns);
        trusted_nodes_answer();
    }
    world.now_ns = until_ns;
}

/* Lets time pass until the first extension is asked for. */
struct sent pass_to_extension(void) {
    while (!last_sent(OPERATION_EXTEND))
        pass_ms(1);
    return *last_sent(OPERATION_EXTEND);
}

const struct sent *last_sent(enum operation operation) {
    for (unsigned i = world.n_sends; i-- > 0;)
        if (world.sends[i].operation == operation)
            return &world.sends[i];
    return NULL;
}

unsigned count_sent(enum operation operation) {
    unsigned count = 0;

    for (unsigned i = 0; i < world.n_sends; i++)
        count += world.sends[i].operation == operation;
    return count;
}

const struct report *last_report(enum report_kind kind) {
    for (unsigned i = world.n_reports; i-- > 0;)
        if (world.reports[i].kind == kind)
            return &world.reports[i];
    return NULL;
}

unsigned count_reports(enum report_kind kind) {
    unsigned count = 0;

    for (unsigned i = 0; i < world.n_reports; i++)
        count += world.reports[i].kind == kind;
    return count;
}

void hold(uint64_t request) {
    contend(request, true);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    for (unsigned i = 0; i < world.shard.config.nodes; i++)
        vote(i, &sent, VOTE_YES);
    assert(last_report(REPORT_GRANTED));
}
