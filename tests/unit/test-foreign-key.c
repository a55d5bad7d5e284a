/* Orphans: keys that a killed process of this agent left. They are deleted where they are met, and no
 * others. */

#include <assert.h>

#include "tap.h"
#include "shard-harness.h"

#define HEX "0001020304050607ff090a0b0c0d0e0f10111213"
#define REST ":web1:00c0ffee:42:1000:data"

/* The two processes before this one. Until `from_ns` some of their leases are not over. */
static void succeed(instant_ns from_ns) {
    struct shard_predecessors predecessors = {.count = 2, .from_ns = from_ns};

    lock_value_identify(&predecessors.all[0].identity, "web1", "00c0ffee");
    predecessors.all[0].until_ns = harness.now_ns + 20 * NS_PER_S;
    lock_value_identify(&predecessors.all[1].identity, "web1", "0ddba11");
    predecessors.all[1].until_ns = harness.now_ns + 10 * NS_PER_S;
    shard_succeed(&harness.shard, &predecessors);
}

static void meet(unsigned node, const struct sent *sent, const char *value) {
    vote_with(node, sent->ticket,
              &(struct vote){
                  .kind = VOTE_FOREIGN, .text = value, .text_length = strlen(value), .ttl_left_ms = 5000});
}

/* The number of deletions after one attempt meets this value at a node. */
static unsigned deleted(const char *value) {
    contend(1, true);
    meet(1, last_sent(OPERATION_ACQUIRE), value);
    return count_sent(OPERATION_RELEASE);
}

static void test_deleted(void) {
    shard_harness_begin(3);
    succeed(0);
    is_int(deleted(HEX REST), 1, "an orphan of the former process is deleted");
    const struct sent release = *last_sent(OPERATION_RELEASE);
    is_int(release.nodes, 1 << 1, "at the node that showed it, and at no other");
    ok(release.orphan && release.secret[0] == 0 && release.secret[8] == 0xff && release.secret[19] == 0x13 &&
           strcmp(release.tail, REST) == 0,
       "rule 8: by its very value, with the former process's identity");
    vote(1, &release, VOTE_YES);
    struct sent attempt = *last_sent(OPERATION_ACQUIRE);
    vote(0, &attempt, VOTE_YES);
    vote(2, &attempt, VOTE_YES);
    is_int(count_reports(REPORT_GRANTED), 1, "a majority without that node grants as usual");
    pass_ms(20000);
    is_int(count_reports(REPORT_RELEASED), 0, "the deletion is not reported");
}

/* Killed before it met the orphans of the process before it. */
static void test_earlier_process(void) {
    static const char value[] = HEX ":web1:0ddba11:42:1000:data";

    shard_harness_begin(3);
    succeed(0);
    is_int(deleted(value), 1, "an orphan of the process before the former one is deleted");
    shard_harness_begin(3);
    succeed(harness.now_ns + 1);
    is_int(deleted(value), 0, "not while clients may consider some of the leases valid");
    shard_harness_begin(3);
    succeed(0);
    harness.now_ns += 10 * NS_PER_S;
    is_int(deleted(value), 0, "nor after the last key of that process has ended");
}

/* Its ledger lacks leases, or a late RESUME of it may give a key of a valid lease its value. */
static void test_spared(void) {
    shard_harness_begin(3);
    succeed(0);
    harness.shard.predecessors.all[0].spared = true;
    is_int(deleted(HEX REST), 0, "rule 8: the keys of a spared process are left to their ttl");
    shard_harness_begin(3);
    succeed(0);
    harness.shard.predecessors.all[0].spared = true;
    is_int(deleted(HEX ":web1:0ddba11:42:1000:data"), 1, "those of another one are deleted");
}

/* Searches for a lease of the former process, whose ttl is 5 s. Node 0 has it; node 1 answers by this vote,
 * and node 2 has no key. Returns the deletions after an attempt meets the key of node 0. */
static unsigned deleted_after_search(enum vote_kind kind, int64_t ms) {
    const struct command search = {.kind = COMMAND_SEARCH,
                                   .request = 1,
                                   .terms = {.ttl_ms = 5000, .node_timeout_ms = 100},
                                   .hold_until_ns = INSTANT_NEVER,
                                   .text = "x42:1000:data",
                                   .head_length = 1,
                                   .tail_length = 12};

    shard_harness_begin(3);
    succeed(0);
    shard_command(&harness.shard, &search, harness.now_ns);
    const struct sent sent = *last_sent(OPERATION_SEARCH);
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, kind);
    vote(2, &sent, VOTE_FREE);
    assert(last_report(REPORT_FAILED));
    pass_ms(ms);
    contend(2, true);
    meet(0, last_sent(OPERATION_ACQUIRE), HEX REST);
    return count_sent(OPERATION_RELEASE);
}

/* Its key at node 0 and another agent's key of it at node 1 exclude others together. */
static void test_resumed_in_part(void) {
    is_int(deleted_after_search(VOTE_FOREIGN, 4900), 0,
           "rule 8: no key is deleted while a client may consider a lease valid that is resumed in part");
    is_int(deleted_after_search(VOTE_FOREIGN, 5000), 1, "from then on orphans are deleted");
    is_int(deleted_after_search(VOTE_FREE, 0), 1, "and at once if the lease is nowhere else");
}

static void test_one_try(void) {
    shard_harness_begin(3);
    succeed(0);
    contend(1, false);
    struct sent attempt = *last_sent(OPERATION_ACQUIRE);
    meet(0, &attempt, HEX REST);
    meet(1, &attempt, HEX REST);
    ok(!last_report(REPORT_FAILED), "a request with one try does not fail for orphans");
    pass_ms(100);
    struct sent again = *last_sent(OPERATION_ACQUIRE);
    ok(again.ticket != attempt.ticket, "its attempt is repeated");
    for (unsigned node = 0; node < 3; node++)
        vote(node, &again, VOTE_YES);
    ok(last_report(REPORT_GRANTED), "and finds the name free");

    shard_harness_begin(3);
    succeed(0);
    contend(1, false);
    attempt = *last_sent(OPERATION_ACQUIRE);
    vote(0, &attempt, VOTE_FOREIGN);
    vote(1, &attempt, VOTE_FOREIGN);
    ok(last_report(REPORT_FAILED) && last_report(REPORT_FAILED)->failure == FAILURE_BUSY,
       "it fails for another's keys as usual");
}

static void test_left_alone(void) {
    static const struct {
        const char *value, *whose;
    } others[] = {
        {HEX ":web1:00c0ffef:42:1000:data", "another agent's"},
        {HEX ":web2:00c0ffee:42:1000:data", "another host's"},
        {HEX ":web1:00c0ffee", "a shortened one"},
        {"0001020304050607FF090a0b0c0d0e0f10111213" REST, "one with other digits"},
        {"0001020304050607zz090a0b0c0d0e0f10111213" REST, "an invalid number"},
        {"00" HEX REST, "a longer one"},
        {"job", "a short one"},
        {"", "an empty one"},
    };

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        shard_harness_begin(3);
        succeed(0);
        is_int(deleted(others[i].value), 0, "rule 8: left alone: a key");
        (void) printf("#   %s\n", others[i].whose);
    }
    shard_harness_begin(3);
    is_int(deleted(HEX REST), 0, "without a former process nothing is deleted");
    shard_harness_begin(3);
    succeed(harness.now_ns + 5 * NS_PER_S);
    is_int(deleted(HEX REST), 0, "nor while clients may consider some of its leases valid");
    shard_harness_begin(3);
    succeed(harness.now_ns);
    is_int(deleted(HEX REST), 1, "but from then on");
    ok(last_sent(OPERATION_RELEASE)->orphan, "as an orphan");
    shard_harness_begin(3);
    succeed(0);
    harness.now_ns += 20 * NS_PER_S;
    is_int(deleted(HEX REST), 0, "nor after its last key has ended");
    shard_harness_begin(3);
    succeed(0);
    contend(1, true);
    vote_with(1, last_sent(OPERATION_ACQUIRE)->ticket,
              &(struct vote){.kind = VOTE_FOREIGN,
                             .foreign_type = true,
                             .text = HEX REST,
                             .text_length = strlen(HEX REST),
                             .ttl_left_ms = -1});
    is_int(count_sent(OPERATION_RELEASE), 0, "a key that is no lock is left alone");
}

static void test_long_value(void) {
    static char value[SHARED_STRING_BYTES_MAX + 64];

    memset(value, 'x', sizeof(value) - 1);
    memcpy(value, HEX REST, strlen(HEX REST));
    shard_harness_begin(3);
    succeed(0);
    is_int(deleted(value), 0, "a value that is too long is left alone");
    value[SHARED_STRING_BYTES_MAX - 1 + strlen(HEX)] = '\0';
    shard_harness_begin(3);
    succeed(0);
    is_int(deleted(value), 1, "the longest possible one is deleted");
}

/* While the nodes' answers are late, each attempt meets the orphan again. */
static void test_many(void) {
    shard_harness_begin(3);
    succeed(0);
    contend(1, true);
    for (unsigned i = 0; i < 60; i++) {
        const struct sent *attempt = last_sent(OPERATION_ACQUIRE);
        meet(0, attempt, HEX REST);
        vote(1, attempt, VOTE_FOREIGN);
        vote(2, attempt, VOTE_YES); /* too late, but without it the node would be slow */
        vote(2, last_sent(OPERATION_RELEASE), VOTE_YES); /* an undo record */
        harness.n_sends = 0;
        while (!last_sent(OPERATION_ACQUIRE))
            pass_ms(1);
    }
    is_int(harness.shard.leases.taken, 2,
           "a deletion without an answer stays one, however often the orphan is met");
    meet(1, last_sent(OPERATION_ACQUIRE), HEX REST);
    is_int(last_sent(OPERATION_RELEASE)->nodes, 1 << 1, "at another node, too");
    is_int(harness.shard.leases.taken, 2, "and is still one");
    pass_ms(20000);
}

/* The former process had two leases of the name, one after the other. */
static void test_two_of_a_name(void) {
    shard_harness_begin(3);
    succeed(0);
    contend(1, true);
    const struct sent attempt = *last_sent(OPERATION_ACQUIRE);
    meet(0, &attempt, HEX REST);
    meet(1, &attempt, "ff01020304050607ff090a0b0c0d0e0f10111213" REST);
    unsigned asked[2] = {0}; /* the nodes, by the first byte of the value */
    for (unsigned i = 0; i < harness.n_sends; i++)
        if (harness.sends[i].orphan)
            asked[harness.sends[i].secret[0] == 0xff] |= harness.sends[i].nodes;
    ok(asked[0] == 1 << 0 && asked[1] == 1 << 1,
       "two orphans of a name are deleted, each by its own value where it is");
}

static void test_held(void) {
    shard_harness_begin(3);
    succeed(0);
    hold(1);
    const struct sent extension = pass_to_extension();
    vote(0, &extension, VOTE_YES);
    meet(2, &extension, HEX REST);
    vote(1, &extension, VOTE_YES);
    is_int(count_sent(OPERATION_RELEASE), 0,
           "rule 8: an orphan that an extension meets is left alone: it may be a key of this lease");
    harness.n_sends = 0;
    const struct sent next = pass_to_extension();
    vote(0, &next, VOTE_YES);
    meet(2, &next, HEX REST);
    is_int(harness.foreign, 0, "and not reported as foreign, however often");
}

/* Several extensions. What two nodes of five answer to each: a foreign value, "=" yes, "+" set again, "!"
 * cut off, NULL nothing. */
static unsigned reported(const char *const answers[][2], size_t count) {
    shard_harness_begin(5);
    harness.foreign = 0;
    hold(1);
    for (size_t i = 0; i < count; i++) {
        harness.n_sends = 0;
        const struct sent extension = pass_to_extension();
        for (unsigned node = 0; node < 3; node++)
            vote(node, &extension, VOTE_YES);
        for (unsigned at = 0; at < 2; at++) {
            const char *answer = answers[i][at];
            if (answer && *answer && strchr("=+!", *answer))
                vote(3 + at, &extension,
                     *answer == '='   ? VOTE_YES
                     : *answer == '+' ? VOTE_REPAIRED
                                      : VOTE_CUT);
            else if (answer)
                meet(3 + at, &extension, answer);
        }
    }
    return harness.foreign;
}

/* A contender's key is there for milliseconds, another program's stays. */
static void test_stays(void) {
    enum { EXTENSIONS_MAX = 6 };
    static const struct {
        const char *answers[EXTENSIONS_MAX][2];
        size_t count;
        unsigned reported;
        const char *what;
    } cases[] = {
        {{{"one", "="}}, 1, 0, "another's value is not reported at once"},
        {{{"one", "="}, {"one", "="}}, 2, 1, "but at the second extension that meets it"},
        {{{"one", "="}, {"one", "="}, {"one", "="}, {"two", "="}, {"two", "="}},
         5,
         1,
         "once, also if the value changes later"},
        {{{"one", "="}, {"two", "="}, {"three", "="}},
         3,
         0,
         "attempts of contenders, each with a value of its own, are not reported"},
        {{{"one", "one"}, {"two", "two"}}, 2, 0, "nor are they on two nodes"},
        {{{"one", "="}, {"=", "="}, {"one", "="}}, 3, 0, "nor is a value that was gone meanwhile"},
        {{{"one", "="}, {"+", "="}, {"one", "="}}, 3, 0, "nor one before the key was set again"},
        {{{"one", "="}, {"two", "="}, {"two", "="}, {"two", "="}},
         4,
         1,
         "a value that came later is reported"},
        {{{"one", "stays"}, {"two", "stays"}, {"three", "stays"}},
         3,
         1,
         "contenders on one node do not hide a value that stays on another one"},
        {{{"one", "="}, {NULL, "stays"}, {NULL, "stays"}, {NULL, "stays"}},
         4,
         1,
         "nor does a node that falls silent"},
        {{{"one", "one"}, {"one", "one"}, {"one", "one"}, {"one", "one"}},
         4,
         2,
         "one that stays on two nodes is reported for both"},
        {{{"one", "="}, {"!", "one"}, {NULL, "one"}, {NULL, "one"}},
         4,
         1,
         "a node that is out of reach does not hide another one"},
        {{{"one", "="}, {"one", "="}, {"=", "="}, {"one", "="}, {"one", "="}},
         5,
         2,
         "after our own key was there, a foreign value is reported again"},
        {{{"", "="}, {"", "="}}, 2, 1, "so is a key of another type, whose value the node does not show"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        is_int(reported(cases[i].answers, cases[i].count), cases[i].reported, cases[i].what);
}

static unsigned count_orphans(void) {
    unsigned count = 0;

    for (unsigned i = 0; i < harness.n_sends; i++)
        count += harness.sends[i].operation == OPERATION_RELEASE && harness.sends[i].orphan;
    return count;
}

static void nodes_answer_releases(void) {
    unsigned count = harness.n_sends;

    for (unsigned i = 0; i < count; i++) {
        const struct sent sent = harness.sends[i];
        for (unsigned node = 0; node < 3 && sent.operation == OPERATION_RELEASE; node++)
            if (sent.nodes & node_set_of(node))
                vote(node, &sent, VOTE_YES);
    }
}

/* A lease of the former process goes on here, but one node was out of reach, and has its former value. */
static void test_lost(void) {
    char value[2 * SECRET_BYTES + sizeof(REST)];

    shard_harness_begin(3);
    succeed(0);
    hold(1);
    const instant_ns deadline_ns = last_report(REPORT_GRANTED)->deadline_ns;
    const struct sent extension = pass_to_extension();
    for (unsigned i = 0; i < SECRET_BYTES; i++)
        (void) sprintf(value + 2 * i, "%02x", extension.secret[i]);
    memcpy(value + 2 * SECRET_BYTES, REST, sizeof(REST));
    meet(0, &extension, "somebody");
    meet(1, &extension, value);
    is_int(last_report(REPORT_LOST)->reason, REASON_TAKEN, "a lease is lost");
    contend(2, true);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    meet(0, &sent, "somebody");
    meet(1, &sent, value);
    is_int(count_orphans(), 0,
           "rule 8: the next attempt deletes no former key of it while its holder may rely on it");
    command(COMMAND_RELEASE, 2);
    nodes_answer_releases();
    pass_ms((deadline_ns - harness.now_ns) / NS_PER_MS + 1);
    nodes_answer_releases();
    contend(3, true);
    meet(1, last_sent(OPERATION_ACQUIRE), value);
    is_int(count_orphans(), 1, "after the deadline an attempt does");
}

int main(void) {
    test_lost();
    test_deleted();
    test_earlier_process();
    test_spared();
    test_resumed_in_part();
    test_one_try();
    test_left_alone();
    test_long_value();
    test_many();
    test_two_of_a_name();
    test_held();
    test_stays();
    return done_testing();
}
