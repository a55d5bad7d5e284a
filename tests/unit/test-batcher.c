/* Which requests share a script call, and in which order they are sent. */

#include "base/random.h"
#include "batcher-harness.h"
#include "io/node/key-names.h"
#include "tap.h"

static void calls_are(const char *want, const char *what) {
    flush();
    is_string(calls_text(), want, what);
    answer_all(NULL);
}

static void test_together(void) {
    for (unsigned name = 1; name <= 3; name++) {
        ask(OPERATION_ACQUIRE, name);
        ask(OPERATION_RELEASE, name + 10);
        ask(OPERATION_EXTEND, name + 20);
    }
    ask(OPERATION_RAISE, 30);
    ask(OPERATION_QUERY, 31);
    ask(OPERATION_ACQUIRE, 4);
    ask(OPERATION_RAISE, 32);
    ask(OPERATION_ADOPT, 33);
    calls_are("acquire 1 2 3 4; release 11 12 13; extend 21 22 23; raise 30; query 31; raise 32; adopt 33;",
              "equal requests share a call, whatever comes between; others go alone");
}

static void test_kinds(void) {
    ask_nodes(1, OPERATION_ACQUIRE, 1, 1, PLAIN);
    ask_nodes(1, OPERATION_ACQUIRE, 2, 2, FENCED);
    ask_nodes(1, OPERATION_ACQUIRE, 3, 3, BLOCK);
    ask_nodes(1, OPERATION_ACQUIRE, 4, 4, PLAIN);
    ask_nodes(1, OPERATION_ACQUIRE, 5, 5, FENCED);
    ask_nodes(1, OPERATION_ACQUIRE, 6, 6, BLOCK);
    calls_are("acquire 1 4; acquire 2 5; acquire 3 6;",
              "no fencing, one token, and a block of them: a call each");
    is_int(nodes[0].calls[0].n_items, 1 + 2 + 5 + 2 + 1, "keys and arguments without fencing");
    is_string(nodes[0].calls[0].items[4], "", "a call without fencing has no floor");
    is_int(nodes[0].calls[1].n_items, 3 + 2 + 5 + 2 + 2, "keys and arguments with fencing");
    is_string(nodes[0].calls[1].items[6], "77", "with fencing, the call has the node's floor");
    is_int(nodes[0].calls[2].n_items, 3 + 2 + 5 + 2 + 3, "keys and arguments with a block of tokens");
    is_string(nodes[0].calls[2].items[14], "2064", "the call has the block's last token");
}

static void words_are(const struct sent_call *call, size_t from, const char *want, const char *what) {
    char text[256] = "";

    for (size_t i = from; i < call->n_items; i++)
        (void) strcat(strcat(text, i > from ? " " : ""), call->items[i]);
    is_string(text, want, what);
}

/* A value that all names share is sent once. */
static void test_each(void) {
    enum { EACH = 3 + 2 + 4, NUMBERS = EACH + 1 + 2 };

    for (unsigned name = 1; name <= 2; name++)
        ask_nodes(1, OPERATION_ACQUIRE, name, name, BLOCK);
    flush();
    is_string(nodes[0].calls[0].items[EACH], "0", "names with equal numbers share them");
    words_are(&nodes[0].calls[0], NUMBERS, "1000 2000 2064",
              "shared numbers are sent once: ttl, token, last token");
    answer_all(NULL);
    for (unsigned name = 1; name <= 2; name++)
        ask_nodes(1, OPERATION_ACQUIRE, name, name, BLOCK + name);
    flush();
    is_string(nodes[0].calls[0].items[EACH], "1", "names with different tokens do not share numbers");
    words_are(&nodes[0].calls[0], NUMBERS, "1000 1000 2001 2002 2065 2066",
              "then each name has its ttl, token and last token");
    answer_all(NULL);
    for (unsigned name = 1; name <= 2; name++)
        ask_for(1, OPERATION_ACQUIRE, name, name, BLOCK, 1000 * name);
    flush();
    is_string(nodes[0].calls[0].items[EACH], "1", "names with different ttls do not share numbers");
    words_are(&nodes[0].calls[0], NUMBERS, "1000 2000 2000 2000 2064 2064", "then each name has its ttl");
    answer_all(NULL);
}

static void test_agents(void) {
    ask(OPERATION_SEARCH, 1);
    ask(OPERATION_SEARCH, 2);
    ask(OPERATION_ADOPT, 3);
    flush();
    is_int(nodes[0].n_calls, 2, "a search and a RESUME do not share a call");
    words_are(&nodes[0].calls[0], 3 + 2, "1000 1000 run 1000 77 :host:0123::host:p2::host:p1:",
              "a search names this process and the former ones, once for all keys");
    words_are(&nodes[0].calls[1], 2 + 1, "1000 run 1000 77", "a RESUME names none");
    answer_all(NULL);
}

/* Both nodes share the bytes of a call, except for their own words. */
static void test_own_words(void) {
    redisReply good = integer(1);
    redisReply *const all[] = {&good, &good, &good};
    redisReply reply = array((redisReply **) all, 3);

    for (unsigned name = 1; name <= 2; name++) {
        ask_nodes(3, OPERATION_ACQUIRE, name, 100 + name, FENCED);
        ask_nodes(3, OPERATION_EXTEND, 10 + name, 110 + name, FENCED);
        ask_nodes(2, OPERATION_RELEASE, 20 + name, 120 + name, FENCED);
    }
    flush();
    for (unsigned i = 0; i < NODES; i++) {
        is_int(nodes[i].n_calls, 2 + i, "each node gets its calls");
        is_string(nodes[i].calls[0].items[5], nodes[i].epoch, "a call has the epoch of its node");
        is_string(nodes[i].calls[0].items[6], i == 0 ? "77" : "78", "a call has the floor of its node");
        is_string(nodes[i].calls[1].items[7], nodes[i].epoch, "a call to extend has the epoch of its node");
    }
    is_string(nodes[1].calls[2].items[0], "21", "a request to one node goes to that node only");
    is_string(nodes[1].calls[2].items[4], RELEASE_CHANNEL, "a release has its channel");
    static struct sent_call late;
    late = nodes[1].calls[0];
    for (unsigned i = 0; i < 2; i++)
        answer(0, &nodes[0].calls[i], &reply);
    for (unsigned i = 1; i < 3; i++)
        answer(1, &nodes[1].calls[i], &reply);
    for (unsigned name = 1; name <= 2; name++)
        ask(OPERATION_ACQUIRE, 30 + name);
    flush();
    answer(1, &late, &reply);
    is_int(n_votes, 2, "the answer of a slow node counts for its call,");
    is_int(votes[0].ticket, 101, "whatever was sent since");
    answer_all(&reply);
    is_int(overwritten, 0, "and a call's bytes are kept until the last node has answered");
}

/* Only a refresh and a release send the value that the lease had before. */
static void test_former(void) {
    ask_with_former(OPERATION_RELEASE, 1);
    ask(OPERATION_RELEASE, 2);
    ask_with_former(OPERATION_EXTEND, 3);
    ask(OPERATION_EXTEND, 4);
    ask_with_former(OPERATION_REFRESH, 5);
    calls_are("release 1; release 2; extend 3 4; refresh 5;", "a release with two values has its own call");
    is_int(nodes[0].calls[0].n_items, 1 + 1 + 1 + 1, "key, value, former value and channel");
    is_int(nodes[0].calls[1].n_items, 1 + 1 + 1, "key, value and channel");
}

static void test_down(void) {
    redisReply good = integer(1);
    redisReply *const all[] = {&good, &good};
    redisReply reply = array((redisReply **) all, 2);

    nodes[0].down = true;
    ask_nodes(3, OPERATION_ACQUIRE, 1, 1, FENCED);
    flush();
    is_int(n_votes, 1, "a call that can't be sent to a node is cut off there,");
    is_int(nodes[1].n_calls, 1, "a call that one node misses goes to the other node");
    answer_all(&reply);
    is_int(n_votes, 2, "the other node's answer arrives");
    nodes[1].down = true;
    for (unsigned name = 1; name <= 3; name++)
        ask_nodes(3, name % 2 ? OPERATION_ACQUIRE : OPERATION_EXTEND, name, name, FENCED);
    flush();
    is_int(n_votes, 2 * 3, "several calls are cut off once each");
    nodes[0].down = nodes[1].down = false;
    calls_are("", "a call that was cut off is not sent later");
}

static void test_same_key(void) {
    ask(OPERATION_ACQUIRE, 1);
    ask(OPERATION_RELEASE, 1);
    ask(OPERATION_ACQUIRE, 1);
    calls_are("acquire 1; release 1; acquire 1;", "requests for one key keep their order");
    for (unsigned name = 1; name <= 3; name++) {
        ask(OPERATION_RELEASE, name);
        ask(OPERATION_ACQUIRE, name);
    }
    calls_are("release 1 2 3; acquire 1 2 3;",
              "requests for different keys share calls where the order allows");
    ask(OPERATION_ACQUIRE, 1);
    ask(OPERATION_RELEASE, 2);
    ask(OPERATION_ACQUIRE, 2);
    calls_are("acquire 1; release 2; acquire 2;",
              "an acquisition does not join a call from before the release");
    ask(OPERATION_ACQUIRE, 1);
    ask(OPERATION_RAISE, 1);
    ask(OPERATION_ACQUIRE, 2);
    ask(OPERATION_RELEASE, 1);
    calls_are("acquire 1 2; raise 1; release 1;", "no request overtakes one that goes alone");
    ask(OPERATION_ACQUIRE, 1);
    ask(OPERATION_ACQUIRE, 1);
    ask(OPERATION_RELEASE, 1);
    ask(OPERATION_RELEASE, 1);
    calls_are("acquire 1; acquire 1; release 1; release 1;", "no call has a key twice");
    ask_nodes(2, OPERATION_RELEASE, 1, 1, FENCED);
    ask(OPERATION_ACQUIRE, 2);
    ask(OPERATION_ACQUIRE, 1);
    calls_are("acquire 2 1;", "another node's requests do not matter");
}

static void test_limits(void) {
    for (unsigned name = 0; name < 2 * BATCH_ACQUIRES_MAX + 3; name++)
        ask_nodes(1, OPERATION_ACQUIRE, name, name, BLOCK + name);
    flush();
    is_int(nodes[0].n_calls, 3, "BATCH_ACQUIRES_MAX names share a call to acquire");
    is_int(count_locks(&nodes[0].calls[1]), BATCH_ACQUIRES_MAX, "a full call has BATCH_ACQUIRES_MAX names");
    is_int(nodes[0].calls[1].n_items, 3 + BATCH_ACQUIRES_MAX + 5 + 4 * BATCH_ACQUIRES_MAX,
           "a full call has the values and numbers of all its names");
    is_int(count_locks(&nodes[0].calls[2]), 3, "names beyond two full calls follow in a third");
    answer_all(NULL);
    for (unsigned name = 0; name < 3 * BATCH_NAMES_MAX; name++)
        ask(OPERATION_EXTEND, name);
    flush();
    is_int(nodes[0].n_calls, 3, "a call has room for BATCH_NAMES_MAX names to extend");
    answer_all(NULL);
}

/* Each node got all of its requests, once, in the order of each key. */
static bool in_order(const struct redis *node, const unsigned (*asked)[2], unsigned count) {
    static bool found[ITEMS_MAX];
    unsigned n_found = 0;

    memset(found, 0, sizeof(found));
    for (unsigned i = 0; i < node->n_calls; i++) {
        const struct sent_call *call = &node->calls[i];
        size_t n = count_locks(call), from = first_lock(call);
        for (size_t k = 0; k < n; k++) {
            unsigned name = (unsigned) strtoul(call->items[from + k], NULL, 10), at = 0;
            while (at < count && (found[at] || asked[at][1] != name))
                at++; /* it must be the first open request of this name */
            if (at == count || asked[at][0] != (unsigned) call->script)
                return false;
            found[at] = true;
            n_found++;
            for (size_t other = 0; other < k; other++)
                if (strcmp(call->items[from + other], call->items[from + k]) == 0)
                    return false;
        }
    }
    return n_found == count;
}

static void test_any_order(void) {
    static const enum script_id scripts[] = {
        [OPERATION_ACQUIRE] = SCRIPT_ACQUIRE, [OPERATION_RAISE] = SCRIPT_RAISE,
        [OPERATION_EXTEND] = SCRIPT_EXTEND,   [OPERATION_REFRESH] = SCRIPT_REFRESH,
        [OPERATION_RELEASE] = SCRIPT_RELEASE, [OPERATION_QUERY] = SCRIPT_QUERY,
        [OPERATION_ADOPT] = SCRIPT_ADOPT,     [OPERATION_SEARCH] = SCRIPT_ADOPT,
    };
    static unsigned asked[NODES][ITEMS_MAX][2];
    unsigned wrong = 0, calls = 0, items = 0;
    struct random random;

    random_init(&random, 1);
    for (unsigned turn = 0; turn < 2000; turn++) {
        unsigned counts[NODES] = {0}, n = (unsigned) random_between(&random, 1, 200);
        int64_t most = random_between(&random, 1, 100), kinds = random_between(&random, 0, OPERATION_SEARCH);
        for (unsigned i = 0; i < n; i++) {
            enum operation operation = (enum operation) random_between(&random, 0, kinds);
            unsigned name = (unsigned) random_between(&random, 1, most);
            node_set to = (node_set) random_between(&random, 1, 3);
            ask_nodes(to, operation, name, name, random_between(&random, 0, 2) * FENCED);
            for (unsigned node = 0; node < NODES; node++)
                if (to & (1 << node)) {
                    asked[node][counts[node]][0] = (unsigned) scripts[operation];
                    asked[node][counts[node]++][1] = name;
                }
        }
        flush();
        for (unsigned node = 0; node < NODES; node++) {
            wrong += !in_order(&nodes[node], asked[node], counts[node]);
            calls += nodes[node].n_calls;
            items += counts[node];
        }
        answer_all(NULL);
    }
    is_int(wrong, 0, "each node gets all of its requests, in the order of each key");
    ok(calls < items, "in fewer calls: %u for %u requests", calls, items);
}

static void retention_is(int64_t fence_skew_ms, const char *want, const char *what) {
    batcher_harness_configure(fence_skew_ms);
    ask_nodes(1, OPERATION_ACQUIRE, 1, 1, FENCED);
    flush();
    is_string(nodes[0].calls[0].items[3 + 1 + 3], want, what);
    answer_all(NULL);
}

/* A forgotten token may be so far ahead of the clock, and the next one so far behind. */
static void test_retention(void) {
    retention_is(1800000, "3600000", "tokens are kept for fence_retention");
    retention_is(1800001, "3600002", "rule 12: but not for less than twice fence_skew");
    retention_is(60000, "3600000", "with the usual fence_skew, for fence_retention");
}

int main(void) {
    batcher_harness_begin();
    test_together();
    test_kinds();
    test_each();
    test_agents();
    test_own_words();
    test_former();
    test_down();
    test_same_key();
    test_limits();
    test_any_order();
    test_retention();
    is_int(overwritten, 0, "no call's bytes change before the last answer");
    batcher_harness_end();
    return done_testing();
}
