/* Commands: names and arguments, greetings of Redis clients, LEADER, and the words of errors and reasons. */

#include <assert.h>

#include "local/rejection.h"
#include "local/reply.h"
#include "scripted-keeper.h"
#include "tap.h"

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
        {"ACQUIRE x ASYNC DATA", "-BADARG DATA wants at most 1024 bytes", "DATA without a value"},
        {"ACQUIRE x TTL 500 ASYNC ttl 600", "-BADARG TTL is given twice", "an option given twice"},
        {"ACQUIRE x 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17",
         "-ERR wrong number of arguments for ACQUIRE: 18 given, 1 to 17 expected", "too many arguments"},
        {"ACQUIRE x HEARTBEAT 0", "-BADARG HEARTBEAT", "a heartbeat of 0"},
        {"ACQUIRE", "-ERR wrong number of arguments for ACQUIRE", "no name"},
        {"CHECK", "-ERR wrong number", "CHECK without an id"},
        {"CHECK abc", "-BADARG an id is", "an id that is not a number"},
        {"RELEASE 99999999999999999", "-BADARG", "an id beyond 2^53"},
        {"RELEASE 12345", ":0", "an id that never was"},
        {"BEAT 1048576", ":0", "a beat for a lease that is not held"},
        {"PIN", "-ERR unknown command 'PIN'", "a part of a command"},
        {"FLUSHALL", "-ERR unknown command 'FLUSHALL'", "an unknown command"},
        {"SELECT 1", "-BADARG", "another database"},
        {"HELLO 4", "-NOPROTO", "an unknown protocol version"},
        {"LEASES FROM 1", "-BADARG", "a wrong word after LEASES"},
    };

    begin(512);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ask(0, cases[i].line);
        if (!ok(begins(0, cases[i].reply) && strcspn(got(0), "\n") + 1 == strlen(got(0)),
                "rejected by one reply: %s", cases[i].what))
            (void) printf("#   got %s", got(0));
    }
    is_int(keeper.n_commands, 0, "no command reached a keeper");
    is_int(harness.front.registry.requests.taken, 0, "and no request is left");
}

static void test_names(void) {
    static const struct {
        const char *name;
        size_t length;
        const char *what;
    } rejected[] = {
        {"", 0, "an empty name"},
        {"a\nb", 3, "a line break"},
        {"a\0b", 3, "a NUL"},
        {"\xc2\x85", 2, "a control character of two bytes"},
        {"\xff", 1, "a byte outside UTF-8"},
        {"\xc0\xaf", 2, "an overlong form"},
        {"\xed\xa0\x80", 3, "a surrogate"},
        {"\xe2\x82", 2, "an incomplete sequence"},
    };
    char name[513];

    begin(512);
    for (size_t i = 0; i < sizeof(rejected) / sizeof(rejected[0]); i++) {
        ask_name(0, rejected[i].name, rejected[i].length);
        ok(begins(0, "-BADNAME"), "rejected: %s", rejected[i].what);
    }
    memset(name, 'n', sizeof(name));
    ask_name(0, name, 513);
    ok(begins(0, "-BADNAME"), "rejected: 513 bytes");
    ask_name(0, name, 512);
    is_int(keeper.n_commands, 1, "accepted: 512 bytes");
    ask_name(1, "gr\xc3\xbc\xc3\x9f\x65 \xf0\x9f\x94\x92", 12);
    is_int(keeper.n_commands, 2, "accepted: UTF-8 with a blank");
}

static void test_greetings(void) {
    static const struct {
        const char *line, *reply, *what;
    } cases[] = {
        {"PING", "+PONG\r\n", "PING"},
        {"ping hello", "$5\r\nhello\r\n", "a command in lower case, with a text"},
        {"CLIENT GETNAME", "$-1\r\n", "nil for a client without a name"},
        {"HELLO 3 AUTH user password SETNAME me", "%9\r\n$6\r\nserver\r\n$8\r\nredlockd\r\n",
         "a map for HELLO 3"},
        {"CLIENT GETNAME", "$2\r\nme\r\n", "the name of SETNAME"},
        {"SELECT 0", "+OK\r\n", "SELECT 0"},
        {"COMMAND DOCS", "%0\r\n", "COMMAND DOCS"},
        {"COMMAND COUNT", ":", "COMMAND COUNT"},
        {"COMMAND DOCS ping nonesuch", "%0\r\n", "COMMAND DOCS of commands"},
        {"command info ping nonesuch Leases",
         "*3\r\n*6\r\n$4\r\nPING\r\n:-1\r\n*0\r\n:0\r\n:0\r\n:0\r\n_\r\n*6\r\n$6\r\nLEASES\r\n",
         "COMMAND INFO has the named commands, and nil for others"},
        {"COMMAND LIST", "*25\r\n$7\r\nACQUIRE\r\n$6\r\nRESUME\r\n", "COMMAND LIST has names"},
        {"COMMAND LIST FILTERBY PATTERN x", "-ERR COMMAND knows COUNT, DOCS, LIST and INFO", "no filter"},
        {"COMMAND GETKEYS ACQUIRE x", "-ERR COMMAND knows", "no COMMAND GETKEYS"},
        {"COMMAND FOO", "-ERR COMMAND knows", "nor any other"},
        {"COMMAND", "*25\r\n*6\r\n$7\r\nACQUIRE\r\n", "COMMAND"},
        {"COMMAND INFO", "*25\r\n*6\r\n$7\r\nACQUIRE\r\n", "COMMAND INFO without names"},
        {"QUIT", "+OK\r\n", "QUIT"},
    };

    begin(512);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ask(0, cases[i].line);
        if (!ok(begins(0, cases[i].reply), "reply: %s", cases[i].what))
            (void) printf("#   got %s", got(0));
    }
    ok(harness.sessions[0].state == SESSION_QUITTING, "QUIT ends the session");
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

static void test_leader(void) {
    static const char value[] = "0123456789abcdef0123456789abcdef01234567:web1:00c0ffee:4321:1000:my data";

    begin(512);
    ask(0, "LEADER job");
    is_int(last_command()->kind, COMMAND_QUERY, "LEADER asks the nodes");
    struct report looked = {.kind = REPORT_LEADER,
                            .request = last_command()->request,
                            .text = value,
                            .text_length = sizeof(value) - 1,
                            .token = 5,
                            .validity_ms = 77};
    leader_report(&harness.front, &harness.sessions[0], &looked, harness.now_ns);
    is_string(got(0),
              "*10\r\n$6\r\nholder\r\n$18\r\nweb1:00c0ffee:4321\r\n$4\r\nhost\r\n$4\r\nweb1\r\n$"
              "5\r\nfence\r\n:5\r\n$4\r\n"
              "data\r\n$7\r\nmy data\r\n$8\r\nvalidity\r\n:77\r\n",
              "holder, host, token, data, validity");
    clear();
    ask(0, "LEADER job");
    looked = (struct report){.kind = REPORT_LEADER, .request = last_command()->request};
    leader_report(&harness.front, &harness.sessions[0], &looked, harness.now_ns);
    is_string(got(0), "$-1\r\n", "nil without a leader");
    clear();
    ask(0, "LEADER job");
    looked = (struct report){.kind = REPORT_LEADER, .request = last_command()->request, .undecided = true};
    leader_report(&harness.front, &harness.sessions[0], &looked, harness.now_ns);
    ok(begins(0, "-NOQUORUM the nodes that did not answer"), "unless silent nodes decide that");
    clear();
    ask(0, "LEADER job");
    looked = (struct report){.kind = REPORT_LEADER,
                             .request = last_command()->request,
                             .text = "theirs",
                             .text_length = 6,
                             .token = 5};
    leader_report(&harness.front, &harness.sessions[0], &looked, harness.now_ns);
    ok(strstr(got(0), "$6\r\ntheirs\r\n$4\r\nhost\r\n$0\r\n\r\n$5\r\nfence\r\n:0\r\n"),
       "another library's lock has no host, and not the former holder's token");
}

static void test_leader_pauses(void) {
    struct report nobody = {.kind = REPORT_LEADER};

    begin(512);
    harness.front.queries.users[harness.sessions[0].account].n = QUERIES_USER_MAX - 1;
    ask(0, "LEADER last");
    instant_ns paid_ns = harness.front.work.paid_ns[harness.sessions[1].account];
    ask(1, "LEADER one-too-many");
    nobody.request = last_command()->request;
    ok(harness.units == 0 && leader_session_id(&nobody) == harness.sessions[0].id,
       "a query beyond the user's share is not taken");
    ok(!session_may_ask(&harness.sessions[1]), "its session pauses");
    ok(harness.front.work.paid_ns[harness.sessions[1].account] > paid_ns, "reading the request is work");
    leader_report(&harness.front, &harness.sessions[0], &nobody, harness.now_ns);
    ok(session_may_ask(&harness.sessions[1]), "until another one of the user is answered");
    ask(1, "LEADER one-too-many");
    is_int(last_command()->kind, COMMAND_QUERY, "then the nodes are asked");
    nobody.request = last_command()->request;
    disconnect_end(&harness.sessions[1], harness.now_ns);
    ask(0, "LEADER third");
    ok(!session_may_ask(&harness.sessions[0]), "a query counts although its session has ended");
    is_int((int64_t) harness.front.registry.quota.used[QUOTA_REQUESTS], 1, "as a request at the nodes");
    leader_report(&harness.front, NULL, &nobody, harness.now_ns);
    ok(session_may_ask(&harness.sessions[0]), "until the nodes have answered");
    is_int((int64_t) harness.front.registry.quota.used[QUOTA_REQUESTS], 0, "then it is none any more");
}

/* redlockd.conf(5), max_work. */
static void test_units_of_work(void) {
    static const struct {
        const char *line;
        unsigned units;
    } cases[] = {
        {"PING", 1},          {"WHOAMI", 1},
        {"CHECK 12345", 1},   {"BEAT 12345", 1},
        {"RELEASE 12345", 1}, {"UNOBSERVE", 1},
        {"NONSENSE", 1},      {"ACQUIRE", 1},
        {"ACQUIRE job", 3},   {"RESUME job secret", 3},
        {"LEADER job", 32},   {"OBSERVE job", 16},
        {"HISTORY job", 8},   {"UNOBSERVE job", 8},
        {"COMMAND", 512},     {"LEASES", 32},
        {"STATUS", 8},        {"NODES", 8},
        {"METRICS", 8},       {"INFO", 8},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(512);
        ask(0, cases[i].line);
        is_int(harness.units, cases[i].units, cases[i].line);
    }
}

/* The leases that a user has need extensions. */
static void test_units_of_many_leases(void) {
    static const struct {
        uint64_t extensions;
        unsigned units;
    } cases[] = {{127, 3}, {128, 4}, {61 * 128 - 1, 63}, {61 * 128, 64}, {UINT64_C(1) << 40, 64}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(512);
        quota_charge_account(&harness.front.registry.quota, harness.sessions[0].account, QUOTA_EXTENSIONS,
                             cases[i].extensions - 16); /* and those of the lease that is requested */
        ask(0, "ACQUIRE job TTL 10000");
        ok(harness.units == cases[i].units, "a lease with which the user needs %llu extensions a minute: %u",
           (unsigned long long) cases[i].extensions, harness.units);
        ask(1, "RESUME job secret");
        is_int(harness.units, 3, "RESUME brings no further lease");
        ask(1, "PING");
        is_int(harness.units, 1, "other requests take what they take");
    }
}

int main(void) {
    test_units_of_work();
    test_units_of_many_leases();
    test_bad_arguments();
    test_names();
    test_greetings();
    test_each_reason_has_its_word();
    test_leader();
    test_leader_pauses();
    return done_testing();
}
