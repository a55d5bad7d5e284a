/* The end of a session with many requests: a few are dropped at once, the others by the next ticks, between
 * which other sessions' extensions are read. */

#include "scripted-keeper.h"
#include "tap.h"

/* All requests of a session that ends are left to the next tick. */
static void begin_slowly(void) {
    begin(512);
    harness.front.registry.drops_at_once = 0;
}

static void end(unsigned session) {
    disconnect_end(&harness.sessions[session], harness.now_ns);
}

static void tick(void) {
    registry_tick(&harness.front.registry, harness.now_ns);
}

static void on_secret(void *userdata, uint8_t secret[SECRET_BYTES]) {
    (void) userdata;
    memset(secret, 0xab, SECRET_BYTES);
}

static uint32_t number_of(enum command_kind kind) {
    uint32_t count = 0;

    for (unsigned i = 0; i < keeper.n_commands; i++)
        count += keeper.commands[i].kind == kind;
    return count;
}

static void test_slices(void) {
    enum { REST = 10, ALL = REGISTRY_DROPS_AT_ONCE + REGISTRY_TICK_MAX + REST };
    const struct registry *registry = &harness.front.registry;

    begin(4096);
    (void) hold(1, "ACQUIRE job");
    for (unsigned i = 0; i < ALL; i++)
        ask(0, "ACQUIRE job WAIT -1 ASYNC");
    is_int(registry->waiting, ALL, "very many requests of a session wait");
    end(0);
    is_int(registry->waiting, ALL - REGISTRY_DROPS_AT_ONCE, "its end drops some of them at once");
    ok(registry_due_ns(registry) <= harness.now_ns, "a tick is due for the others");
    is_int(harness.front.sessions, LISTENERS - 1, "the session has ended");
    tick();
    is_int(registry->waiting, REST, "a tick drops REGISTRY_TICK_MAX of them");
    tick();
    is_int(registry->waiting, 0, "and the next tick the others");
    ok(registry_due_ns(registry) > harness.now_ns, "then no tick is due");
    is_int(registry->requests.taken, 1, "the other session's lease remains");

    begin(512);
    for (unsigned i = 0; i < 3; i++)
        ask(0, "ACQUIRE job WAIT -1 ASYNC");
    end(0);
    is_int(registry->waiting, 0, "the requests of a usual session are dropped at once");
}

/* Leases are released and linger as at other ends. */
static void test_leases(void) {
    begin_slowly();
    uint64_t job = hold(0, "ACQUIRE job"), slow = hold(0, "ACQUIRE slow LINGER 250");
    ask(1, "ACQUIRE job WAIT -1");
    end(0);
    report(job, REPORT_EXTENDED);
    is_int(number_of(COMMAND_RELEASE), 0, "before the tick no lease is released");
    tick();
    is_int(number_of(COMMAND_RELEASE), 1, "the tick releases those without a linger");
    ok(keeper.commands[2].request == job, "by their number");
    is_int(last_command()->kind, COMMAND_CONTEND, "and the next in line contends");
    report(slow, REPORT_EXTENDED);
    harness.now_ns += 249 * NS_PER_MS;
    tick();
    is_int(number_of(COMMAND_RELEASE), 1, "a lease with a linger lingers");
    harness.now_ns += NS_PER_MS;
    tick();
    is_int(number_of(COMMAND_RELEASE), 2, "and is released after that");
}

/* The leases first: others may wait for them. */
static void test_order(void) {
    begin_slowly();
    ask(0, "ACQUIRE job WAIT -1 ASYNC");
    uint64_t lease = hold(0, "ACQUIRE other");
    end(0);
    tick();
    is_int(number_of(COMMAND_RELEASE), 2, "a request that contends, and a lease");
    is_int((int64_t) keeper.commands[2].request, (int64_t) lease, "the lease is released first");
}

/* The client of an unread grant has gone: the lease lingers. */
static void test_unread(void) {
    begin_slowly();
    keeper.nobody_reads = true;
    (void) hold(2, "ACQUIRE job LINGER 5000");
    end(2);
    harness.now_ns += (GRANT_READ_MS + 20) * NS_PER_MS;
    tick();
    tick();
    is_int(keeper.n_commands, 1, "the time-out for reading the grant does not end the linger");
}

/* A grant to a request whose session has ended is withdrawn, and does not linger. */
static void test_granted(void) {
    begin_slowly();
    ask(0, "ACQUIRE job WAIT -1 LINGER 5000");
    ask(1, "ACQUIRE job WAIT -1");
    uint64_t contender = last_command()->request;
    end(0);
    report(contender, REPORT_GRANTED);
    is_int(harness.front.registry.held, 0, "a grant that comes before the tick counts no more");
    is_int(number_of(COMMAND_RELEASE), 1, "it is released at once");
    is_int(last_command()->kind, COMMAND_CONTEND, "and the next in line contends");
    tick();
    report(contender, REPORT_RELEASED);
    is_int(harness.front.registry.requests.taken, 1, "the request is freed when the keeper confirms");
}

/* Session 0 waits behind session 1's lease, which may be handed off, and has ended; session 2 waits behind
 * it. */
static void begin_line(void) {
    begin_slowly();
    harness.front.registry.sink.secret = on_secret;
    uint64_t first = hold(3, "ACQUIRE job");
    ask(1, "ACQUIRE job WAIT -1");
    registry_release(&harness.front.registry, registry_find(&harness.front.registry, first), harness.now_ns);
    grant_from_queue();
    report(first, REPORT_RELEASED);
    ask(0, "ACQUIRE job WAIT -1");
    ask(2, "ACQUIRE job WAIT -1");
    end(0);
    clear();
}

static void test_line(void) {
    begin_line();
    struct request *held =
        list_entry(harness.sessions[1].requester.requests.next, struct request, session_link);
    unsigned commands = keeper.n_commands;
    registry_release(&harness.front.registry, held, harness.now_ns);
    is_int(harness.front.registry.held, 0, "no lease is handed off to a session that has ended");
    is_int(keeper.n_commands, commands + 1, "nor does its request contend");
    is_int(last_command()->kind, COMMAND_RELEASE, "the lease is released");
    tick();
    is_int(last_command()->kind, COMMAND_CONTEND, "after the tick the next in line contends");
    grant_from_queue();
    ok(begins(2, "*12"), "and is granted the name");

    begin_line();
    held = list_entry(harness.sessions[1].requester.requests.next, struct request, session_link);
    registry_release(&harness.front.registry, held, harness.now_ns);
    ask(4, "ACQUIRE job WAIT -1");
    is_int(last_command()->kind, COMMAND_CONTEND, "the next in line does not wait for the tick if one asks");
    tick();
    grant_from_queue();
    ok(begins(2, "*12"), "and is granted the name");

    begin_line();
    held = list_entry(harness.sessions[1].requester.requests.next, struct request, session_link);
    tick();
    registry_release(&harness.front.registry, held, harness.now_ns);
    ok(begins(2, "*12"), "a lease that is released after the tick is handed off to the next in line");
}

/* A client may ask on another connection at once. */
static void test_asked_again(void) {
    begin_slowly();
    (void) hold(0, "ACQUIRE job");
    (void) hold(0, "ACQUIRE other");
    end(0);
    ask(1, "ACQUIRE job WAIT 0");
    is_int(number_of(COMMAND_RELEASE), 1,
           "what is left of an ended session does not hold a name that is asked for");
    is_int(last_command()->kind, COMMAND_CONTEND, "so the next session contends");

    begin_slowly();
    (void) hold(0, "ACQUIRE job");
    ask(1, "ACQUIRE job WAIT 100");
    end(0);
    harness.now_ns += 100 * NS_PER_MS;
    tick();
    is_int(last_command()->kind, COMMAND_CONTEND, "nor from one that has waited for the name for its time");
    ok(!begins(1, "-TIMEOUT"), "which does not get TIMEOUT for a holder that has gone");

    begin_slowly();
    for (unsigned i = 0; i < REGISTRY_DROPS_AT_ONCE + 2; i++)
        ask(0, "ACQUIRE job WAIT -1 ASYNC");
    end(0);
    ask(1, "ACQUIRE job WAIT -1");
    is_int(harness.front.registry.waiting, 3, "of very many before it only some are dropped at once");

    begin_slowly();
    (void) hold(0, "ACQUIRE job");
    (void) hold(0, "ACQUIRE other");
    end(0);
    registry_drop_leaving(&harness.front.registry, harness.now_ns);
    is_int(number_of(COMMAND_RELEASE), 2, "before the agent ends, all of them are released");
}

/* The deadline of a lease that is to be dropped is none of its client's losses. */
static void test_deadline(void) {
    begin_slowly();
    (void) hold(0, "ACQUIRE job");
    end(0);
    harness.now_ns += 60 * NS_PER_S;
    tick();
    is_int(number_of(COMMAND_RELEASE), 1, "a lease that ends before the tick is released");
    is_int((long long) harness.front.registry.losses[REASON_PAUSED], 0, "and counts as no loss");

    begin_slowly();
    uint64_t job = hold(0, "ACQUIRE job");
    end(0);
    report(job, REPORT_LOST);
    tick();
    is_int(harness.front.registry.held, 0, "so does one whose loss the keeper reports");
    for (unsigned i = 0; i < REASON_COUNT; i++)
        is_int((long long) harness.front.registry.losses[i], 0, "and counts as none");
}

/* The wait of a request that is to be dropped. */
static void test_waits(void) {
    begin_slowly();
    (void) hold(1, "ACQUIRE job");
    ask(0, "ACQUIRE job WAIT 100 ASYNC");
    end(0);
    harness.now_ns += 200 * NS_PER_MS;
    tick();
    is_int(harness.front.registry.requests.taken, 1, "a wait that ends at the same time ends once");
}

/* The agent ends the session: its waiting requests are dropped in the same way. */
static void test_expelled(void) {
    begin_slowly();
    (void) hold(0, "ACQUIRE job");
    (void) hold(1, "ACQUIRE other");
    ask(0, "ACQUIRE other WAIT -1 ASYNC");
    ok(disconnect_expel(&harness.sessions[0], "malformed", harness.now_ns),
       "a session with a lease is ended");
    is_int(last_command()->kind, COMMAND_ABANDON, "its lease is abandoned at once");
    is_int(harness.front.registry.waiting, 1, "its waiting request waits for the tick");
    tick();
    is_int(harness.front.registry.waiting, 0, "which drops it");
    end(0);
    tick();
    is_int(last_command()->kind, COMMAND_RELEASE, "when its process is dead, the lease is released");
}

int main(void) {
    test_slices();
    test_leases();
    test_order();
    test_unread();
    test_granted();
    test_line();
    test_asked_again();
    test_deadline();
    test_waits();
    test_expelled();
    return done_testing();
}
