/* The local layer by way of its sessions: requests go in as tokens, replies come out as bytes, and the
 * keeper is this file. */

#include <assert.h>
#include <stdarg.h>

#include "local-harness.h"
#include "local/rejection.h"
#include "local/reply.h"
#include "tap.h"

enum { COMMANDS_MAX = 64 };

static struct keeper {
    struct command commands[COMMANDS_MAX];
    char command_names[COMMANDS_MAX][NAME_BYTES_MAX + 1];
    unsigned n_commands;
    unsigned surveys;
    bool nobody_reads;
} keeper;

/* Of the third session on. */
static bool on_has_read(void *userdata, const struct request *request) {
    (void) userdata;
    return request->session < &harness.sessions[2] || !keeper.nobody_reads;
}

static void on_command(void *userdata, uint64_t hash, const struct command *command) {
    (void) userdata;
    (void) hash;
    assert(keeper.n_commands < COMMANDS_MAX);
    (void) snprintf(keeper.command_names[keeper.n_commands], sizeof(keeper.command_names[0]), "%.*s",
                    (int) command->head_length, command->text ? command->text : "");
    keeper.commands[keeper.n_commands++] = *command;
}

static void on_survey(void *userdata) {
    (void) userdata;
    keeper.surveys++;
}

static void begin(uint32_t limit) {
    const struct local_harness_setup setup = {
        .identity = {.version = "1.2.3",
                     .agent = "00c0ffee",
                     .host = "web1",
                     .pid = 42,
                     .n_nodes = 1,
                     .n_keepers = 1,
                     .node_names = {"a"},
                     .node_addresses = {"unix:/a.sock"}},
        .sink = {.look = on_command, .survey = on_survey},
        .registry_sink = {.command = on_command, .has_read = on_has_read},
        .requests_max = 512,
        .limit = limit,
        .sessions = LISTENERS};

    memset(&keeper, 0, sizeof(keeper));
    local_harness_begin(&setup);
}

/* ACQUIRE with a name of any bytes. */
static void ask_name(unsigned session, const char *name, size_t name_length) {
    char bytes[2048];
    int prefix = snprintf(bytes, sizeof(bytes), "*2\r\n$7\r\nACQUIRE\r\n$%zu\r\n", name_length);
    memcpy(bytes + prefix, name, name_length);
    memcpy(bytes + prefix + name_length, "\r\n", 2);
    ask_bytes(session, bytes, (size_t) prefix + name_length + 2);
}

static const char *got(unsigned session) {
    return harness.output[session];
}

static bool begins(unsigned session, const char *prefix) {
    return strncmp(got(session), prefix, strlen(prefix)) == 0;
}

static const struct command *last_command(void) {
    return keeper.n_commands > 0 ? &keeper.commands[keeper.n_commands - 1] : NULL;
}

static void report(uint64_t request, enum report_kind kind) {
    const struct report report = {
        .kind = kind, .request = request, .deadline_ns = harness.now_ns + 9898 * NS_PER_MS, .token = 7};
    registry_report(&harness.front.registry, &report, harness.now_ns);
}

static uint64_t hold(unsigned session, const char *line) {
    ask(session, line);
    uint64_t id = last_command()->request;
    assert(last_command()->kind == COMMAND_CONTEND);
    report(id, REPORT_GRANTED);
    return id;
}

static void clear(void) {
    memset(harness.output_length, 0, sizeof(harness.output_length));
    for (unsigned i = 0; i < LISTENERS; i++)
        harness.output[i][0] = '\0';
}

/* --- one session --- */

static void test_acquire_and_release(void) {
    char expected[256], line[64], beat[64];

    begin(512);
    ask(0, "ACQUIRE job");
    is_string(got(0), "", "ACQUIRE waits for the keeper");
    const struct command command = *last_command();
    is_int(command.terms.ttl_ms, 10000, "the default ttl goes to the keeper");
    is_int(command.terms.node_timeout_ms, 100, "the node time-out is at most 100 ms");
    is_int(command.persist, 0, "without WAIT it is one try");
    report(command.request, REPORT_GRANTED);
    (void) snprintf(
        expected, sizeof(expected),
        "*12\r\n$2\r\nid\r\n:%lld\r\n$4\r\nname\r\n$3\r\njob\r\n$5\r\nfence\r\n:7\r\n$8\r\nvalidity\r\n"
        ":9898\r\n$8\r\ndeadline\r\n:%lld\r\n$4\r\nslot\r\n:-1\r\n",
        (long long) command.request, (long long) (harness.now_ns + 9898 * NS_PER_MS));
    is_string(got(0), expected, "the grant is a flat map in RESP2");
    harness.now_ns += 98 * NS_PER_MS;
    (void) snprintf(line, sizeof(line), "CHECK %lld", (long long) command.request);
    ask(0, line);
    is_string(got(0), ":9800\r\n", "CHECK gives the validity");
    ask(1, line);
    is_string(got(1), "-NOTHELD held by another session\r\n", "another session of the user learns why");
    (void) snprintf(beat, sizeof(beat), "BEAT %lld", (long long) command.request);
    ask(1, beat);
    is_string(got(1), "-NOTHELD held by another session\r\n", "also if it sends a BEAT");
    harness.sessions[2].uid = 1001;
    ask(2, line);
    is_string(got(2), ":0\r\n", "another user's CHECK gives 0");
    (void) snprintf(line, sizeof(line), "RELEASE %lld", (long long) command.request);
    ask(1, line);
    is_string(got(1), "-NOTHELD held by another session\r\n", "another session can't release it");
    ask(2, line);
    is_string(got(2), ":0\r\n", "nor can another user");
    ask(0, line);
    is_string(got(0), "", "RELEASE waits for the keeper");
    report(command.request, REPORT_RELEASED);
    is_string(got(0), ":1\r\n", "and is confirmed");
    ask(0, line);
    is_string(got(0), ":0\r\n", "never an error twice");
    ask(1, line);
    is_string(got(1), ":0\r\n", "and no other session is said to hold it any more");
    ask(0, "ACQUIRE job ASYNC");
    (void) snprintf(line, sizeof(line), "CHECK %lld",
                    (long long) registry_id(&harness.front.registry,
                                            list_entry(harness.sessions[0].requester.requests.next,
                                                       struct request, session_link)));
    ask(1, line);
    is_string(got(1), "-NOTHELD asked for by another session\r\n", "one that waits is told as such");
}

/* --- ids --- */

enum { IDS_SLOTS = 4096, IDS = 200000 };

static uint64_t id_now(void) {
    const struct session *session = &harness.sessions[0];

    return registry_id(&harness.front.registry,
                       list_entry(session->requester.requests.next, struct request, session_link));
}

/* Acquires and releases as fast as a client can, for 5 s: the largest generation, or 0 when one came twice.
 */
static uint64_t use_ids(void) {
    static uint64_t last[IDS_SLOTS]; /* by slot */
    const int64_t pair_ns = 25 * NS_PER_US;
    uint64_t largest = 0;

    memset(last, 0, sizeof(last));
    for (unsigned i = 0; i < IDS; i++) {
        keeper.n_commands = 0;
        ask(0, "ACQUIRE job ASYNC");
        uint64_t id = id_now(), generation = id >> REQUEST_INDEX_BITS;
        uint64_t *before = &last[id & (IDS_SLOTS - 1)];
        if (generation <= *before)
            return 0;
        *before = generation;
        largest = generation > largest ? generation : largest;
        registry_release(
            &harness.front.registry,
            list_entry(harness.sessions[0].requester.requests.next, struct request, session_link),
            harness.now_ns);
        report(keeper.commands[0].request, REPORT_RELEASED);
        harness.now_ns += pair_ns;
    }
    return largest;
}

static void begin_ids(instant_ns now_ns) {
    const struct local_harness_setup setup = {.sink = {.look = on_command, .survey = on_survey},
                                              .identity = {.n_nodes = 1, .n_keepers = 1},
                                              .registry_sink = {.command = on_command},
                                              .requests_max = IDS_SLOTS,
                                              .limit = IDS_SLOTS,
                                              .sessions = 1};
    memset(&keeper, 0, sizeof(keeper));
    local_harness_begin(&setup);
    harness.now_ns = now_ns;
    registry_begin_ids(&harness.front.registry, now_ns);
}

/* A process that knows nothing of the one before: what that one gave is never given again. */
static void test_ids_after_a_restart(void) {
    const instant_ns begins_ns[] = {NS_PER_S, 1000 * NS_PER_S, 400LL * 24 * 3600 * NS_PER_S,
                                    (INT64_C(1) << 56) - 7 * NS_PER_S};
    instant_ns now_ns;

    for (size_t i = 0; i < sizeof(begins_ns) / sizeof(begins_ns[0]); i++) {
        begin_ids(begins_ns[i]);
        uint64_t largest = use_ids();
        ok(largest > 0, "%d ids in 5 s, none twice", IDS);
        ok(harness.front.registry.requests.touched < IDS_SLOTS / 2, "without touching all slots (%u)",
           harness.front.registry.requests.touched);
        now_ns = harness.now_ns + 17 * NS_PER_MS;
        begin_ids(now_ns);
        ask(0, "ACQUIRE job ASYNC");
        ok((int32_t) ((uint32_t) (id_now() >> REQUEST_INDEX_BITS) - (uint32_t) largest) > 0,
           "the next process begins behind all of them");
        ok(id_now() < UINT64_C(1) << 53 && id_now() > 0, "an id is one that JavaScript can tell");
    }
    begin_ids(1000 * NS_PER_S);
    for (unsigned i = 0; i < 1000; i++) {
        keeper.n_commands = 0;
        harness.now_ns += 100 * NS_PER_MS;
        ask(0, "ACQUIRE job ASYNC");
        registry_release(
            &harness.front.registry,
            list_entry(harness.sessions[0].requester.requests.next, struct request, session_link),
            harness.now_ns);
        report(keeper.commands[0].request, REPORT_RELEASED);
    }
    ok(harness.front.registry.requests.touched <= 2, "who asks at leisure has the same slot each time");
}

static void test_bad_arguments(void) {
    static const struct {
        const char *line, *reply, *what;
    } cases[] = {
        {"ACQUIRE x TTL 99", "-BADARG TTL wants milliseconds from 100 to 60000", "a ttl below the smallest"},
        {"ACQUIRE x TTL 60001", "-BADARG TTL", "a ttl above max_ttl"},
        {"ACQUIRE x TTL 1e3", "-BADARG TTL", "a ttl that is no integer"},
        {"ACQUIRE x TTL -5", "-BADARG TTL", "a negative ttl"},
        {"ACQUIRE x TTL 99999999999999999999999", "-BADARG TTL", "a ttl beyond 64 bits"},
        {"ACQUIRE x TTL", "-BADARG TTL", "an option without its value"},
        {"ACQUIRE x LINGER 60001", "-BADARG LINGER wants milliseconds from 0 to 60000",
         "a linger above max_ttl"},
        {"ACQUIRE x COOLDOWN 60001", "-BADARG COOLDOWN wants milliseconds from 0 to 60000",
         "a cooldown above max_ttl"},
        {"ACQUIRE x WAIT -2", "-BADARG WAIT wants milliseconds from -1", "a wait below -1"},
        {"ACQUIRE x NONSENSE",
         "-BADARG unknown option number 1; TTL, WAIT, HEARTBEAT, MAXHOLD, LINGER, COOLDOWN, DATA, RESUMABLE "
         "and ASYNC are known",
         "an unknown option"},
        {"ACQUIRE x ASYNC DATA", "-BADARG DATA wants at most 1024 bytes", "data that is not there"},
        {"ACQUIRE x TTL 500 ASYNC ttl 600", "-BADARG TTL is given twice", "an option given twice"},
        {"ACQUIRE x 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17",
         "-ERR wrong number of arguments for ACQUIRE: 18 given, 1 to 17 expected", "too many arguments"},
        {"ACQUIRE x HEARTBEAT 0", "-BADARG HEARTBEAT", "a heartbeat of nothing"},
        {"ACQUIRE", "-ERR wrong number of arguments for ACQUIRE", "no name"},
        {"CHECK", "-ERR wrong number", "CHECK of nothing"},
        {"CHECK abc", "-BADARG an id is", "an id that is no number"},
        {"RELEASE 99999999999999999", "-BADARG", "an id beyond 2^53"},
        {"RELEASE 12345", ":0", "an id that never was"},
        {"BEAT 1048576", ":0", "a beat for what is not held"},
        {"FLUSHALL", "-ERR unknown command 'FLUSHALL'", "an unknown command"},
        {"SELECT 1", "-BADARG", "another database"},
        {"HELLO 4", "-NOPROTO", "an unknown protocol version"},
        {"LEASES FROM 1", "-BADARG", "a wrong word after LEASES"},
    };

    begin(512);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ask(0, cases[i].line);
        if (!ok(begins(0, cases[i].reply), "refused: %s", cases[i].what))
            (void) printf("#   got %s", got(0));
    }
    is_int(keeper.n_commands, 0, "nothing of it reached a keeper");
    is_int(harness.front.registry.requests.taken, 0, "and nothing stays behind");
}

static void test_names(void) {
    char name[600];

    begin(512);
    memset(name, 'n', sizeof(name));
    ask_name(0, "", 0);
    ok(begins(0, "-BADNAME"), "an empty name");
    ask_name(0, name, 513);
    ok(begins(0, "-BADNAME"), "513 bytes");
    ask_name(0, "a\nb", 3);
    ok(begins(0, "-BADNAME"), "a line break");
    ask_name(0, "a\0b", 3);
    ok(begins(0, "-BADNAME"), "a NUL");
    ask_name(0, "\xc2\x85", 2);
    ok(begins(0, "-BADNAME"), "a control character of two bytes");
    ask_name(0, "\xff", 1);
    ok(begins(0, "-BADNAME"), "a byte that is no UTF-8");
    ask_name(0, "\xc0\xaf", 2);
    ok(begins(0, "-BADNAME"), "an overlong form");
    ask_name(0, "\xed\xa0\x80", 3);
    ok(begins(0, "-BADNAME"), "a surrogate");
    ask_name(0, "\xe2\x82", 2);
    ok(begins(0, "-BADNAME"), "a sequence that is cut short");
    ask_name(0, name, 512);
    ok(keeper.n_commands == 1, "512 bytes are fine");
    ask_name(1,
             "gr\xc3\xbc\xc3\x9f"
             "e \xf0\x9f\x94\x92",
             12);
    ok(keeper.n_commands == 2, "so is UTF-8 with a blank");
}

static void test_greetings(void) {
    begin(512);
    ask(0, "PING");
    is_string(got(0), "+PONG\r\n", "PING");
    ask(0, "ping hello");
    is_string(got(0), "$5\r\nhello\r\n", "in any case, with a text");
    ask(0, "CLIENT GETNAME");
    is_string(got(0), "$-1\r\n", "a client without a name has nil");
    ask(0, "HELLO 3 AUTH user password SETNAME me");
    ok(begins(0, "%9\r\n$6\r\nserver\r\n$8\r\nredlockd\r\n"), "HELLO 3 answers with a map");
    ask(0, "CLIENT GETNAME");
    is_string(got(0), "$2\r\nme\r\n", "SETNAME was noted");
    ask(0, "SELECT 0");
    is_string(got(0), "+OK\r\n", "SELECT 0");
    ask(0, "COMMAND DOCS");
    is_string(got(0), "%0\r\n", "COMMAND DOCS");
    ask(0, "COMMAND COUNT");
    ok(begins(0, ":"), "COMMAND COUNT");
    ask(0, "QUIT");
    ok(begins(0, "+OK") && harness.sessions[0].state == SESSION_QUITTING, "QUIT");
}

/* --- several sessions --- */

static void test_waiters_are_fifo(void) {
    begin(512);
    uint64_t first = hold(0, "ACQUIRE job");
    ask(1, "ACQUIRE job WAIT -1");
    ask(2, "ACQUIRE job WAIT -1");
    ask(3, "ACQUIRE job");
    ok(begins(3, "-BUSY held by process 100 of this host"), "who does not wait is told the holder at once");
    is_int(keeper.n_commands, 1, "only the first in line is with the keeper");
    disconnect_end(&harness.sessions[0], harness.now_ns);
    is_int(keeper.commands[1].kind, COMMAND_RELEASE, "a session that ends releases");
    ok(keeper.commands[1].request == first, "its own lease");
    is_int(keeper.commands[2].kind, COMMAND_CONTEND,
           "and the next one contends at once, behind the release");
    report(keeper.commands[2].request, REPORT_GRANTED);
    ok(begins(1, "*12") && !begins(2, "*12"), "the one that asked first gets it");
    disconnect_end(&harness.sessions[2], harness.now_ns);
    is_int(harness.front.registry.waiting, 0, "a waiter that leaves leaves nothing behind");
    disconnect_end(&harness.sessions[1], harness.now_ns);
    for (unsigned i = 0; i < 2; i++)
        report(keeper.commands[i * 3].request, REPORT_RELEASED);
    report(keeper.commands[2].request, REPORT_RELEASED);
    report(first, REPORT_RELEASED);
    is_int(harness.front.registry.requests.taken, 0, "no request is left");
    is_int(harness.front.registry.names.pool.taken, 0, "no name either");
}

static void on_secret(void *userdata, uint8_t secret[SECRET_BYTES]) {
    (void) userdata;
    memset(secret, 0xab, SECRET_BYTES);
}

/* Both sessions below wait for the name that session 1 has got from the line. */
static void begin_handoff(void) {
    begin(512);
    harness.front.registry.sink.secret = on_secret;
    uint64_t first = hold(0, "ACQUIRE job");
    ask(1, "ACQUIRE job WAIT -1");
    registry_release(&harness.front.registry, registry_find(&harness.front.registry, first), harness.now_ns);
    const struct report granted = {.kind = REPORT_GRANTED,
                                   .request = last_command()->request,
                                   .deadline_ns = harness.now_ns + 9898 * NS_PER_MS,
                                   .token = 7,
                                   .token_last = 71,
                                   .text = "vvvvvvvvvvvvvvvvvvvv",
                                   .text_length = SECRET_BYTES};
    registry_report(&harness.front.registry, &granted, harness.now_ns);
    ok(begins(1, "*12"), "who is first in line is granted the lease");
    ask(1, "ACQUIRE job WAIT -1");
    ask(2, "ACQUIRE job WAIT -1 RESUMABLE");
    clear();
}

static void test_handed_over_at_the_end(void) {
    begin_handoff();
    unsigned commands = keeper.n_commands;
    disconnect_end(&harness.sessions[1], harness.now_ns);
    ok(begins(2, "*14") && strstr(got(2), "$5\r\nfence\r\n:8\r\n"),
       "when its session ends the lease is handed over, not to what that session waits for");
    is_string(got(1), "", "which hears nothing");
    is_int(keeper.n_commands, commands, "and the keeper is not told yet");
    is_int(harness.front.registry.held, 1, "one holds");
    is_int(harness.front.registry.waiting, 0, "and nobody waits");
}

static void test_handed_over_to_itself(void) {
    begin_handoff();
    struct request *held =
        list_entry(harness.sessions[1].requester.requests.next, struct request, session_link);
    registry_release(&harness.front.registry, held, harness.now_ns);
    ok(begins(1, "*12") && strstr(got(1), "$5\r\nfence\r\n:8\r\n"),
       "a session that waits for what it holds is handed that");
    is_string(got(2), "", "since it asked first");
}

static void test_wait_ends(void) {
    begin(512);
    (void) hold(0, "ACQUIRE job");
    ask(1, "ACQUIRE job WAIT 1000");
    harness.now_ns += 999 * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    is_string(got(1), "", "before its time a waiter hears nothing");
    harness.now_ns += NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    ok(begins(1, "-TIMEOUT waited 1000 ms; held by process 100"), "then TIMEOUT, with the holder");
    ok(session_ready(&harness.sessions[1]), "and its session goes on");

    begin(512);
    ask(1, "ACQUIRE job WAIT 3000");
    const struct report busy = {.kind = REPORT_CONTENDED,
                                .request = last_command()->request,
                                .failure = FAILURE_BUSY,
                                .text = "held by web2, 5000 ms left",
                                .text_length = 26};
    registry_report(&harness.front.registry, &busy, harness.now_ns);
    harness.now_ns += 3000 * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    is_string(got(1), "-TIMEOUT waited 3000 ms; held by web2, 5000 ms left (3000 ms ago)\r\n",
              "what the nodes said of the holder is told with its age");

    begin(512);
    ask(0, "ACQUIRE job WAIT 1000");
    const struct report contended = {.kind = REPORT_CONTENDED,
                                     .request = last_command()->request,
                                     .failure = FAILURE_NO_QUORUM,
                                     .text = "1 of 3",
                                     .text_length = 6};
    registry_report(&harness.front.registry, &contended, harness.now_ns);
    ask(1, "ACQUIRE job");
    ok(begins(1, "-NOQUORUM 1 of 3"), "who does not wait learns what the first in line met");
    harness.now_ns += NS_PER_S;
    registry_tick(&harness.front.registry, harness.now_ns);
    ok(begins(0, "-NOQUORUM waited 1000 ms; 1 of 3"),
       "a wait without a quorum ends as NOQUORUM, not as TIMEOUT");
    is_int(last_command()->kind, COMMAND_RELEASE, "and is withdrawn from the keeper");
    report(last_command()->request, REPORT_GRANTED);
    ok(begins(0, "-NOQUORUM"), "a grant that comes too late changes nothing");
}

static void test_late_grant(void) {
    begin(512);
    ask(0, "ACQUIRE job");
    const struct report granted = {
        .kind = REPORT_GRANTED, .request = last_command()->request, .deadline_ns = harness.now_ns};
    registry_report(&harness.front.registry, &granted, harness.now_ns);
    ok(begins(0, "-NOQUORUM"), "rule 6: no grant when the answer is given at the deadline");
    is_int(last_command()->kind, COMMAND_RELEASE, "the late grant becomes a release");
}

static void extend(uint64_t number) {
    const struct extension extension = {.request = number, .deadline_ns = harness.now_ns + 9898 * NS_PER_MS};
    registry_extended(&harness.front.registry, &extension, 1, harness.now_ns);
}

static void tick_after(int64_t ms) {
    harness.now_ns += ms * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
}

/* Who does not read the grant, being stopped or stuck, does not have the lease for ever. */
static void test_unread_grant(void) {
    for (unsigned asks_async = 0; asks_async < 2; asks_async++) {
        begin(512);
        ask(2, "HELLO 3");
        uint64_t first = hold(0, "ACQUIRE job");
        ask(2, asks_async ? "ACQUIRE job WAIT -1 ASYNC" : "ACQUIRE job WAIT -1");
        ask(1, "ACQUIRE job WAIT -1");
        keeper.nobody_reads = true;
        ask(0, "QUIT");
        disconnect_end(&harness.sessions[0], harness.now_ns);
        report(first, REPORT_RELEASED);
        uint64_t number = last_command()->request;
        report(number, REPORT_GRANTED);
        tick_after(GRANT_READ_MS - 1);
        is_int(last_command()->kind, COMMAND_CONTEND, "a grant may go unread for a while");
        extend(number);
        clear();
        tick_after(20);
        is_int(last_command()->kind, COMMAND_ABANDON, "then it is extended no more");
        is_int(last_command()->request, number, "though it is the keeper's to keep until its deadline");
        ok(strstr(got(2), "at-risk") && strstr(got(2), "unread"), "its client is told");
        is_string(got(1), "", "which it may read at any moment, so nobody else has it before");
        keeper.nobody_reads = false; /* too late */
        tick_after(9870);
        is_string(got(1), "", "up to the deadline");
        tick_after(10);
        ok(strstr(got(2), "lost") && strstr(got(2), "unread"), "then it is lost, with the reason");
        is_int(last_command()->kind, COMMAND_CONTEND, "and the next one's turn comes");
        report(last_command()->request, REPORT_GRANTED);
        ok(begins(1, "*12"), "who has it then");
    }
}

static void test_read_grant(void) {
    begin(512);
    keeper.nobody_reads = true; /* but the first session */
    uint64_t number = hold(0, "ACQUIRE job TTL 1000");
    for (unsigned i = 0; i < 30; i++) {
        tick_after(300);
        extend(number);
    }
    is_int(keeper.n_commands, 1, "a grant that was read is not taken back");
    ask(2, "ACQUIRE short TTL 200");
    number = last_command()->request;
    report(number, REPORT_GRANTED);
    tick_after(220);
    is_int(last_command()->kind, COMMAND_ABANDON,
           "with a short ttl there is no more time to read than that");
    ask(2, "LEASES");
    ok(strstr(got(2), "at-risk"), "the listing shows it as what it is");
    char line[64];
    (void) snprintf(line, sizeof(line), "RELEASE %lld",
                    (long long) registry_id(&harness.front.registry,
                                            list_entry(harness.sessions[2].requester.requests.next,
                                                       struct request, session_link)));
    ask(2, line);
    is_int(last_command()->kind, COMMAND_RELEASE, "its client may still release it");
    report(number, REPORT_RELEASED);
    is_string(got(2), ":1\r\n", "and hears so");
}

static void test_own_deadline(void) {
    begin(512);
    ask(0, "HELLO 3");
    uint64_t id = hold(0, "ACQUIRE job");
    clear();
    harness.now_ns += 9898 * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    ok(begins(0, ">4\r\n$4\r\nlost\r\n"), "rule 13: a silent keeper does not delay the news of the loss");
    clear();
    report(id, REPORT_EXTENDED);
    report(id, REPORT_LOST);
    is_string(got(0), "", "what the keeper says afterwards changes nothing");
    ask(0, "LEASES");
    is_string(got(0), "*0\r\n", "it is in no listing");
}

static void test_pushes(void) {
    char expected[64];

    begin(512);
    ask(0, "ACQUIRE job ASYNC WAIT -1");
    uint64_t id = last_command()->request;
    (void) snprintf(expected, sizeof(expected), "*2\r\n$7\r\nwaiting\r\n:%lld\r\n", (long long) id);
    is_string(got(0), expected, "ASYNC answers at once");
    clear();
    report(id, REPORT_GRANTED);
    ok(begins(0, "*3\r\n$7\r\ngranted\r\n"), "the grant is pushed, in RESP2 too");
    clear();
    const struct report risk = {.kind = REPORT_AT_RISK, .request = id, .reason = REASON_NO_QUORUM};
    registry_report(&harness.front.registry, &risk, harness.now_ns);
    ok(begins(0, "*4\r\n$7\r\nat-risk\r\n") && strstr(got(0), ":9898\r\n$9\r\nno-quorum\r\n"),
       "at-risk with the ms left and the reason");
    clear();
    harness.now_ns += NS_PER_MS;
    report(id, REPORT_EXTENDED);
    ok(begins(0, "*4\r\n$8\r\nextended\r\n"), "extended when it is safe again");
    clear();
    report(id, REPORT_EXTENDED);
    is_string(got(0), "", "but not for each extension");
    ask(0, "ACQUIRE job ASYNC");
    ok(strstr(got(0), "*3\r\n$6\r\nfailed\r\n") && strstr(got(0), "BUSY held by"),
       "failed comes after waiting");
    ask(1, "ACQUIRE plain");
    report(last_command()->request, REPORT_GRANTED);
    clear();
    report(last_command()->request, REPORT_LOST);
    is_string(got(1), "", "a RESP2 session without ASYNC gets no pushes");
}

static void test_each_reason_has_its_word(void) {
    begin(512);
    for (enum reason reason = 0; reason < REASON_COUNT; reason++) {
        ok(reply_reason_word(reason) && reply_reason_text(reason), "reason %d has a word and a sentence",
           (int) reason);
        for (enum reason other = 0; other < reason; other++)
            ok(strcmp(reply_reason_word(reason), reply_reason_word(other)) != 0,
               "and no other has the word");
    }
    for (enum failure failure = 0; failure < FAILURE_COUNT; failure++)
        ok(rejection_word(failure), "failure %d has a word", (int) failure);
}

static void test_withdraw_async(void) {
    char line[64];

    begin(512);
    (void) hold(0, "ACQUIRE job");
    ask(1, "ACQUIRE job ASYNC WAIT -1");
    const struct list *mine = list_first(&harness.sessions[1].requester.requests);
    assert(mine);
    uint64_t id = registry_id(&harness.front.registry, list_entry(mine, struct request, session_link));
    (void) snprintf(line, sizeof(line), "RELEASE %lld", (long long) id);
    ask(1, line);
    is_string(got(1), ":1\r\n", "RELEASE withdraws a waiting request");
    is_int(harness.front.registry.waiting, 0, "it no longer waits");
}

static void test_expel(void) {
    begin(512);
    ask(0, "HELLO 3");
    uint64_t id = hold(0, "ACQUIRE job");
    clear();
    bool stays = disconnect_expel(&harness.sessions[0], "malformed", harness.now_ns);
    ok(begins(0, ">4\r\n$4\r\nlost\r\n") && strstr(got(0), "closed"),
       "rule 8: a session that we end is told lost first");
    ok(stays && last_command()->kind == COMMAND_ABANDON,
       "and its key is not deleted while its process lives");
    disconnect_end(&harness.sessions[0], harness.now_ns);
    ok(last_command()->kind == COMMAND_RELEASE && last_command()->request == id,
       "but at once when the process dies");
}

static void test_quota(void) {
    begin(2);
    (void) hold(0, "ACQUIRE one");
    (void) hold(0, "ACQUIRE two");
    ask(1, "ACQUIRE three");
    ok(begins(1, "-QUOTA"), "over the limit: QUOTA");
    ok(session_ready(&harness.sessions[1]), "the session goes on");
}

static void test_leader(void) {
    static const char value[] = "0123456789abcdef0123456789abcdef01234567:web1:00c0ffee:4321:1000:my data";

    begin(512);
    ask(0, "LEADER job");
    is_int(last_command()->kind, COMMAND_LOOK, "LEADER asks the nodes");
    struct report looked = {.kind = REPORT_LOOKED,
                            .request = last_command()->request,
                            .text = value,
                            .text_length = sizeof(value) - 1,
                            .token = 5,
                            .validity_ms = 77};
    leader_report(&harness.sessions[0], &looked);
    is_string(got(0),
              "*10\r\n$6\r\nholder\r\n$18\r\nweb1:00c0ffee:4321\r\n$4\r\nhost\r\n$4\r\nweb1\r\n$"
              "5\r\nfence\r\n:5\r\n$4\r\n"
              "data\r\n$7\r\nmy data\r\n$8\r\nvalidity\r\n:77\r\n",
              "holder, host, token, data, validity");
    clear();
    ask(0, "LEADER job");
    looked = (struct report){.kind = REPORT_LOOKED, .request = last_command()->request};
    leader_report(&harness.sessions[0], &looked);
    is_string(got(0), "$-1\r\n", "nil when nobody leads");
    clear();
    ask(0, "LEADER job");
    looked = (struct report){.kind = REPORT_LOOKED,
                             .request = last_command()->request,
                             .text = "theirs",
                             .text_length = 6,
                             .token = 5};
    leader_report(&harness.sessions[0], &looked);
    ok(strstr(got(0), "$6\r\ntheirs\r\n$4\r\nhost\r\n$0\r\n\r\n$5\r\nfence\r\n:0\r\n"),
       "another library's lock has no host, and not the token of who was before");
}

static void test_listings(void) {
    char line[64];

    begin(512);
    for (unsigned i = 0; i < 300; i++) {
        (void) snprintf(line, sizeof(line), "ACQUIRE name%u ASYNC", i);
        ask(0, line);
        keeper.n_commands = 0;
    }
    ask(1, "LEASES");
    ok(begins(1, "*256\r\n"), "a page of LEASES has 256 entries");
    ask(1, "LEASES AFTER 1048831");
    ok(begins(1, "*44\r\n"), "the next page has the rest");
    ask(1, "STATUS");
    is_string(got(1), "", "STATUS waits for the keepers");
    is_int(keeper.surveys, 1, "who are asked");
    listing_counted(&harness.front, harness.now_ns);
    ok(begins(1, "*42\r\n") && strstr(got(1), "$7\r\nwaiters\r\n:300\r\n"), "and then tells the numbers");
}

/* The value of the first such key in the reply. */
static const char *integer_of(const char *key) {
    static char value[32];
    char mark[64];

    (void) snprintf(mark, sizeof(mark), "\r\n%s\r\n:", key);
    const char *at = strstr(harness.output[0], mark);
    (void) snprintf(value, sizeof(value), "%.*s", at ? (int) strcspn(at + strlen(mark), "\r") : 0,
                    at ? at + strlen(mark) : "");
    return value;
}

static void nodes_reply(void) {
    ask(0, "NODES");
    listing_counted(&harness.front, harness.now_ns);
}

static void test_nodes(void) {
    const struct report quarantined = {
        .kind = REPORT_NODE, .standing = NODE_STATE_QUARANTINED, .text = "is new", .text_length = 6};

    begin(8);
    nodes_reply();
    is_string(integer_of("until"), "-1", "NODES: nothing is known of the end of what is no quarantine");
    is_string(integer_of("rtt_p99"), "0", "nor of round trips");
    front_state_node_report(&harness.front, 0, &quarantined, harness.now_ns);
    nodes_reply();
    is_string(integer_of("until"), "-1", "nor before the mark is left");
    harness.front.keepers[0].times[0] = (struct front_state_node_times){
        .until_ns = harness.now_ns + 61 * NS_PER_S, .rtt_p50_us = 200, .rtt_p99_us = 900, .evicted_keys = 7};
    nodes_reply();
    is_string(integer_of("until"), "61000", "then until when");
    is_string(integer_of("rtt_p50"), "200", "p50");
    is_string(integer_of("rtt_p99"), "900", "p99");
    is_string(integer_of("evicted"), "7", "evictions");
    harness.now_ns += 62 * NS_PER_S;
    nodes_reply();
    is_string(integer_of("until"), "0", "it never goes below 0");
}

/* --- resuming --- */

static void report_granted(uint64_t request) {
    const struct report report = {.kind = REPORT_GRANTED,
                                  .request = request,
                                  .deadline_ns = harness.now_ns + 9898 * NS_PER_MS,
                                  .cooldown_until_ns = local_harness_cooldown_until_ns(last_command()),
                                  .text = "0123456789abcdefghij",
                                  .text_length = SECRET_BYTES};
    registry_report(&harness.front.registry, &report, harness.now_ns);
}

static void report_failed(uint64_t request, enum failure failure) {
    const struct report report = {
        .kind = REPORT_FAILED, .request = request, .failure = failure, .text = "so", .text_length = 2};
    registry_report(&harness.front.registry, &report, harness.now_ns);
}

/* The secret in the last reply. */
static void take_secret(unsigned session, char ret[4096]) {
    const char *at = strstr(got(session), "$6\r\nsecret\r\n$");
    assert(at);
    at = strchr(at + 15, '\n') + 1;
    (void) snprintf(ret, 4096, "%.*s", (int) strcspn(at, "\r"), at);
}

/* A new agent, and what a client has left of a lease of the old one. */
static void outlive_agent(const char *terms, char ret[4096]) {
    char line[128];

    begin(512);
    (void) snprintf(line, sizeof(line), "ACQUIRE job RESUMABLE %s", terms);
    ask(0, line);
    report_granted(last_command()->request);
    take_secret(0, ret);
    begin(512);
}

static void resume(unsigned session, const char *secret, const char *options) {
    char line[4200];
    (void) snprintf(line, sizeof(line), "RESUME job %s %s", secret, options);
    ask(session, line);
}

static void test_resume(void) {
    char secret[4096], again[4096];

    outlive_agent("TTL 4321 HEARTBEAT 765 MAXHOLD 9000000 DATA my:data", secret);
    resume(1, secret, "");
    const struct command *command = last_command();
    is_int(command->kind, COMMAND_RESUME, "a secret of another agent is enough to resume");
    ok(memcmp(command->secret, "0123456789abcdefghij", SECRET_BYTES) == 0, "with the lease's value");
    is_int(command->terms.ttl_ms, 4321, "its ttl");
    is_int(command->terms.heartbeat_ms, 765, "its heartbeat");
    is_int(command->hold_until_ns, harness.now_ns + 9000 * NS_PER_S, "the end of max_hold as an instant");
    is_int(command->persist, 1, "and it is tried for a while");
    is_string(got(1), "", "RESUME waits for the keeper");
    report_granted(command->request);
    ok(begins(1, "*14\r\n$2\r\nid\r\n"), "the reply is that of ACQUIRE");
    take_secret(1, again);
    is_string(again, secret, "with the same secret");
    resume(2, secret, "");
    ok(begins(2, "-NOTHELD another session"), "the secret does not make a second holder");
    disconnect_end(&harness.sessions[1], harness.now_ns);
    is_int(last_command()->kind, COMMAND_RELEASE, "what was resumed is released like any other");
    outlive_agent("", secret);
    ask(1, "ACQUIRE job");
    report(last_command()->request, REPORT_GRANTED);
    resume(2, secret, "");
    ok(begins(2, "-NOTHELD"), "nor while another of this host holds the name");
}

static void test_resume_cools(void) {
    char secret[4096], again[4096];

    outlive_agent("COOLDOWN 60000 LINGER 300", secret);
    harness.now_ns += NS_PER_MS;
    resume(1, secret, "");
    instant_ns until_ns = last_command()->cooldown_until_ns;
    ok(until_ns > harness.now_ns && until_ns < harness.now_ns + 60000 * NS_PER_MS,
       "the cooldown of a lease that is resumed goes on from its grant");
    report_granted(last_command()->request);
    take_secret(1, again);
    is_string(again, secret, "its secret is the same again");
    harness.front.policy.max_ttl_ms = 59000;
    resume(2, secret, "");
    ok(begins(2, "-BADARG the lease's ttl, heartbeat, linger or cooldown"),
       "unless the agent no longer grants that");
}

static void test_resume_lingers(void) {
    char secret[4096], again[4096];

    outlive_agent("LINGER 300 DATA abc", secret);
    resume(1, secret, "");
    report_granted(last_command()->request);
    take_secret(1, again);
    is_string(again, secret, "the secret of a lease that lingers is the same again");
    disconnect_end(&harness.sessions[1], harness.now_ns);
    is_int(last_command()->kind, COMMAND_RESUME, "and what is resumed lingers as before");
    harness.now_ns += 300 * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    is_int(last_command()->kind, COMMAND_RELEASE, "for as long");
    harness.front.policy.max_ttl_ms = 299;
    resume(2, secret, "");
    ok(begins(2, "-BADARG the lease's ttl, heartbeat, linger or cooldown"),
       "unless the agent no longer grants that");
}

static void test_resume_in_line(void) {
    char secret[4096];

    outlive_agent("", secret);
    ask(1, "ACQUIRE job WAIT -1");
    uint64_t contender = last_command()->request;
    ask(2, "ACQUIRE job WAIT -1");
    resume(3, secret, "");
    uint64_t resumer = last_command()->request;
    is_int(last_command()->kind, COMMAND_RESUME, "it is tried though others wait for the name");
    resume(4, secret, "");
    ok(begins(4, "-BUSY another session is resuming"), "one at a time");
    report_granted(resumer);
    ok(begins(3, "*14"), "it comes before them");
    ask(5, "ACQUIRE job");
    ok(begins(5, "-BUSY held by process 103"), "and is the holder");
    unsigned commands = keeper.n_commands;
    disconnect_end(&harness.sessions[3], harness.now_ns);
    is_int(keeper.n_commands, commands + 1, "its release lets the one contend that does already");
    report(contender, REPORT_GRANTED);
    ok(begins(1, "*12"), "which gets it");
    disconnect_end(&harness.sessions[1], harness.now_ns);
    is_int(last_command()->kind, COMMAND_CONTEND, "then it is the turn of the next");

    outlive_agent("", secret);
    resume(3, secret, "");
    resumer = last_command()->request;
    ask(1, "ACQUIRE job WAIT -1");
    is_int(last_command()->request, resumer, "who asks after it waits for its outcome");
    report_failed(resumer, FAILURE_NOT_HELD);
    is_string(got(3), "-NOTHELD so\r\n", "when it has ended, that is said");
    is_int(last_command()->kind, COMMAND_CONTEND, "and the next contends");

    outlive_agent("", secret);
    ask(1, "ACQUIRE job WAIT -1");
    contender = last_command()->request;
    resume(3, secret, "");
    resumer = last_command()->request;
    report(contender, REPORT_GRANTED);
    ask(5, "ACQUIRE job");
    ok(begins(5, "-BUSY held by process 101"),
       "a contender that wins is the holder, though a resume is tried");
    report_failed(resumer, FAILURE_NOT_HELD);
    ask(2, "ACQUIRE job WAIT -1");
    disconnect_end(&harness.sessions[1], harness.now_ns);
    is_int(last_command()->kind, COMMAND_CONTEND, "and the line goes on");
}

static void test_resume_gives_up(void) {
    char secret[4096];

    outlive_agent("", secret);
    resume(1, secret, "WAIT 500");
    const struct report tried = {.kind = REPORT_CONTENDED,
                                 .request = last_command()->request,
                                 .failure = FAILURE_NO_QUORUM,
                                 .text = "so",
                                 .text_length = 2};
    registry_report(&harness.front.registry, &tried, harness.now_ns);
    is_string(got(1), "", "a try that tells nothing is not the end");
    harness.now_ns += 500 * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    ok(begins(1, "-NOQUORUM tried for 500 ms"), "WAIT bounds how long it is tried");
    is_int(last_command()->kind, COMMAND_FORGET, "rule 8: and nothing is deleted");
    resume(2, secret, "WAIT 0 ASYNC");
    ok(begins(2, "*2\r\n$7\r\nwaiting\r\n"), "ASYNC answers at once");
    is_int(last_command()->persist, 0, "WAIT 0 is one try");
    report_failed(last_command()->request, FAILURE_NO_QUORUM);
    ok(strstr(got(2), "failed") && strstr(got(2), "NOQUORUM so"), "its end comes as a push");
    resume(3, secret, "");
    disconnect_end(&harness.sessions[3], harness.now_ns);
    is_int(last_command()->kind, COMMAND_FORGET, "rule 8: nor when its session ends before the outcome");
    resume(4, secret, "ASYNC");
    ask(4, "RELEASE 3145728");
    ok(last_command()->kind != COMMAND_RELEASE, "RELEASE of another id changes nothing");
    char line[64];
    (void) snprintf(line, sizeof(line), "RELEASE %llu",
                    (unsigned long long) keeper.commands[keeper.n_commands - 1].request);
    ask(4, line);
    is_int(last_command()->kind, COMMAND_RELEASE, "but who lets go of it while it is tried lets go");
}

static void test_bad_secrets(void) {
    char secret[4096], changed[4096];
    unsigned refused = 0, tried = 0;

    outlive_agent("MAXHOLD 5000 DATA abc", secret);
    size_t length = strlen(secret);
    for (size_t i = 0; i < length; i++) {
        for (unsigned c = '!'; c <= '~'; c++) {
            (void) strcpy(changed, secret);
            changed[i] = (char) c;
            if (secret[i] == (char) c)
                continue;
            resume(1, changed, "");
            refused += begins(1, "-BADARG this is no secret");
            tried++;
        }
        (void) snprintf(changed, sizeof(changed), "%.*s", (int) i + 1, secret);
        if (i + 1 < length) {
            resume(1, changed, "");
            refused += begins(1, "-BADARG");
            tried++;
        }
    }
    is_int(refused, tried, "an altered or cut secret is none, whatever was altered");
    is_int(keeper.n_commands, 0, "and no node is asked");
    resume(1, secret, "WAIT");
    ok(begins(1, "-BADARG WAIT wants milliseconds"), "WAIT without its value");
    resume(1, secret, "TTL");
    ok(begins(1, "-BADARG unknown option number 1"), "an unknown option");
    harness.front.policy.max_ttl_ms = 5000;
    resume(1, secret, "");
    ok(begins(1, "-BADARG the lease's ttl"), "a ttl that the agent no longer grants");
    harness.front.policy.max_ttl_ms = 60000;
    harness.now_ns += 5 * NS_PER_S;
    resume(1, secret, "");
    ok(begins(1, "-NOTHELD it was held for as long"), "a lease that was to end before now");
}

int main(void) {
    test_acquire_and_release();
    test_ids_after_a_restart();
    test_bad_arguments();
    test_names();
    test_greetings();
    test_waiters_are_fifo();
    test_handed_over_at_the_end();
    test_handed_over_to_itself();
    test_wait_ends();
    test_late_grant();
    test_unread_grant();
    test_read_grant();
    test_own_deadline();
    test_pushes();
    test_each_reason_has_its_word();
    test_withdraw_async();
    test_expel();
    test_quota();
    test_leader();
    test_listings();
    test_nodes();
    test_resume();
    test_resume_lingers();
    test_resume_cools();
    test_resume_in_line();
    test_resume_gives_up();
    test_bad_secrets();
    return done_testing();
}
