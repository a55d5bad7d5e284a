/* Rule 12: fencing tokens. The nodes' clocks are our instant plus a fixed start. */

#include "core/token.h"
#include "tap.h"
#include "shard-harness.h"

static const int64_t epoch_us = INT64_C(1700000000) * 1000000; /* the nodes' clocks at our instant 0 */

enum { SKEW_MS = 60000 };

static int64_t clock_us(int64_t ahead_ms) {
    return epoch_us + harness.now_ns / NS_PER_US + ahead_ms * 1000;
}

/* All nodes vote, with clocks so far ahead of the first one's. */
static void begin(unsigned nodes, const int64_t *ahead_ms) {
    shard_harness_begin(nodes);
    harness.fencing = true;
    harness.shard.config.fence_skew_ms = SKEW_MS;
    pass_ms(1);
    for (unsigned i = 0; i < nodes; i++)
        node_trust_time(&harness.shard, i, clock_us(ahead_ms ? ahead_ms[i] : 0), harness.now_ns,
                        harness.now_ns);
}

static void answer(unsigned node, const struct sent *sent, enum vote_kind kind, enum token_verdict verdict,
                   int64_t token) {
    const struct vote vote = {.kind = kind, .token_verdict = verdict, .token = token, .text = ""};
    vote_with(node, sent->ticket, &vote);
}

static void test_one_round_trip(void) {
    begin(3, NULL);
    contend(1, false);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    ok(sent.token >= clock_us(0) - 1000 && sent.token <= clock_us(0) + 1000,
       "a token, a time, is proposed with the lock");
    answer(0, &sent, VOTE_YES, TOKEN_ACCEPTED, sent.token);
    ok(!last_report(REPORT_GRANTED), "one of three nodes is not enough");
    answer(1, &sent, VOTE_YES, TOKEN_ACCEPTED, sent.token);
    ok(last_report(REPORT_GRANTED) && last_report(REPORT_GRANTED)->token == sent.token,
       "rule 12: the token that a majority accepts is granted");
    is_int(count_sent(OPERATION_RAISE), 0, "in one round trip");
    command(COMMAND_RELEASE, 1);
    contend(2, false);
    ok(last_sent(OPERATION_ACQUIRE)->token > sent.token, "the next proposal at the same instant is larger");
}

static void test_clocks_set_back(void) {
    begin(3, NULL);
    contend(1, false);
    struct sent sent = *last_sent(OPERATION_ACQUIRE);
    for (unsigned i = 0; i < 3; i++)
        answer(i, &sent, VOTE_YES, TOKEN_ACCEPTED, sent.token);
    command(COMMAND_RELEASE, 1);
    sent = *last_sent(OPERATION_RELEASE);
    for (unsigned i = 0; i < 3; i++)
        vote(i, &sent, VOTE_YES);
    pass_ms(50);
    for (unsigned i = 0; i < 3; i++)
        node_trust_time(&harness.shard, i, clock_us(-3600000), harness.now_ns, harness.now_ns);
    for (unsigned i = 0; i < 1400; i++) {
        pass_ms(50);
        for (unsigned node = 0; node < 3; node++)
            if (harness.shard.nodes[node].probing)
                node_trust_probed(&harness.shard, node, &blessed_node, harness.now_ns);
    }
    is_int(shard_askable(&harness.shard), 7, "after a while the nodes vote again");
    contend(2, true);
    sent = *last_sent(OPERATION_ACQUIRE);
    ok(sent.token - clock_us(-3600000) < 60000000,
       "after all clocks were set back, a name without tokens gets a token that the nodes accept");
}

static void test_median(void) {
    static const int64_t ahead_ms[] = {0, 30, 50000, -50000, 20};
    begin(5, ahead_ms);
    contend(1, false);
    int64_t token = last_sent(OPERATION_ACQUIRE)->token;
    ok(token > clock_us(0) && token < clock_us(40), "the proposal is the median of the nodes' clocks");
}

static void test_raised(void) {
    begin(3, NULL);
    contend(1, false);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    answer(0, &sent, VOTE_YES, TOKEN_ACCEPTED, sent.token);
    answer(1, &sent, VOTE_YES, TOKEN_SMALL, sent.token + 500);
    ok(!last_report(REPORT_GRANTED), "rule 12: a lock without an accepted token is no grant");
    const struct sent raise = *last_sent(OPERATION_RAISE);
    is_int(raise.token, sent.token + 501, "a token larger than the met one is proposed");
    is_int(raise.nodes, 7, "to all nodes that may have the lock");
    answer(2, &sent, VOTE_YES, TOKEN_ACCEPTED, sent.token);
    ok(!last_report(REPORT_GRANTED), "answers to the first proposal no longer count");
    answer(0, &raise, VOTE_YES, TOKEN_ACCEPTED, raise.token);
    answer(1, &raise, VOTE_YES, TOKEN_ACCEPTED, raise.token);
    ok(last_report(REPORT_GRANTED) && last_report(REPORT_GRANTED)->token == raise.token,
       "accepted by a majority, the second one is granted");
}

static void test_raised_too_late(void) {
    begin(3, NULL);
    contend(1, false);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    answer(0, &sent, VOTE_YES, TOKEN_SMALL, sent.token);
    answer(1, &sent, VOTE_YES, TOKEN_SMALL, sent.token);
    const struct sent raise = *last_sent(OPERATION_RAISE);
    answer(0, &raise, VOTE_YES, TOKEN_ACCEPTED, raise.token);
    harness.now_ns += INT64_C(9898) * NS_PER_MS; /* as if the process was stopped */
    answer(1, &raise, VOTE_YES, TOKEN_ACCEPTED, raise.token);
    ok(!last_report(REPORT_GRANTED), "rule 6: the deadline counts from the first request");
    ok(last_report(REPORT_FAILED) && last_sent(OPERATION_RELEASE), "the attempt fails and releases");
}

static void test_raised_in_vain(void) {
    begin(3, NULL);
    contend(1, false);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    answer(0, &sent, VOTE_YES, TOKEN_SMALL, sent.token);
    answer(1, &sent, VOTE_YES, TOKEN_SMALL, sent.token);
    for (unsigned i = 1; i <= 3; i++) {
        const struct sent raise = *last_sent(OPERATION_RAISE);
        is_int(count_sent(OPERATION_RAISE), i, "other agents are faster: the token is raised again");
        answer(0, &raise, VOTE_BEHIND, TOKEN_SMALL, raise.token + 5);
        answer(1, &raise, VOTE_BEHIND, TOKEN_SMALL, raise.token + 5);
    }
    ok(count_sent(OPERATION_RAISE) == 3 && last_report(REPORT_FAILED), "but not for ever");

    begin(3, NULL);
    contend(1, false);
    const struct sent other = *last_sent(OPERATION_ACQUIRE);
    answer(0, &other, VOTE_YES, TOKEN_SMALL, other.token);
    answer(1, &other, VOTE_YES, TOKEN_SMALL, other.token);
    const struct sent raise = *last_sent(OPERATION_RAISE);
    answer(0, &raise, VOTE_FOREIGN, TOKEN_ACCEPTED, 0);
    answer(1, &raise, VOTE_FOREIGN, TOKEN_ACCEPTED, 0);
    ok(last_report(REPORT_FAILED), "rule 12: a node with another holder's lock accepts no token");

    begin(3, NULL);
    contend(1, true);
    const struct sent third = *last_sent(OPERATION_ACQUIRE);
    answer(0, &third, VOTE_YES, TOKEN_SMALL, third.token);
    answer(1, &third, VOTE_YES, TOKEN_SMALL, third.token);
    const struct sent unanswered = *last_sent(OPERATION_RAISE);
    pass_ms(100);
    answer(0, &unanswered, VOTE_FOREIGN, TOKEN_ACCEPTED, 0);
    answer(1, &unanswered, VOTE_FOREIGN, TOKEN_ACCEPTED, 0);
    is_int(count_reports(REPORT_CONTENDED), 1, "late answers to a raise, which name no holder, show none");
}

static void test_far_clock(void) {
    begin(3, NULL);
    contend(1, false);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    answer(0, &sent, VOTE_YES, TOKEN_FAR, sent.token - 900);
    ok(strstr(harness.shard.nodes[0].trouble, "clock") != NULL,
       "a node with a clock beyond fence_skew is reported");
    answer(1, &sent, VOTE_YES, TOKEN_SMALL, clock_us(SKEW_MS + 1000));
    const struct sent raise = *last_sent(OPERATION_RAISE);
    is_int(raise.token, sent.token + 1, "a token too far in the future is not raised further");
}

static void bless_again(unsigned node, int64_t floor_us) {
    struct probe probe = blessed_node;

    probe.floor_us = floor_us;
    node_trust_gone(&harness.shard, node, NODE_STATE_CONNECTING, "cut", harness.now_ns);
    node_trust_ready(&harness.shard, node, harness.now_ns);
    node_trust_probed(&harness.shard, node, &probe, harness.now_ns);
}

/* The first proposal of an agent that knows no token, so long after the nodes were blessed: how far beyond
 * the largest floor. */
static int64_t first_beyond_floor_us(int64_t since_us) {
    begin(3, NULL);
    const int64_t floor_us = clock_us(SKEW_MS) - since_us;
    bless_again(0, floor_us - 1);
    bless_again(1, floor_us);
    bless_again(2, floor_us - 1000);
    contend(1, false);
    return last_sent(OPERATION_ACQUIRE)->token - floor_us;
}

static void test_floor(void) {
    enum { STEP_US = 20000, TIME_AGAIN_US = SKEW_MS * 1000 / 3 * 4 };
    unsigned above = 0, accepted = 0, grown = 0, steps = 0;

    for (int64_t since_us = 1; since_us <= 2 * SKEW_MS * 1000;
         since_us += since_us < 4 ? 1 : STEP_US, steps++) {
        int64_t beyond_us = first_beyond_floor_us(since_us);
        above += beyond_us > 0;
        accepted += beyond_us <= since_us;
        grown += first_beyond_floor_us(since_us + STEP_US) - beyond_us >= STEP_US / 4;
    }
    is_int(above, steps, "rule 12: after a blessing proposals are above the floors");
    is_int(accepted, steps, "and not too far ahead for the nodes");
    is_int(grown, steps,
           "a later agent's proposal is larger than an earlier one's: no round trip to raise it");
    is_int(first_beyond_floor_us(TIME_AGAIN_US + STEP_US), TIME_AGAIN_US + STEP_US - SKEW_MS * 1000,
           "until proposals are times again");
}

/* The first proposal with node 0's clock so far ahead of the others', and one node blessed so long ago. */
static int64_t first_of_apart(int64_t ahead_ms, unsigned blessed, int64_t since_ms) {
    const int64_t all_ahead_ms[] = {ahead_ms, 0, 0};

    begin(3, all_ahead_ms);
    bless_again(blessed, clock_us(all_ahead_ms[blessed] + SKEW_MS - since_ms));
    contend(1, false);
    return last_sent(OPERATION_ACQUIRE)->token;
}

static void test_floor_and_clocks_apart(void) {
    int64_t token = first_of_apart(-900, 0, 100);
    ok(token > clock_us(-900 + SKEW_MS - 100) && token <= clock_us(-900 + SKEW_MS),
       "a node with a late clock accepts its floor + 1 after a blessing, and so the proposal");
    token = first_of_apart(900, 0, 1000);
    ok(token > clock_us(900 + SKEW_MS - 1000) && token <= clock_us(SKEW_MS),
       "so do nodes that are behind the blessed one");
    is_int(first_of_apart(-2000, 1, 1000), clock_us(SKEW_MS - 1000) + 1,
           "if one is too far behind, the proposal does not grow, and is above the others' floor");
    ok(first_of_apart(1000, 0, 0) < clock_us(1000),
       "a floor too far ahead for the others is left to their majority");
}

static void contend_for_block(uint64_t request, int64_t known) {
    const struct command command = {.kind = COMMAND_CONTEND,
                                    .persist = true,
                                    .terms.fencing = true,
                                    .spare_tokens = HANDOFFS_MAX,
                                    .token = known,
                                    .request = request,
                                    .terms.ttl_ms = 10000,
                                    .terms.node_timeout_ms = 100,
                                    .text = "x42:",
                                    .head_length = 1,
                                    .tail_length = 3};
    shard_command(&harness.shard, &command, harness.now_ns);
}

static void test_block(void) {
    begin(3, NULL);
    contend_for_block(1, 0);
    struct sent sent = *last_sent(OPERATION_ACQUIRE);
    is_int(sent.token_last, sent.token + HANDOFFS_MAX,
           "a block for hand-offs is proposed with the first token");
    answer(0, &sent, VOTE_YES, TOKEN_ACCEPTED, sent.token_last);
    answer(1, &sent, VOTE_YES, TOKEN_SMALL, sent.token + 500);
    const struct sent raise = *last_sent(OPERATION_RAISE);
    is_int(raise.token, sent.token + 501, "and again when the token is raised");
    is_int(raise.token_last, raise.token + HANDOFFS_MAX, "all of them");
    answer(0, &raise, VOTE_YES, TOKEN_ACCEPTED, 0);
    answer(1, &raise, VOTE_YES, TOKEN_ACCEPTED, 0);
    is_int(last_report(REPORT_GRANTED)->token, raise.token, "the first token is granted");
    is_int(last_report(REPORT_GRANTED)->token_last, raise.token_last, "with the rest of the block");

    begin(3, NULL);
    contend_for_block(1, 0);
    sent = *last_sent(OPERATION_ACQUIRE);
    answer(0, &sent, VOTE_YES, TOKEN_ACCEPTED, sent.token_last);
    answer(1, &sent, VOTE_YES, TOKEN_SMALL, sent.token);
    ok(last_sent(OPERATION_RAISE)->token > sent.token_last,
       "rule 12: a node that accepted a block accepted all of it: the raised token is larger");
    contend_for_block(2, sent.token + 7000);
    ok(last_sent(OPERATION_ACQUIRE)->token > sent.token + 7000,
       "a proposal is beyond the tokens that the front knows");
    contend_for_block(3, clock_us(SKEW_MS / 2));
    sent = *last_sent(OPERATION_ACQUIRE);
    ok(sent.token > clock_us(SKEW_MS / 2) && sent.token_last == sent.token,
       "far ahead of the clock no block is reserved");

    begin(3, NULL);
    for (unsigned i = 0; i < 3; i++)
        bless_again(i, clock_us(SKEW_MS) - HANDOFFS_MAX / 2);
    contend_for_block(1, 0);
    sent = *last_sent(OPERATION_ACQUIRE);
    ok(sent.token < clock_us(SKEW_MS) && sent.token_last == sent.token,
       "nor, just after a blessing, a block with an end that the nodes would reject");

    begin(3, NULL);
    for (unsigned i = 0; i < 3; i++)
        bless_again(i, clock_us(SKEW_MS - 1000));
    contend_for_block(1, 0);
    sent = *last_sent(OPERATION_ACQUIRE);
    ok(sent.token > clock_us(SKEW_MS - 1000) && sent.token_last == sent.token + HANDOFFS_MAX,
       "a second later it is, ahead of the clock as proposals are then");
}

/* As NODES shows it. */
static void test_clocks_shown(void) {
    const int64_t ahead_ms[] = {0, 30, 5000};

    begin(3, ahead_ms);
    is_int(token_clock_ahead_us(&harness.shard, 0, harness.now_ns), -30000, "a clock that is late");
    is_int(token_clock_ahead_us(&harness.shard, 2, harness.now_ns), 4970000, "one that is ahead");
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "cut", harness.now_ns);
    is_int(token_clock_ahead_us(&harness.shard, 2, harness.now_ns), 0, "one that is out of reach");
    begin(1, NULL);
    node_trust_gone(&harness.shard, 0, NODE_STATE_CONNECTING, "cut", harness.now_ns);
    node_trust_ready(&harness.shard, 0, harness.now_ns);
    node_trust_probed(&harness.shard, 0, &new_node, harness.now_ns);
    is_int(token_clock_ahead_us(&harness.shard, 0, harness.now_ns), 0, "one without others to compare");
}

/* Only nodes that can be asked will judge the token. */
static void test_clocks_of_the_others(void) {
    const int64_t ahead_ms[] = {50000, 50000, 0, 0, 0};

    begin(5, ahead_ms);
    for (unsigned node = 3; node < 5; node++)
        node_trust_gone(&harness.shard, node, NODE_STATE_CONNECTING, "cut", harness.now_ns);
    contend(1, false);
    int64_t token = last_sent(OPERATION_ACQUIRE)->token;
    ok(token >= clock_us(50000) - 1000 && token <= clock_us(50000) + 1000,
       "the clocks of nodes out of reach do not count");
}

static void test_known_too_far(void) {
    begin(3, NULL);
    contend_for_block(1, clock_us(SKEW_MS + 1000));
    ok(last_sent(OPERATION_ACQUIRE)->token <= clock_us(0) + 1000,
       "a known token of the future is no base: no node would accept a larger one");
}

/* The answer that makes the majority of the locks comes when too few nodes are left for another proposal. */
static void test_raised_without_nodes(void) {
    begin(3, NULL);
    contend(1, false);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    answer(0, &sent, VOTE_YES, TOKEN_SMALL, sent.token);
    node_trust_gone(&harness.shard, 0, NODE_STATE_CONNECTING, "cut", harness.now_ns);
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "cut", harness.now_ns);
    answer(1, &sent, VOTE_YES, TOKEN_SMALL, sent.token);
    ok(last_report(REPORT_FAILED) && last_report(REPORT_FAILED)->failure == FAILURE_NO_QUORUM,
       "without a majority to ask the attempt fails at once");
    is_int(count_sent(OPERATION_RAISE), 0, "nothing more is proposed");
    is_int(count_reports(REPORT_FAILED), 1, "it fails once");
    pass_ms(1000);
    is_int(count_reports(REPORT_FAILED), 1, "and for good");
}

static void test_without(void) {
    shard_harness_begin(3);
    contend(1, false);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    is_int(sent.token, 0, "fencing = no: no token");
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    ok(last_report(REPORT_GRANTED) && last_report(REPORT_GRANTED)->token == 0, "granted without one");
}

int main(void) {
    test_one_round_trip();
    test_clocks_set_back();
    test_median();
    test_raised();
    test_raised_too_late();
    test_raised_in_vain();
    test_far_clock();
    test_floor();
    test_floor_and_clocks_apart();
    test_block();
    test_clocks_shown();
    test_clocks_of_the_others();
    test_known_too_far();
    test_raised_without_nodes();
    test_without();
    return done_testing();
}
