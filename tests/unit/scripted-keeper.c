#include "scripted-keeper.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

struct scripted_keeper keeper;

/* Of the third session on. */
static enum registry_reading on_grant_reading(void *userdata, const struct request *request) {
    (void) userdata;
    return request->session < &harness.sessions[2] || !keeper.nobody_reads ? GRANT_READ : GRANT_UNREAD;
}

static void on_lost(void *userdata, const struct request *request, enum reason reason) {
    (void) userdata;
    assert(request->name);
    keeper.losses++;
    keeper.last_loss = reason;
}

void on_command(void *userdata, uint64_t hash, const struct command *command) {
    (void) userdata;
    (void) hash;
    assert(keeper.n_commands < COMMANDS_MAX);
    (void) snprintf(keeper.command_names[keeper.n_commands], sizeof(keeper.command_names[0]), "%.*s",
                    (int) command->head_length, command->text ? command->text : "");
    keeper.commands[keeper.n_commands++] = *command;
}

void on_survey(void *userdata) {
    (void) userdata;
    keeper.surveys++;
}

void begin(uint32_t limit) {
    const struct local_harness_setup setup = {
        .identity = {.version = "1.2.3",
                     .agent = "00c0ffee",
                     .host = "web1",
                     .pid = 42,
                     .n_nodes = 1,
                     .n_keepers = 1,
                     .node_names = {"a"},
                     .node_addresses = {"unix:/a.sock"}},
        .sink = {.query = on_command, .survey = on_survey},
        .registry_sink = {.command = on_command, .lost = on_lost, .grant_reading = on_grant_reading},
        .requests_max = limit <= 512 ? 512 : 4096,
        .limit = limit,
        .sessions = LISTENERS};

    memset(&keeper, 0, sizeof(keeper));
    local_harness_begin(&setup);
}

void ask_name(unsigned session, const char *name, size_t name_length) {
    char bytes[2048];
    int prefix = snprintf(bytes, sizeof(bytes), "*2\r\n$7\r\nACQUIRE\r\n$%zu\r\n", name_length);
    memcpy(bytes + prefix, name, name_length);
    memcpy(bytes + prefix + name_length, "\r\n", 2);
    ask_bytes(session, bytes, (size_t) prefix + name_length + 2);
}

const char *got(unsigned session) {
    return harness.output[session];
}

bool begins(unsigned session, const char *prefix) {
    return strncmp(got(session), prefix, strlen(prefix)) == 0;
}

const struct command *last_command(void) {
    return keeper.n_commands > 0 ? &keeper.commands[keeper.n_commands - 1] : NULL;
}

void report(uint64_t request, enum report_kind kind) {
    const struct report report = {
        .kind = kind, .request = request, .deadline_ns = harness.now_ns + 9898 * NS_PER_MS, .token = 7};
    registry_report(&harness.front.registry, &report, harness.now_ns);
}

void grant_from_queue(void) {
    const struct report granted = {.kind = REPORT_GRANTED,
                                   .request = last_command()->request,
                                   .deadline_ns = harness.now_ns + 9898 * NS_PER_MS,
                                   .token = 7,
                                   .token_last = 71,
                                   .text = "vvvvvvvvvvvvvvvvvvvv",
                                   .text_length = SECRET_BYTES};
    registry_report(&harness.front.registry, &granted, harness.now_ns);
}

uint64_t hold(unsigned session, const char *line) {
    ask(session, line);
    uint64_t id = last_command()->request;
    assert(last_command()->kind == COMMAND_CONTEND);
    report(id, REPORT_GRANTED);
    return id;
}

void clear(void) {
    memset(harness.output_length, 0, sizeof(harness.output_length));
    for (unsigned i = 0; i < LISTENERS; i++)
        harness.output[i][0] = '\0';
}
