/* Every request is answered in time and with the right error word: a table of requests (WAIT 0, short, long;
 * ACQUIRE and RESUME), states of the name, and kinds and numbers of failed nodes. */

#include "front-and-keeper.h"
#include "tap.h"

static const char *const situation_names[] = {
    "free", "held here", "held there", "held by a library", "split", "to resume", "to resume, but ended"};

static const char *const fault_names[] = {"down", "refusing", "cut off",     "hung",      "stalled",
                                          "slow", "too slow", "quarantined", "connecting"};

static bool resumes(enum situation situation) {
    return situation == RESUMED || situation == RESUMED_ENDED;
}

/* A RESUME that waits for long gets late answers, too. */
static unsigned voters(enum situation situation, int64_t wait_ms) {
    bool all_vote =
        harness.fault == SLOW || (harness.fault == TOO_SLOW && resumes(situation) && wait_ms == LONG_MS);

    return harness.n_nodes - (all_vote ? 0 : node_set_count(harness.faulty));
}

/* `granted`: an earlier request holds the name. */
static const char *expected_word(enum situation situation, int64_t wait_ms, bool granted) {
    unsigned votes = voters(situation, wait_ms), known_gone = situation == RESUMED_ENDED ? votes : 0;
    bool quorum = votes >= quorum_of(harness.n_nodes);
    const char *taken = wait_ms == 0 ? "BUSY" : "TIMEOUT";

    if (situation == HELD_HERE || granted)
        return taken;
    if (known_gone > harness.n_nodes - quorum_of(harness.n_nodes))
        return "NOTHELD";
    if (!quorum || situation == RESUMED_ENDED)
        return "NOQUORUM";
    return situation == FREE || situation == RESUMED ? "granted" : taken;
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
static void check_nothing_hidden(const char *cell, enum situation situation, bool granted) {
    bool ours = false;

    pass_ms(3000);
    for (unsigned i = 0; i < harness.n_nodes; i++)
        ours |= way_us(i) >= 0 && harness.keys[i].secret != 0;
    unsigned held = granted || situation == HELD_HERE;
    if (harness.registry.held == held && harness.shard.counters.held == held &&
        (held || !ours || situation == RESUMED))
        return;
    wrong++;
    (void) printf("# %s: %u granted, held: %u in the front, %u in the keeper, %skeys\n", cell, held,
                  harness.registry.held, harness.shard.counters.held, ours ? "" : "no ");
}

static void set_up_cell(enum situation situation, enum fault fault, node_set faulty, unsigned nodes) {
    front_and_keeper_begin(nodes);
    join_nodes(fault, faulty);
    if (situation == HELD_HERE)
        ask_for(ASKERS_MAX - 2, "x", 0, false);
    pass_ms(10);
    begin_faults(fault, faulty);
    set_keys(situation);
    if (fault == CUT)
        for (unsigned i = 0; i < nodes; i++)
            if (is_faulty(i))
                post(MAIL_GONE, 30 * 1000)->node = i;
}

enum { OTHERS = 5 };
static const int64_t others_ms[OTHERS] = {0, SHORT_MS, LONG_MS, 0, 0};

/* The first request, and a little later some that come behind it on the same host. */
static void run_cell(enum situation situation, enum fault fault, node_set faulty, unsigned nodes,
                     int64_t wait_ms, int64_t later_ms) {
    char cell[160];

    set_up_cell(situation, fault, faulty, nodes);
    if (situation == HELD_HERE && strcmp(askers[ASKERS_MAX - 2].word, "granted") != 0)
        return; /* with these nodes it can't be */
    (void) snprintf(cell, sizeof(cell), "%u nodes, %#x of them %s, %s, others %lld ms later", nodes, faulty,
                    fault_names[fault], situation_names[situation], (long long) later_ms);
    ask_for(0, "x", wait_ms, resumes(situation));
    const char *first = expected_word(situation, wait_ms, false);
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
            check_answer(cell, 1 + i, expected_word(situation, others_ms[i], granted));
    check_nothing_hidden(cell, situation, granted);
}

static void run_cells(enum situation situation, enum fault fault, unsigned nodes) {
    static const int64_t waits_ms[] = {0, SHORT_MS, LONG_MS};
    unsigned all = (1u << nodes) - 1;

    for (unsigned count = 0; count <= nodes; count++)
        for (unsigned place = 0; place < 2; place++)
            for (unsigned i = 0; i < 3; i++) {
                unsigned first = (1u << count) - 1;
                node_set faulty = (node_set) (place == 0 ? first : all & ~(all >> count));
                run_cell(situation, fault, faulty, nodes, waits_ms[i], -1);
                if (resumes(situation))
                    continue; /* others meanwhile would want another table */
                run_cell(situation, fault, faulty, nodes, waits_ms[i], 0);
                run_cell(situation, fault, faulty, nodes, waits_ms[i], 50);
            }
}

/* When the answers so far decide, no request waits for more. */
static void test_at_once(void) {
    for (unsigned nodes = 3; nodes <= 5; nodes += 2)
        for (enum situation situation = HELD_THERE; situation <= RESUMED_ENDED; situation++) {
            if (situation != HELD_THERE && situation != RESUMED_ENDED)
                continue;
            set_up_cell(situation, DOWN, (node_set) (quorum_of(nodes) - 1), nodes);
            ask_for(0, "x", 0, resumes(situation));
            pass_ms(5);
            is_string(askers[0].word, expected_word(situation, 0, false),
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
    front_and_keeper_begin(3);
    join_nodes(DOWN, 0);
    set_keys(RESUMED);
    ask_for(0, "x", -1, false);
    pass_ms(10);
    ask_for(1, "x", 0, true);
    pass_ms(10);
    is_string(askers[1].word, "granted", "a lease is resumed beside a contender");
    struct list *link = list_first(&askers[1].requester.requests);
    registry_release(&harness.registry, list_entry(link, struct request, session_link), harness.now_ns);
    set_keys(HELD_THERE);
    ask_for(2, "x", 0, false);
    pass_ms(3 * NODE_TIMEOUT_MS);
    is_string(askers[2].word, "BUSY", "after it, a request that does not wait gets the contender's result");
}

/* An agent serves before it knows its nodes. Requests wait for a quorum to vote, or to become impossible,
 * and for no more than that. */
static void test_start(bool resume) {
    const char *what = resume ? "resumed with two of three nodes" : "acquired with two of three nodes";

    for (unsigned wait = 0; wait < 2; wait++) {
        front_and_keeper_begin(3);
        set_keys(resume ? RESUMED : FREE);
        harness.fault = CONNECTING;
        harness.faulty = node_set_of(1);
        ask_for(0, "x", wait ? LONG_MS : 0, resume);
        pass_ms(5);
        node_trust_ready(&harness.shard, 0, harness.now_ns);
        pass_ms(5);
        is_string(askers[0].word, "", "one of three voting nodes: no answer yet");
        instant_ns begun_ns = harness.now_ns;
        node_trust_ready(&harness.shard, 2, harness.now_ns);
        pass_ms(50);
        is_string(askers[0].word, "granted", what);
        ok(askers[0].answered_ns - begun_ns < 3 * NS_PER_MS, "granted as soon as the second node votes");
    }
    front_and_keeper_begin(3);
    ask_for(0, "x", 0, resume);
    pass_ms(5);
    node_breaks(0);
    pass_ms(5);
    is_string(askers[0].word, "", "one of three nodes out of reach: no answer yet");
    node_breaks(2);
    pass_ms(1);
    is_string(askers[0].word, "NOQUORUM", "two of three nodes out of reach: answered at once");
}

int main(void) {
    test_at_once();
    test_beside_a_resume();
    test_start(false);
    test_start(true);
    for (enum situation situation = 0; situation < SITUATIONS; situation++)
        for (unsigned nodes = 1; nodes <= 5; nodes += 2) {
            cells = wrong = 0;
            for (enum fault fault = 0; fault < FAULTS; fault++)
                if (situation != SPLIT || nodes > 1)
                    run_cells(situation, fault, nodes);
            ok(wrong == 0,
               "a name that is %s on %u nodes: %u answers in time, each with the right error word",
               situation_names[situation], nodes, cells);
        }
    return done_testing();
}
