/* Ids of requests: no id is used twice, neither by a process nor by the next one. */

#include <assert.h>

#include "scripted-keeper.h"
#include "tap.h"

enum { IDS_SLOTS = 4096, IDS = 200000 };

static uint64_t id_now(void) {
    const struct session *session = &harness.sessions[0];

    return registry_id(&harness.front.registry,
                       list_entry(session->requester.requests.next, struct request, session_link));
}

/* Acquires and releases as fast as a client can, for 5 s. Returns the largest generation; 0: an id came
 * twice. */
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
    const struct local_harness_setup setup = {.sink = {.query = on_command, .survey = on_survey},
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

/* A process without a ledger uses no id of the former process. */
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
           "the next process begins above all of them");
        ok(id_now() < UINT64_C(1) << 53 && id_now() > 0, "a double holds the id exactly");
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
    ok(harness.front.registry.requests.touched <= 2, "slow requests get the same slot each time");
}

/* A report about a request that is gone is not one about the next request. */
static void test_late_report(void) {
    uint64_t first;

    begin_ids(1000 * NS_PER_S);
    ask(0, "ACQUIRE job ASYNC");
    first = last_command()->request;
    registry_release(&harness.front.registry,
                     list_entry(harness.sessions[0].requester.requests.next, struct request, session_link),
                     harness.now_ns);
    report(first, REPORT_RELEASED);
    report(first, REPORT_GRANTED);
    is_int(harness.front.registry.held, 0, "a late report of a request that is gone counts for nothing");
    ask(0, "ACQUIRE job ASYNC");
    ok(last_command()->request != first, "the next request has another number");
    report(first, REPORT_GRANTED);
    is_int(harness.front.registry.held, 0, "and the report is not its own");
    report(last_command()->request, REPORT_GRANTED);
    is_int(harness.front.registry.held, 1, "as its own report is");
}

int main(void) {
    test_ids_after_a_restart();
    test_late_report();
    return done_testing();
}
