/* Rule 10: how long a node rests that lost its memory, where agents differ; and whose nodes count at all.
 * The agent here grants leases of a minute. */

#include <string.h>

#include "core/quarantine.h"
#include "tap.h"
#include "shard-harness.h"

enum { MINUTE_MS = 60000, SECOND_MS = 1000, DAY_MS = 86400000 };

static struct probe epoch_of(uint32_t max_ttl_ms, uint32_t generation) {
    struct probe probe = blessed_node;

    probe.max_ttl_ms = max_ttl_ms;
    probe.generation = generation;
    return probe;
}

static struct probe mark_of(uint32_t longest_ms) {
    struct probe probe = marked_node;

    probe.max_ttl_ms = longest_ms;
    return probe;
}

static void probed(unsigned node, struct probe probe) {
    node_trust_probed(&harness.shard, node, &probe, harness.now_ns);
}

/* A request finds that its epoch is gone; our mark is left. */
static void forgets(unsigned node) {
    harness.now_ns += NS_PER_MS;
    contend(9 + node, false);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    vote(node, &sent, VOTE_EPOCH);
    probed(node, marked_node);
    command(COMMAND_RELEASE, 9 + node);
}

static bool votes(unsigned node) {
    return shard_askable(&harness.shard) & node_set_of(node);
}

static int64_t rests_ms(unsigned node) {
    instant_ns until_ns = quarantine_until_ns(&harness.shard, node);

    return until_ns == INSTANT_NEVER ? -1 : (until_ns - harness.shard.nodes[node].marked_ns) / NS_PER_MS;
}

/* The usual one, of leases up to that. */
static int64_t rest_of(int64_t max_ttl_ms) {
    return max_ttl_ms + max_ttl_ms / 100 + 2 + 1000;
}

static void test_longest_of_others(void) {
    shard_harness_begin(5);
    forgets(0);
    is_int(rests_ms(0), rest_of(DAY_MS), "nobody was asked yet: it takes as long as any lease may last");
    is_int(node_trust_until_ns(&harness.shard, 0), INSTANT_NEVER, "which is not what people hear");
    ok(harness.shard.nodes[1].probing && harness.shard.nodes[4].probing, "the others are asked at once");
    probed(1, epoch_of(MINUTE_MS, 0));
    probed(2, epoch_of(DAY_MS / 2, 0));
    is_int(rests_ms(0), rest_of(DAY_MS),
           "two others of five may all not be among those who granted a lease");
    probed(3, epoch_of(MINUTE_MS, 0));
    is_int(rests_ms(0), rest_of(DAY_MS / 2), "rule 10: one of three is: the longest max_ttl counts");
    is_int(harness.shard.max_ttl_ms, MINUTE_MS, "for this node, this time");
}

static void test_read_before(void) {
    shard_harness_begin(3);
    pass_ms(10000);
    ok(harness.shard.nodes[1].probing || harness.shard.nodes[1].read_ns > 0, "the others are known");
    trusted_nodes_answer();
    harness.now_ns += NS_PER_MS;
    harness.shard.nodes[1].probe_ns = harness.shard.nodes[2].probe_ns = harness.now_ns;
    shard_tick(&harness.shard, harness.now_ns);
    harness.now_ns += NS_PER_MS;
    forgets(0);
    trusted_nodes_answer();
    is_int(rests_ms(0), rest_of(DAY_MS), "rule 10: what was asked before the mark was left may be too old");
    ok(harness.shard.nodes[1].probing && harness.shard.nodes[2].probing, "so it is asked again");
    trusted_nodes_answer();
    is_int(rests_ms(0), rest_of(MINUTE_MS), "and counts");
}

static void test_unreachable(void) {
    shard_harness_begin(3);
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "down", harness.now_ns);
    forgets(0);
    for (unsigned second = 0; second < 70; second++) {
        pass_ms(SECOND_MS);
        if (harness.shard.nodes[0].probing)
            probed(0, marked_node);
    }
    is_int(harness.blessings[0], 0, "rule 10: a node that can't be asked may know of longer leases");
    ok(strstr(harness.reasons[0], "2 other nodes must report the longest max_ttl") != NULL,
       "people are told");
    node_trust_bless(&harness.shard, 0, harness.now_ns);
    is_int(harness.blessings[0], 1, "an operator may know better");
    ok(harness.blessed[0].rested, "that counts for all");

    shard_harness_begin(3);
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "down", harness.now_ns);
    forgets(0);
    pass_ms(5000);
    node_joins(2);
    is_int(rests_ms(0), rest_of(MINUTE_MS), "when it can be asked again, the time since the mark counts");
}

/* The agent starts, with leases of a second, and finds that no node has an epoch. */
static void begin_without_epochs(unsigned nodes) {
    shard_harness_begin(nodes);
    harness.shard.max_ttl_ms = SECOND_MS;
    for (unsigned i = 0; i < nodes; i++) {
        node_init(&harness.shard.nodes[i]);
        node_trust_ready(&harness.shard, i, harness.now_ns);
        probed(i, mark_of(SECOND_MS));
    }
}

static void pass_with_marks(unsigned seconds) {
    for (unsigned i = 0; i < seconds; i++) {
        pass_ms(SECOND_MS + 1);
        for (unsigned node = 0; node < 3; node++)
            if (harness.shard.nodes[node].probing && harness.blessings[node] == 0)
                probed(node, mark_of(SECOND_MS));
    }
}

/* All nodes forget at once: nobody knows of other agents but by their marks. */
static void test_all_forget(void) {
    begin_without_epochs(3);
    pass_ms(SECOND_MS);
    probed(1, mark_of(SECOND_MS));
    probed(2, mark_of(SECOND_MS));
    is_int(rests_ms(0), 11100, "all that are connected have the time to notice");
    pass_ms(SECOND_MS);
    probed(1, mark_of(MINUTE_MS));
    is_int(rests_ms(0), rest_of(MINUTE_MS), "rule 10: and the longest max_ttl of those who have counts");
    probed(0, mark_of(DAY_MS));
    is_int(rests_ms(2), rest_of(DAY_MS), "whichever node they could reach");
}

/* An agent with another set of nodes leaves its mark, or renews its fleet's epoch, at the last moment: after
 * the probe that this agent sent last. */
static void test_rival_at_the_last_moment(void) {
    struct probe rival = marked_node;

    rival.rival = true;
    rival.others = "others";
    for (unsigned with_rival = 0; with_rival < 2; with_rival++) {
        begin_without_epochs(3);
        pass_ms(SECOND_MS);
        for (unsigned i = 0; i < 3; i++)
            probed(i, marked_node);
        harness.shard.nodes[0].probe_ns = harness.shard.nodes[1].probe_ns = harness.shard.nodes[2].probe_ns =
            harness.now_ns + 12 * NS_PER_S;
        pass_ms(11 * SECOND_MS);
        ok(harness.blessings[0] + harness.blessings[1] + harness.blessings[2] == 0,
           "rule 10: nodes that were read before the others had time to notice do not count");
        pass_ms(SECOND_MS);
        probed(0, with_rival ? rival : marked_node);
        is_int(harness.blessings[1] + harness.blessings[2], 0,
               "nor does one that is read once more suffice");
        probed(1, marked_node);
        is_int(harness.blessings[2], 0, "nor two, before the node itself is");
        probed(2, marked_node);
        pass_ms(1);
        is_int(harness.blessings[2], with_rival ? 0 : 1,
               with_rival ? "another fleet's mark keeps the nodes from a blessing"
                          : "then the nodes are blessed");
    }
}

/* A node inherits an epoch that another agent, without quarantine, has written meanwhile. */
static void test_inherits_unrested(void) {
    struct probe unrested = blessed_node;

    unrested.rested = false;
    unrested.brief = true;
    shard_harness_begin(3);
    node_trust_gone(&harness.shard, 0, NODE_STATE_CONNECTING, "gone", harness.now_ns);
    node_trust_ready(&harness.shard, 0, harness.now_ns);
    probed(0, unrested);
    ok(!votes(0), "rule 10: an epoch that has not rested does not count, whichever answer has it");
    unrested.rested = true;
    pass_ms(2 * SECOND_MS);
    probed(0, unrested);
    ok(votes(0), "one that has does");
}

/* Nodes that have lost their memory cannot tell any more what an agent has read of their epochs before. */
static void test_remembers_epochs(void) {
    shard_harness_begin(3);
    harness.shard.max_ttl_ms = SECOND_MS;
    forgets(0);
    probed(1, epoch_of(DAY_MS / 2, 1));
    probed(2, epoch_of(SECOND_MS, 1));
    is_int(rests_ms(0), rest_of(DAY_MS / 2), "another node tells of longer leases");
    node_trust_gone(&harness.shard, 1, NODE_STATE_CONNECTING, "gone", harness.now_ns);
    node_trust_ready(&harness.shard, 1, harness.now_ns);
    probed(1, mark_of(SECOND_MS));
    pass_ms(SECOND_MS);
    probed(1, mark_of(SECOND_MS));
    is_int(rests_ms(0), rest_of(DAY_MS / 2), "rule 10: that counts also when this node forgets, too");
    is_int(harness.mark_max_ttl_ms[1], DAY_MS / 2, "and the agent's mark there tells the others");
    pass_ms(SECOND_MS);
    probed(1, epoch_of(SECOND_MS, 1));
    is_int(rests_ms(0), rest_of(MINUTE_MS), "until the node is blessed for shorter leases");
}

/* What has been read of a mark says nothing of agents that have noticed the loss later. */
static void test_marks_read_late(void) {
    begin_without_epochs(3);
    pass_with_marks(1);
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "gone", harness.now_ns);
    pass_with_marks(14);
    is_int(harness.blessings[0], 0,
           "rule 10: a mark that was read before all agents have noticed the loss is not enough");
    ok(strstr(harness.reasons[0], "2 other nodes must report") != NULL, "people are told");
    node_trust_ready(&harness.shard, 2, harness.now_ns);
    probed(2, mark_of(SECOND_MS));
    pass_with_marks(2);
    is_int(harness.blessings[0], 1, "when it is read again the node is blessed");
}

/* An agent is noticed by its mark: so it leaves that as soon as it finds that an epoch is lost. */
static void test_marks_at_once(void) {
    shard_harness_begin(3);
    harness.now_ns += 11 * NS_PER_S;
    shard_tick(&harness.shard, harness.now_ns);
    ok(harness.shard.nodes[0].probing, "a trusted node is probed");
    ok(harness.leaves[0], "rule 10: a probe that finds no epoch leaves the mark");
    harness.now_ns += NS_PER_MS;
    probed(0, marked_node);
    is_int(harness.shard.nodes[0].marked_ns, harness.now_ns, "from then on the node rests");
}

static void test_single_node(void) {
    begin_without_epochs(1);
    is_int(rests_ms(0), 11100, "of a single node there is nobody to ask: those who are connected are heard");
    harness.shard.config.quarantine = false;
    is_int(rests_ms(0), 0, "without quarantine it need not rest");
}

/* Another one left its mark since our last probe. */
static void test_longer_mark_at_blessing(void) {
    struct probe longer = mark_of(DAY_MS);

    longer.brief = true;
    shard_harness_begin(3);
    forgets(0);
    trusted_nodes_answer();
    for (unsigned second = 0; second < 62; second++) {
        pass_ms(SECOND_MS);
        if (harness.blessings[0] == 0 && harness.shard.nodes[0].probing)
            probed(0, marked_node);
    }
    is_int(harness.blessings[0], 1, "it is about to be blessed");
    is_int(harness.blessed[0].covered_ms, MINUTE_MS, "for leases of a minute");
    probed(0, longer);
    is_int(rests_ms(0), rest_of(DAY_MS), "but the node knows of longer ones");
    pass_ms(5000);
    is_int(harness.blessings[0], 1, "for which it goes on resting");
    probed(0, new_node);
    ok(harness.shard.nodes[0].marked_ns == INSTANT_NEVER, "as long as the mark stands");
}

static void test_unrested(void) {
    struct probe careless = marked_node;

    shard_harness_begin(3);
    careless.unrested = true;
    careless.max_ttl_ms = DAY_MS;
    forgets(0);
    trusted_nodes_answer();
    pass_ms(1100);
    probed(0, careless);
    ok(!votes(0) && rests_ms(0) == rest_of(DAY_MS),
       "rule 10: that an agent with quarantine = no has blessed a node changes nothing for others");
    harness.shard.config.quarantine = false;
    pass_ms(1100);
    is_int(harness.blessings[0], 1, "for itself it does so at once");
    ok(!harness.blessed[0].rested, "and says that it counts for itself alone");
}

/* --- epochs --- */

static void changes(unsigned node, struct probe to) {
    harness.shard.nodes[node].probe_ns = harness.now_ns;
    shard_tick(&harness.shard, harness.now_ns);
    probed(node, to);
}

static void test_raised(void) {
    shard_harness_begin(3);
    changes(0, epoch_of(SECOND_MS, 1));
    ok(!votes(0), "an epoch for shorter leases than ours does not count");
    is_int(harness.amendments[0], 1, "it is made longer at once: the node has forgotten nothing");
    is_int(harness.amended[0].max_ttl_ms, MINUTE_MS, "for ours");
    probed(0, epoch_of(MINUTE_MS, 2));
    ok(votes(0), "then the node votes");
    changes(0, epoch_of(DAY_MS, 3));
    ok(votes(0), "also under one for longer leases");
    is_int(harness.amendments[0], 1, "which is left alone");
}

/* An epoch that the agent and the script read differently, say. */
static void test_raised_in_vain(void) {
    shard_harness_begin(3);
    harness.shard.nodes[0].probe_ns = harness.now_ns;
    shard_tick(&harness.shard, harness.now_ns);
    unsigned asked = 0;
    for (unsigned i = 0; i < 1000; i++) {
        if (harness.shard.nodes[0].probing) {
            probed(0, shortly_blessed_node);
            asked++;
        }
        pass_ms(10);
    }
    ok(asked >= 8 && asked <= 25, "what is in vain is not repeated at the speed of the answers (%u in 10 s)",
       asked);
}

/* Answers the looks at node 0 with this for so long. */
static void pass_with_epoch(struct probe epoch, int64_t seconds) {
    unsigned before = harness.amendments[0];

    for (int64_t i = 0; i < seconds && harness.amendments[0] == before; i++) {
        harness.now_ns += NS_PER_S;
        shard_tick(&harness.shard, harness.now_ns);
        for (unsigned node = 0; node < 3 && harness.amendments[0] == before; node++)
            if (harness.shard.nodes[node].probing)
                probed(node, node == 0 ? epoch : blessed_node);
    }
}

static void test_shortened(void) {
    struct probe proposed = epoch_of(2 * MINUTE_MS, 2);

    shard_harness_begin(3);
    changes(0, epoch_of(2 * MINUTE_MS, 1));
    pass_with_epoch(epoch_of(2 * MINUTE_MS, 1), 120);
    is_int(harness.amendments[0], 0, "an epoch for longer leases than ours is left alone for a while");
    pass_with_epoch(epoch_of(2 * MINUTE_MS, 1), 10);
    is_int(harness.amendments[0], 1, "then shorter ones are proposed");
    is_int(harness.amended[0].max_ttl_ms, 2 * MINUTE_MS, "which changes nothing");
    is_int(harness.amended[0].proposed_ms, MINUTE_MS,
           "but that everybody has to say so who needs longer ones");
    proposed.proposed_ms = MINUTE_MS;
    probed(0, proposed);
    ok(votes(0), "meanwhile the node votes");
    pass_with_epoch(proposed, 120);
    is_int(harness.amendments[0], 1, "rule 10: until all longer leases have ended that it voted for before");
    pass_with_epoch(proposed, 10);
    is_int(harness.amendments[0], 2, "then the epoch is for shorter ones");
    ok(harness.amended[0].max_ttl_ms == MINUTE_MS && harness.amended[0].proposed_ms == 0, "as proposed");
    probed(0, epoch_of(MINUTE_MS, 3));
    ok(votes(0), "and the node votes on");
}

static void test_veto(void) {
    struct probe proposed = epoch_of(MINUTE_MS, 2);

    shard_harness_begin(3);
    proposed.proposed_ms = SECOND_MS;
    changes(0, proposed);
    ok(!votes(0), "rule 10: under an epoch that may become too short for us we ask for nothing");
    is_int(harness.amendments[0], 1, "but take the proposal back");
    ok(harness.amended[0].max_ttl_ms == MINUTE_MS && harness.amended[0].proposed_ms == 0, "at once");
    proposed = epoch_of(DAY_MS, 3);
    proposed.proposed_ms = SECOND_MS;
    probed(0, proposed);
    pass_ms(1100);
    ok(harness.amended[0].max_ttl_ms == DAY_MS && harness.amended[0].proposed_ms == MINUTE_MS,
       "where ours would be shorter too, we propose that");
}

static void test_operator_shortens(void) {
    shard_harness_begin(3);
    changes(0, epoch_of(DAY_MS, 1));
    node_trust_bless(&harness.shard, 0, harness.now_ns);
    is_int(harness.amendments[0], 1, "an operator's word makes an epoch shorter at once");
    is_int(harness.amended[0].max_ttl_ms, MINUTE_MS, "as short as ours");
    probed(0, epoch_of(MINUTE_MS, 2));
    ok(votes(0), "the node goes on voting");
    node_trust_bless(&harness.shard, 0, harness.now_ns);
    forgets(0);
    is_int(harness.blessings[0], 0, "of a node that votes an operator's word says nothing for later");
}

/* A round begins, and the node's epoch changes before the vote is there. */
static void test_epoch_of_before(void) {
    shard_harness_begin(3);
    contend(1, false);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    pass_ms(1);
    vote(0, &sent, VOTE_YES);
    changes(1, epoch_of(MINUTE_MS, 1));
    vote(1, &sent, VOTE_YES);
    ok(!last_report(REPORT_GRANTED),
       "rule 10: a vote under an epoch that is younger than the round is none");
    vote(2, &sent, VOTE_YES);
    ok(last_report(REPORT_GRANTED) != NULL, "a majority of others is enough");
    command(COMMAND_RELEASE, 1);
    is_int(last_sent(OPERATION_RELEASE)->nodes, 7, "the node is owed the release");
}

/* The same, where shorter leases than that are proposed already. */
static void test_longer_lease_below_proposal(void) {
    struct probe proposed = epoch_of(2 * MINUTE_MS, 1);

    shard_harness_begin(3);
    proposed.proposed_ms = MINUTE_MS;
    for (unsigned i = 0; i < 3; i++)
        changes(i, proposed);
    ok(votes(0) && votes(1) && votes(2), "shorter leases are proposed, as short as ours");
    node_trust_outgrow(&harness.shard, 2 * MINUTE_MS);
    ok(!votes(0) && !votes(1) && !votes(2),
       "rule 10: a lease that is longer than the proposal is not resumed before that is taken back");
    pass_ms(1);
    ok(harness.amended[0].max_ttl_ms == 2 * MINUTE_MS && harness.amended[0].proposed_ms == 0, "at once");
}

/* Longer leases were configured when it was granted. */
static void test_longer_lease_resumed(void) {
    const struct command resume = {.kind = COMMAND_RESUME,
                                   .persist = true,
                                   .request = 1,
                                   .terms.ttl_ms = 2 * MINUTE_MS,
                                   .terms.node_timeout_ms = 100,
                                   .hold_until_ns = INSTANT_NEVER,
                                   .text = "x42:",
                                   .head_length = 1,
                                   .tail_length = 3};

    shard_harness_begin(3);
    shard_command(&harness.shard, &resume, harness.now_ns);
    ok(!last_sent(OPERATION_ADOPT), "rule 10: a lease that is longer than the epochs say is not resumed");
    pass_ms(1);
    is_int(harness.amended[0].max_ttl_ms, 2 * MINUTE_MS, "before they say so");
    for (unsigned i = 0; i < 3; i++)
        probed(i, epoch_of(2 * MINUTE_MS, 1));
    pass_ms(10);
    ok(last_sent(OPERATION_ADOPT) != NULL, "then it is");
}

/* --- fleets --- */

static const char whose[] = "votes for others";

static struct probe of_others(void) {
    struct probe probe = blessed_node;

    probe.foreign = true;
    probe.others = whose;
    probe.others_length = sizeof(whose) - 1;
    return probe;
}

static void test_foreign(void) {
    shard_harness_begin(3);
    hold(1);
    changes(2, of_others());
    is_int(shard_askable(&harness.shard), 0,
           "rule 10: while one node is of another fleet, no other node is asked");
    is_string(harness.reasons[2], whose, "people are told whose it is");
    is_int(harness.node_states[0], NODE_STATE_FAILED, "and that the others don't vote");
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "down", harness.now_ns);
    pass_ms(2000);
    is_int(shard_askable(&harness.shard), 0, "also when it can't be reached");
    node_joins(2);
    is_int(shard_askable(&harness.shard), 7, "until it is ours");
    is_int(harness.node_states[0], NODE_STATE_VOTING, "then all vote again");
    changes(2, of_others());
    node_trust_bless(&harness.shard, 2, harness.now_ns);
    is_int(harness.amendments[2], 1, "an operator's word makes it ours");
    probed(2, blessed_node);
    is_int(shard_askable(&harness.shard), 7, "then it votes");
}

/* The other fleet's agents may go on with nodes that this agent does not know. */
static void test_foreign_forgets(void) {
    shard_harness_begin(3);
    changes(2, of_others());
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "gone", harness.now_ns);
    node_trust_ready(&harness.shard, 2, harness.now_ns);
    probed(2, marked_node);
    is_int(shard_askable(&harness.shard), 0,
           "rule 10: a node of another fleet that forgets is not nobody's: no node is asked");
    trusted_nodes_answer();
    for (unsigned second = 0; second < 70; second++) {
        pass_ms(SECOND_MS);
        trusted_nodes_answer();
        if (harness.shard.nodes[2].probing)
            probed(2, marked_node);
    }
    is_int(harness.blessings[2], 0, "nor is it taken from them");
    is_int(shard_askable(&harness.shard), 0, "however long that takes");
    ok(strstr(harness.reasons[2], "--bless c") != NULL, "people are told: %s", harness.reasons[2]);
    node_trust_bless(&harness.shard, 2, harness.now_ns);
    is_int(harness.blessings[2], 1, "it takes an operator's word");
    probed(2, blessed_node);
    is_int(shard_askable(&harness.shard), 7, "then all vote");
}

/* This agent starts after the node of another fleet has restarted with its data: the epoch names a process
 * that is gone, and the fleet. */
static void test_foreign_restarted(void) {
    struct probe stale = marked_node;

    stale.rival = stale.foreign = true;
    stale.others = "others";
    shard_harness_begin(3);
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "gone", harness.now_ns);
    node_trust_ready(&harness.shard, 2, harness.now_ns);
    probed(2, stale);
    is_int(shard_askable(&harness.shard), 0,
           "rule 10: such an epoch bars the other nodes like one in force");
    pass_ms(2 * SECOND_MS);
    probed(2, marked_node);
    is_int(shard_askable(&harness.shard), 0, "also when the node loses it");
    node_trust_bless(&harness.shard, 2, harness.now_ns);
    probed(2, blessed_node);
    is_int(shard_askable(&harness.shard), 7, "after an operator's word all vote");
}

/* Its data is all there, and agents of both fleets are about to renew its blessing: another one is first. */
static void test_foreign_is_renewed(void) {
    const struct probe heir = {.heir = true};

    shard_harness_begin(3);
    node_trust_gone(&harness.shard, 0, NODE_STATE_FAILED, "gone", harness.now_ns);
    node_trust_ready(&harness.shard, 0, harness.now_ns);
    probed(0, heir);
    is_int(harness.blessings[0], 1, "a node that restarted with its data is blessed at once");
    probed(0, of_others());
    pass_ms(1100);
    is_int(harness.amendments[0], 0, "rule 10: which takes no node over from another fleet");
    ok(!votes(1), "it bars the others, as before");
}

static void test_foreign_is_not_read(void) {
    shard_harness_begin(3);
    forgets(0);
    probed(1, epoch_of(MINUTE_MS, 0));
    probed(2, of_others());
    is_int(rests_ms(0), rest_of(DAY_MS), "rule 10: what a node of another fleet knows tells nothing");
}

static void test_rival(void) {
    struct probe rival = marked_node;

    rival.rival = true;
    rival.others = whose;
    rival.others_length = sizeof(whose) - 1;
    shard_harness_begin(3);
    forgets(0);
    trusted_nodes_answer();
    pass_ms(5000);
    probed(0, rival);
    is_int(rests_ms(0), rest_of(MINUTE_MS),
           "with enough epochs of ours, others who want the node don't matter");

    begin_without_epochs(3);
    pass_ms(SECOND_MS);
    for (unsigned i = 0; i < 2; i++)
        probed(i, marked_node);
    probed(2, rival);
    is_int(rests_ms(0), rest_of(DAY_MS), "rule 10: a node that others want, too, is not read");
    is_int(rests_ms(2), SECOND_MS + 11100, "nor blessed before they are gone for so long");
}

static void test_elsewhere(void) {
    struct probe other = epoch_of(MINUTE_MS, 0);

    shard_harness_begin(3);
    other.elsewhere = 1;
    forgets(0);
    probed(1, epoch_of(MINUTE_MS, 0));
    probed(2, other);
    is_int(rests_ms(0), -1, "a new server under a name that others reach elsewhere is not blessed");
    for (unsigned i = 0; i < 40; i++) {
        harness.now_ns += 100 * NS_PER_MS;
        shard_tick(&harness.shard, harness.now_ns);
        for (unsigned node = 0; node < 3; node++)
            if (harness.shard.nodes[node].probing)
                probed(node, node == 0 ? marked_node : other);
    }
    ok(strstr(harness.reasons[0], "at another address") != NULL, "people are told");
    node_trust_bless(&harness.shard, 0, harness.now_ns);
    is_int(harness.blessings[0], 1, "it takes an operator's word");
}

int main(void) {
    test_longest_of_others();
    test_read_before();
    test_unreachable();
    test_all_forget();
    test_rival_at_the_last_moment();
    test_inherits_unrested();
    test_remembers_epochs();
    test_marks_read_late();
    test_marks_at_once();
    test_single_node();
    test_longer_mark_at_blessing();
    test_unrested();
    test_raised();
    test_raised_in_vain();
    test_shortened();
    test_veto();
    test_operator_shortens();
    test_epoch_of_before();
    test_longer_lease_resumed();
    test_longer_lease_below_proposal();
    test_foreign();
    test_foreign_forgets();
    test_foreign_restarted();
    test_foreign_is_renewed();
    test_foreign_is_not_read();
    test_rival();
    test_elsewhere();
    return done_testing();
}
