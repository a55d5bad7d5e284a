/* Resuming in the core: only when a majority still has the lock value. */

#include <assert.h>

#include "core/ticket.h"
#include "core/validity.h"
#include "tap.h"
#include "shard-harness.h"

enum { TTL_MS = 10000, SECRET_BYTE = 0xa5 };

static struct command command_of(enum command_kind kind, uint64_t request) {
    struct command command = {
        .kind = kind,
        .persist = true,
        .request = request,
        .terms.ttl_ms = TTL_MS,
        .terms.node_timeout_ms = 100,
        .hold_until_ns = INSTANT_NEVER,
        .text = "x42:1000:",
        .head_length = 1,
        .tail_length = 8,
    };

    memset(command.secret, SECRET_BYTE, sizeof(command.secret));
    return command;
}

static void resume_with(uint64_t request, bool persist, instant_ns hold_until_ns) {
    struct command command = command_of(COMMAND_RESUME, request);

    command.persist = persist;
    command.hold_until_ns = hold_until_ns;
    shard_command(&harness.shard, &command, harness.now_ns);
}

static void resume(uint64_t request, bool persist) {
    resume_with(request, persist, INSTANT_NEVER);
}

static bool failed_with(enum failure failure) {
    const struct report *report = last_report(REPORT_FAILED);
    return report && report->failure == failure;
}

static void test_majority_shows_it(void) {
    shard_harness_begin(5);
    resume(1, true);
    const struct sent sent = *last_sent(OPERATION_ADOPT);
    is_int(sent.nodes, 0x1f, "all nodes are asked at once");
    is_int(sent.secret[0], SECRET_BYTE, "the nodes are asked for the lease's own value");
    instant_ns sent_ns = harness.now_ns;
    pass_ms(7);
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    vote(2, &sent, VOTE_FREE);
    ok(!last_report(REPORT_GRANTED), "rule 1: two of five are no quorum, and a missing key is no vote");
    vote(3, &sent, VOTE_YES);
    is_int(count_reports(REPORT_GRANTED), 1, "three of five nodes are a quorum");
    vote(4, &sent, VOTE_FREE);
    is_int(last_report(REPORT_GRANTED)->deadline_ns, validity_deadline_ns(sent_ns, TTL_MS),
           "the deadline counts from before the first send, whatever the client considered it to be");
    const struct sent extension = pass_to_extension();
    is_int(extension.nodes, 0x1f,
           "from then on the lease is extended like any other, and missing keys are repaired");
    is_int(extension.secret[0], SECRET_BYTE, "an extension has the same value");
}

/* A search takes no lease back from an agent that has resumed it. */
static void test_search(void) {
    struct shard_predecessors predecessors = {.count = 1};
    const struct command command = command_of(COMMAND_SEARCH, 1);

    shard_harness_begin(3);
    lock_value_identify(&predecessors.all[0].identity, "web1", "00c0ffee");
    shard_succeed(&harness.shard, &predecessors);
    shard_command(&harness.shard, &command, harness.now_ns);
    const struct sent sent = *last_sent(OPERATION_SEARCH);
    ok(!last_sent(OPERATION_ADOPT), "a lease of a former process is searched for");
    is_int(sent.predecessors, 1, "with the identities of the former processes");
    vote(0, &sent, VOTE_FOREIGN);
    vote(1, &sent, VOTE_FOREIGN);
    ok(failed_with(FAILURE_NOT_HELD), "a lease that another agent has is not found");
    resume(2, true);
    is_int(last_sent(OPERATION_ADOPT)->predecessors, 0, "a client's RESUME takes the lease from any agent");
}

/* The nodes refuse all tries. */
static void refuse_for(int64_t ms) {
    for (const instant_ns until_ns = harness.now_ns + ms * NS_PER_MS; harness.now_ns < until_ns;
         pass_ms(1)) {
        if (!last_sent(OPERATION_SEARCH))
            continue;
        const struct sent sent = *last_sent(OPERATION_SEARCH);
        harness.n_sends = 0;
        for (unsigned node = 0; node < 3; node++)
            vote(node, &sent, VOTE_REFUSED);
    }
}

/* The lease of a former process: found `search_ms` after the restart. */
static instant_ns find_after(int64_t search_ms, int64_t beat_after_ms, uint32_t heartbeat_ms) {
    shard_harness_begin(3);
    const instant_ns restart_ns = harness.now_ns;
    struct command command = command_of(COMMAND_SEARCH, 1);
    command.terms.heartbeat_ms = heartbeat_ms;
    command.beat_ns = restart_ns;
    shard_command(&harness.shard, &command, harness.now_ns);
    if (beat_after_ms > 0) {
        refuse_for(beat_after_ms);
        const struct command beat = {.kind = COMMAND_BEAT, .request = 1};
        shard_command(&harness.shard, &beat, harness.now_ns);
    }
    refuse_for(search_ms - beat_after_ms);
    for (harness.n_sends = 0; !last_sent(OPERATION_SEARCH);) /* the next try */
        pass_ms(1);
    const struct sent sent = *last_sent(OPERATION_SEARCH);
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    assert(last_report(REPORT_GRANTED));
    return restart_ns;
}

static void test_heartbeat(void) {
    instant_ns restart_ns = find_after(500, 0, 1000);
    pass_ms(99);
    ok(!last_report(REPORT_AT_RISK), "a restart counts as a heartbeat");
    pass_ms(TTL_MS / 2);
    is_int(count_sent(OPERATION_EXTEND), 0, "rule 9: no heartbeat since the restart, no extension");
    ok(last_report(REPORT_AT_RISK) && last_report(REPORT_AT_RISK)->reason == REASON_HEARTBEAT,
       "the lease is at risk for that");
    (void) find_after(4500, 4000, 5000);
    pass_ms(TTL_MS / 2 - 1000);
    ok(count_sent(OPERATION_EXTEND) > 0, "a heartbeat before the lease is found counts");
    restart_ns = find_after(3000, 0, 1000);
    ok(last_report(REPORT_GRANTED)->deadline_ns <= restart_ns + (1000 + TTL_MS) * NS_PER_MS,
       "rule 9: a search that outlasts the heartbeat extends the lease by a ttl from then on at most");
    pass_ms(1);
    ok(last_report(REPORT_AT_RISK), "and the lease is at risk at once");
}

static void test_ended(void) {
    shard_harness_begin(3);
    resume(1, true);
    struct sent sent = *last_sent(OPERATION_ADOPT);
    vote(0, &sent, VOTE_FREE);
    ok(!last_report(REPORT_FAILED), "one of three nodes without the key does not end the lease");
    vote(1, &sent, VOTE_FOREIGN);
    ok(failed_with(FAILURE_NOT_HELD), "two of three nodes without the key end the lease");
    is_string(harness.texts[harness.n_reports - 1],
              "the lease has ended: 2 of 3 nodes no longer have its key",
              "the failure has the number of nodes without the key");
    vote(2, &sent, VOTE_YES);
    pass_ms(2 * TTL_MS);
    is_int(count_sent(OPERATION_RELEASE), 0, "rule 8: a failed resume deletes nothing");
    is_int(count_sent(OPERATION_EXTEND), 0, "rule 8: a failed resume sets no key");
    is_int(harness.shard.leases.taken, 0, "a failed resume is forgotten");
}

static void test_out_of_reach(void) {
    shard_harness_begin(3);
    node_trust_gone(&harness.shard, 1, NODE_STATE_CONNECTING, "connection refused", harness.now_ns);
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "connection refused", harness.now_ns);
    resume(1, false);
    ok(failed_with(FAILURE_NO_QUORUM),
       "one try with one of three nodes is no quorum, which does not end the lease");
    harness.n_reports = 0;
    resume(2, true);
    pass_ms(1000);
    ok(!last_report(REPORT_FAILED) && !last_sent(OPERATION_ADOPT),
       "a resume with a WAIT waits for the nodes");
    node_joins(1);
    pass_ms(6);
    const struct sent sent = *last_sent(OPERATION_ADOPT);
    is_int(sent.nodes, 0x3, "the nodes are asked as soon as there is a quorum");
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    ok(last_report(REPORT_GRANTED), "the lease is resumed with two of three nodes");
}

static void test_tried_again(void) {
    shard_harness_begin(3);
    resume(1, true);
    struct sent first = *last_sent(OPERATION_ADOPT);
    vote(0, &first, VOTE_YES);
    vote(1, &first, VOTE_CUT);
    pass_ms(101);
    ok(!last_report(REPORT_FAILED), "without answers in time the outcome is open");
    pass_ms(75);
    is_int(count_sent(OPERATION_ADOPT), 2, "a resume without answers is tried again");
    is_int(count_reports(REPORT_CONTENDED), 1, "and reported");
    pass_ms(101);
    is_int(count_reports(REPORT_CONTENDED), 1, "once, however often it is tried");
    struct sent second = *last_sent(OPERATION_ADOPT);
    vote(1, &second, VOTE_YES);
    vote(2, &first, VOTE_YES);
    ok(!last_report(REPORT_GRANTED), "rule 3: votes of two rounds are not added up");
    vote(2, &second, VOTE_YES);
    ok(last_report(REPORT_GRANTED), "one round has its majority");
}

/* A RESUME that does not wait: two of three nodes have another epoch than the agent knew. */
static void resume_meets_changed_epochs(void) {
    shard_harness_begin(3);
    resume(1, false);
    const struct sent sent = *last_sent(OPERATION_ADOPT);
    vote(1, &sent, VOTE_EPOCH);
    vote(2, &sent, VOTE_EPOCH);
}

static void changed_epochs_are_read(void) {
    node_joins(1);
    node_joins(2);
    pass_ms(6);
}

static void test_epoch_changes(void) {
    resume_meets_changed_epochs();
    ok(!last_report(REPORT_FAILED), "a RESUME that does not wait is not over while changed epochs are read");
    changed_epochs_are_read();
    is_int(count_sent(OPERATION_ADOPT), 2, "when the nodes vote again, it has another try");
    const struct sent second = *last_sent(OPERATION_ADOPT);
    vote(0, &second, VOTE_YES);
    vote(1, &second, VOTE_YES);
    ok(last_report(REPORT_GRANTED), "which resumes the lease");

    resume_meets_changed_epochs();
    pass_ms(201);
    ok(failed_with(FAILURE_NO_QUORUM), "if they do not vote again within two node time-outs, it fails");

    resume_meets_changed_epochs();
    changed_epochs_are_read();
    const struct sent again = *last_sent(OPERATION_ADOPT);
    vote(0, &again, VOTE_EPOCH);
    vote(1, &again, VOTE_CUT);
    node_joins(0);
    pass_ms(76);
    is_int(count_sent(OPERATION_ADOPT), 3, "another node's changed epoch is worth another try");
    const struct sent third = *last_sent(OPERATION_ADOPT);
    vote(0, &third, VOTE_CUT);
    vote(1, &third, VOTE_CUT);
    ok(failed_with(FAILURE_NO_QUORUM), "a failure of another kind is not");
}

/* Another request has met the changed epochs before. */
static void test_epochs_have_changed(void) {
    shard_harness_begin(3);
    contend(2, false);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    vote(1, &sent, VOTE_EPOCH);
    vote(2, &sent, VOTE_EPOCH);
    resume(1, false);
    ok(!last_report(REPORT_FAILED), "a RESUME that begins while changed epochs are read is not over");
    changed_epochs_are_read();
    is_int(last_sent(OPERATION_ADOPT)->nodes, 7, "when the nodes vote again, they are asked");

    shard_harness_begin(3);
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "closed", harness.now_ns);
    contend(2, false);
    vote(1, last_sent(OPERATION_ACQUIRE), VOTE_EPOCH);
    resume(1, false);
    ok(!last_report(REPORT_FAILED), "nor is one if that node and the others are just a majority");
    node_joins(1);
    pass_ms(6);
    is_int(last_sent(OPERATION_ADOPT)->nodes, 3, "which is asked then");

    shard_harness_begin(3);
    contend(2, false);
    vote(2, last_sent(OPERATION_ACQUIRE), VOTE_EPOCH);
    resume(1, false);
    const struct sent first = *last_sent(OPERATION_ADOPT);
    is_int(first.nodes, 3, "two of three nodes can be asked");
    node_joins(2);
    vote(0, &first, VOTE_YES);
    vote(1, &first, VOTE_FREE);
    ok(!last_report(REPORT_FAILED), "where they disagree, the third may decide");
    pass_ms(76);
    is_int(last_sent(OPERATION_ADOPT)->nodes, 7, "and is asked, too");
}

static struct sent search(void) {
    const struct command command = command_of(COMMAND_SEARCH, 1);

    shard_harness_begin(3);
    shard_command(&harness.shard, &command, harness.now_ns);
    return *last_sent(OPERATION_SEARCH);
}

/* The nodes answer something else meanwhile, so they are slow, but not silent. */
static void pass_with_answers_ms(int64_t ms, const struct sent *sent) {
    struct sent stale = *sent;

    stale.ticket = ticket_of(ticket_slot(sent->ticket), ticket_serial(sent->ticket) - 1);
    for (; ms > 0; ms -= 100) {
        pass_ms(100);
        for (unsigned i = 0; i < 3; i++)
            vote(i, &stale, VOTE_YES);
    }
}

/* Nodes that are slower than the node time-out would be late for each new try, too. */
static void test_late_answers_awaited(void) {
    struct sent sent = search();
    const instant_ns sent_ns = harness.now_ns;
    pass_ms(101);
    is_int(count_reports(REPORT_CONTENDED), 1, "a try without answers is reported after a node time-out");
    pass_ms(400);
    is_int(count_sent(OPERATION_SEARCH), 1, "slow nodes are not asked again");
    vote(0, &sent, VOTE_YES);
    pass_ms(500);
    vote(1, &sent, VOTE_YES);
    ok(last_report(REPORT_GRANTED), "their late answers continue the lease");
    is_int(last_report(REPORT_GRANTED)->deadline_ns, validity_deadline_ns(sent_ns, TTL_MS),
           "its deadline counts from the request");

    shard_harness_begin(3);
    node_trust_gone(&harness.shard, 2, NODE_STATE_CONNECTING, "closed", harness.now_ns);
    resume(1, true);
    sent = *last_sent(OPERATION_ADOPT);
    vote(0, &sent, VOTE_YES);
    pass_ms(400);
    is_int(count_sent(OPERATION_ADOPT), 1, "a client's RESUME waits for a slow node, too");
    node_joins(2);
    pass_ms(10);
    is_int(count_sent(OPERATION_ADOPT), 2, "but not when another node can be asked meanwhile");
    vote(1, &sent, VOTE_YES);
    ok(!last_report(REPORT_GRANTED), "rule 3: then the old answers no longer count");

    sent = search();
    pass_ms(400);
    vote(0, &sent, VOTE_FREE);
    pass_ms(400);
    is_int(count_sent(OPERATION_SEARCH), 1, "answers are awaited that may show that the lease has ended");
    vote(1, &sent, VOTE_FREE);
    ok(failed_with(FAILURE_NOT_HELD), "and do");
}

static void test_patience_ends(void) {
    struct sent sent = search();
    pass_with_answers_ms(TTL_MS / 4 - 100, &sent);
    is_int(count_sent(OPERATION_SEARCH), 1, "late answers are awaited");
    pass_with_answers_ms(600, &sent);
    is_int(count_sent(OPERATION_SEARCH), 2, "for a quarter of the ttl, and no longer");

    sent = search();
    vote(0, &sent, VOTE_YES);
    node_trust_gone(&harness.shard, 1, NODE_STATE_CONNECTING, "closed", harness.now_ns);
    vote(1, &sent, VOTE_CUT);
    vote(2, &sent, VOTE_REFUSED);
    pass_ms(100);
    is_int(count_sent(OPERATION_SEARCH), 2, "nor are answers that cannot decide");

    shard_harness_begin(3);
    resume_with(1, true, harness.now_ns + 700 * NS_PER_MS);
    pass_ms(699);
    ok(!last_report(REPORT_FAILED), "late answers are awaited until max_hold ends");
    pass_ms(102);
    ok(failed_with(FAILURE_NOT_HELD), "rule 9: and no longer");
    is_int(count_sent(OPERATION_ADOPT), 1, "without another adoption then");
}

/* A node that refused is asked again in the same round, while the slow ones are awaited. */
static void test_refusing_and_slow(void) {
    struct sent sent = search();
    const instant_ns sent_ns = harness.now_ns;
    vote(2, &sent, VOTE_REFUSED);
    pass_ms(200);
    const struct sent again = *last_sent(OPERATION_SEARCH);
    ok(again.nodes == node_set_of(2) && again.ticket == sent.ticket,
       "only the node that refused is asked again");
    pass_ms(600);
    is_int(count_sent(OPERATION_SEARCH), 2, "but not while it is silent, too");
    vote(2, &again, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    ok(last_report(REPORT_GRANTED) &&
           last_report(REPORT_GRANTED)->deadline_ns == validity_deadline_ns(sent_ns, TTL_MS),
       "both answers count, and the deadline counts from the first request");
}

static void test_too_late(void) {
    shard_harness_begin(3);
    resume(1, false);
    struct sent sent = *last_sent(OPERATION_ADOPT);
    harness.now_ns = validity_deadline_ns(harness.now_ns, TTL_MS);
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    ok(!last_report(REPORT_GRANTED) && failed_with(FAILURE_NO_QUORUM),
       "rule 6: no lease without validity left");
    shard_harness_begin(3);
    instant_ns until_ns = harness.now_ns + 5 * NS_PER_S;
    resume_with(1, true, until_ns);
    sent = *last_sent(OPERATION_ADOPT);
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    is_int(last_report(REPORT_GRANTED)->deadline_ns, until_ns, "rule 9: the bound on holding stays");
    pass_ms(5001);
    is_int(last_report(REPORT_LOST)->reason, REASON_MAX_HOLD, "rule 9: the lease ends at the bound");
}

/* The bound on holding passes while the nodes are asked. */
static void test_held_for_too_long(void) {
    shard_harness_begin(3);
    resume_with(1, true, harness.now_ns + 50 * NS_PER_MS);
    pass_ms(101);
    ok(failed_with(FAILURE_NOT_HELD), "rule 9: a lease that reaches its max_hold is not resumed");
    is_int(count_reports(REPORT_FAILED), 1, "which is reported once");
    pass_ms(1000);
    is_int(count_sent(OPERATION_ADOPT), 1, "and not tried again");
}

static void test_withdrawn(void) {
    shard_harness_begin(3);
    resume(1, true);
    struct sent sent = *last_sent(OPERATION_ADOPT);
    vote(0, &sent, VOTE_YES);
    command(COMMAND_FORGET, 1);
    ok(last_report(REPORT_RELEASED), "a withdrawn resume is over");
    vote(1, &sent, VOTE_YES);
    ok(!last_report(REPORT_GRANTED), "later votes change nothing");
    shard_harness_begin(3);
    resume(1, true);
    sent = *last_sent(OPERATION_ADOPT);
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    command(COMMAND_FORGET, 1);
    pass_ms(2 * TTL_MS);
    is_int(count_sent(OPERATION_RELEASE), 0,
           "rule 8: nor is a key deleted when the grant crossed the withdrawal");
    is_int(harness.shard.leases.taken, 0, "its keys end by their ttl");
    shard_harness_begin(3);
    resume(1, true);
    command(COMMAND_RELEASE, 1);
    ok(last_sent(OPERATION_RELEASE), "a holder may release a resumed lease");
}

/* With a later number in the lock value. */
static void resume_again(uint64_t request, unsigned resumes) {
    struct command command = command_of(COMMAND_RESUME, request);

    for (unsigned i = 0; i < resumes; i++)
        lock_value_resume(command.secret);
    shard_command(&harness.shard, &command, harness.now_ns);
}

static void test_not_while_it_is_deleted(void) {
    shard_harness_begin(3);
    resume(1, true);
    struct sent sent = *last_sent(OPERATION_ADOPT);
    vote(0, &sent, VOTE_YES);
    vote(1, &sent, VOTE_YES);
    command(COMMAND_RELEASE, 1);
    harness.n_reports = 0;
    resume(2, true);
    ok(failed_with(FAILURE_NOT_HELD), "a lease whose keys this agent deletes is not resumed");
    is_int(count_sent(OPERATION_ADOPT), 1, "no node is asked for such a lease");
    resume_again(4, 1);
    is_int(count_sent(OPERATION_ADOPT), 1, "nor for its next resume");
    resume_again(5, 2);
    is_int(count_sent(OPERATION_ADOPT), 2, "but for the one after that: another agent had the lease since");
    sent = *last_sent(OPERATION_RELEASE);
    for (unsigned i = 0; i < 3; i++)
        vote(i, &sent, VOTE_YES);
    resume(3, true);
    is_int(count_sent(OPERATION_ADOPT), 3, "after the deletion the nodes are asked");
}

static struct sent resume_number(uint64_t request, unsigned number) {
    struct command command = command_of(COMMAND_RESUME, request);

    memset(command.secret, (int) number, sizeof(command.secret));
    shard_command(&harness.shard, &command, harness.now_ns);
    return *last_sent(OPERATION_ADOPT);
}

/* True if a RESUME of this lease asks the nodes. */
static bool asks_for(unsigned number) {
    enum { REQUEST = 16 };
    unsigned before = count_sent(OPERATION_ADOPT);

    (void) resume_number(REQUEST, number);
    if (count_sent(OPERATION_ADOPT) == before)
        return false;
    command(COMMAND_FORGET, REQUEST);
    return true;
}

/* Of many leases that are deleted, each is found, and none longer than its deletion lasts. */
static void test_many_deleted(void) {
    enum { LEASES = 12 };
    struct sent releases[LEASES + 1];
    unsigned found = 0, of_others = 0, gone = 0;

    shard_harness_begin(3);
    for (unsigned i = 1; i <= LEASES; i++) {
        const struct sent sent = resume_number(i, i);
        vote(0, &sent, VOTE_YES);
        vote(1, &sent, VOTE_YES);
        command(COMMAND_RELEASE, i);
        releases[i] = *last_sent(OPERATION_RELEASE);
    }
    for (unsigned i = 1; i <= LEASES; i++) {
        found += !asks_for(i);
        of_others += !asks_for(100 + i);
    }
    ok(found == LEASES && of_others == 0, "of many leases those that are deleted are not resumed");
    for (unsigned i = 1, n = 5; i <= LEASES; i++, n = n % LEASES + 1) {
        for (unsigned node = 0; node < 3; node++)
            vote(node, &releases[n], VOTE_YES);
        gone += asks_for(n);
        unsigned last = (n + LEASES / 2) % LEASES + 1; /* deleted later, in the first half */
        if (i < LEASES / 2)
            found += !asks_for(last);
    }
    ok(gone == LEASES && found == LEASES + LEASES / 2 - 1, "until they are");
}

int main(void) {
    test_majority_shows_it();
    test_search();
    test_heartbeat();
    test_ended();
    test_out_of_reach();
    test_tried_again();
    test_epoch_changes();
    test_epochs_have_changed();
    test_late_answers_awaited();
    test_patience_ends();
    test_refusing_and_slow();
    test_too_late();
    test_held_for_too_long();
    test_withdrawn();
    test_not_while_it_is_deleted();
    test_many_deleted();
    return done_testing();
}
