/* Leases that linger when their sessions end without a release. */

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "local-harness.h"
#include "tap.h"

enum { COMMANDS_MAX = 8 };

/* The keeper's commands. */
static struct command commands[COMMANDS_MAX];
static unsigned n_commands;

static void on_command(void *userdata, uint64_t hash, const struct command *command) {
    (void) userdata;
    (void) hash;
    assert(n_commands < COMMANDS_MAX);
    commands[n_commands++] = *command;
}

static const struct command *last_command(void) {
    assert(n_commands > 0);
    return &commands[n_commands - 1];
}

static void begin(void) {
    const struct local_harness_setup setup = {.identity = {.n_nodes = 1, .n_keepers = 1},
                                              .registry_sink = {.command = on_command},
                                              .requests_max = 512,
                                              .limit = 512,
                                              .sessions = LISTENERS};

    n_commands = 0;
    local_harness_begin(&setup);
}

/* Its deadline is far enough for what lingers shortly. */
static void report(uint64_t request, enum report_kind kind) {
    const struct report report = {.kind = kind,
                                  .request = request,
                                  .deadline_ns = harness.now_ns + 9898 * NS_PER_MS,
                                  .cooldown_until_ns = local_harness_cooldown_until_ns(last_command()),
                                  .token = 7};
    registry_report(&harness.front.registry, &report, harness.now_ns);
}

static uint64_t hold(unsigned session, const char *line) {
    ask(session, line);
    uint64_t id = last_command()->request;
    report(id, REPORT_GRANTED);
    return id;
}

static void end(unsigned session) {
    disconnect_end(&harness.sessions[session], harness.now_ns);
}

static void pass_ms(int64_t ms) {
    harness.now_ns += ms * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
}

static void test_cooldown(void) {
    begin();
    uint64_t id = hold(0, "ACQUIRE job COOLDOWN 2000");
    instant_ns until_ns = harness.now_ns + 2000 * NS_PER_MS;
    is_int(commands[0].terms.cooldown_ms, 2000, "the keeper knows how long its keys are to live");
    ask(1, "ACQUIRE job COOLDOWN 2000 WAIT -1");
    pass_ms(100);
    char line[64];
    const struct registry *registry = &harness.front.registry;
    (void) snprintf(line, sizeof(line), "RELEASE %llu",
                    (unsigned long long) registry_id(registry, registry_next(registry, &(uint32_t){0})));
    ask(0, line);
    is_int(commands[1].kind, COMMAND_RELEASE, "a lease with a cooldown is not handed over");
    ok(commands[1].request == id && commands[1].cooldown_until_ns == until_ns,
       "its release reports when the name is free again, counted from the grant");
    is_int(commands[2].kind, COMMAND_CONTEND, "the next in line contends meanwhile");

    begin();
    id = hold(0, "ACQUIRE job COOLDOWN 2000 LINGER 250");
    until_ns = harness.now_ns + 2000 * NS_PER_MS;
    end(0);
    pass_ms(250);
    is_int(last_command()->kind, COMMAND_RELEASE, "a lease with a linger lingers first");
    is_int(last_command()->cooldown_until_ns, until_ns, "and then cools down");

    begin();
    ask(0, "ACQUIRE job COOLDOWN 2000");
    end(0);
    is_int(last_command()->kind, COMMAND_RELEASE, "a request that is not held");
    is_int(last_command()->cooldown_until_ns, 0, "has no cooldown");
}

static void test_session_ends(void) {
    begin();
    uint64_t id = hold(0, "ACQUIRE job LINGER 250");
    ask(1, "ACQUIRE job WAIT -1");
    end(0);
    pass_ms(100);
    report(id, REPORT_EXTENDED);
    pass_ms(149);
    is_int(n_commands, 1, "a lease that lingers is not released when its session ends");
    ask(2, "LEASES");
    ok(strstr(harness.output[2], "lingering"), "LEASES shows it as lingering");
    ask(3, "ACQUIRE job");
    ok(strstr(harness.output[3], "-BUSY held by process ") == harness.output[3],
       "a request that does not wait finds it held");
    pass_ms(1);
    ok(commands[1].kind == COMMAND_RELEASE && commands[1].request == id,
       "but when its time is over, extended or not");
    is_int(commands[2].kind, COMMAND_CONTEND, "then the next request contends");
    report(id, REPORT_RELEASED);
    is_int(harness.front.registry.requests.taken, 1, "nothing is left of it");
}

static void test_released(void) {
    char line[64];

    begin();
    uint64_t id = hold(0, "ACQUIRE job LINGER 250");
    (void) snprintf(line, sizeof(line), "RELEASE %lld", (long long) id);
    ask(0, line);
    is_int(last_command()->kind, COMMAND_RELEASE, "a RELEASE waits for nothing");
}

static void test_not_extended(void) {
    begin();
    (void) hold(0, "ACQUIRE job LINGER 60000");
    end(0);
    pass_ms(9897);
    is_int(n_commands, 1, "however long it is to linger, it ends");
    pass_ms(1);
    is_int(last_command()->kind, COMMAND_RELEASE, "at its deadline, if it is not extended");
}

static void test_lost(void) {
    begin();
    uint64_t id = hold(0, "ACQUIRE job LINGER 250");
    ask(1, "ACQUIRE job WAIT -1");
    end(0);
    report(id, REPORT_LOST);
    is_int(last_command()->kind, COMMAND_CONTEND, "a lease lost while it lingers ends");
    pass_ms(250);
    is_int(n_commands, 2, "and is not released later");
}

static void test_not_held(void) {
    begin();
    ask(0, "ACQUIRE job LINGER 250");
    end(0);
    is_int(last_command()->kind, COMMAND_RELEASE, "a request that is not held does not linger");
}

static void test_nothing_is_kept(void) {
    begin();
    uint64_t id = hold(0, "ACQUIRE job LINGER 250");
    registry_find(&harness.front.registry, id)->entry = 1; /* another lease's soon, in a ledger */
    end(0);
    pass_ms(100);
    report(id, REPORT_EXTENDED);
    is_int(registry_find(&harness.front.registry, id)->entry, 0,
           "an extension is not noted where the session's leases were");
}

static void test_expelled(void) {
    begin();
    (void) hold(0, "ACQUIRE job LINGER 250");
    (void) disconnect_expel(&harness.sessions[0], "malformed", harness.now_ns);
    pass_ms(1000);
    end(0);
    is_int(last_command()->kind, COMMAND_ABANDON,
           "a session ended by the agent: the lease lingers from the end of its process");
    pass_ms(250);
    is_int(last_command()->kind, COMMAND_RELEASE, "as long as another");
}

static void test_heartbeat(void) {
    begin();
    uint64_t id = hold(0, "ACQUIRE job HEARTBEAT 1000 LINGER 5000");
    end(0);
    ok(last_command()->kind == COMMAND_BEAT && last_command()->request == id,
       "a client that is gone sends no BEAT: the front sends one for it");
    is_int(last_command()->beat_ns + 1000 * NS_PER_MS, harness.now_ns + 5000 * NS_PER_MS,
           "until it has lingered, and no longer");
    begin();
    (void) hold(0, "ACQUIRE job HEARTBEAT 20000 LINGER 5000");
    end(0);
    is_int(last_command()->beat_ns, harness.now_ns, "a heartbeat longer than that is not cut short");
}

int main(void) {
    test_cooldown();
    test_session_ends();
    test_released();
    test_not_extended();
    test_lost();
    test_not_held();
    test_expelled();
    test_nothing_is_kept();
    test_heartbeat();
    return done_testing();
}
