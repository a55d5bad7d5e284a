/* What the next process takes from the ledger when clients are gone, do not know of their grants, or the
 * limits are smaller. */

#include "restore-harness.h"
#include "tap.h"

static void test_forsaken(void) {
    restore_harness_begin();
    (void) hold(0, "ACQUIRE job");
    finds.missing = 1;
    replace();
    serve();
    is_int(keeper.n_commands, 0, "a client without its connection: its keys are left alone");
    is_int(result.held, 0, "the log does not count the lease as held");
    ask(1, "ACQUIRE job WAIT -1");
    pass_ms(LEFT_MS - 1);
    is_int(keeper.n_commands, 0,
           "rule 8: no request contends for a lease that its client may consider valid");
    resume(2, "job", "");
    ok(last_command()->kind == COMMAND_RESUME, "the client itself may resume such a lease");
    report(last_command()->request, REPORT_GRANTED);
    is_int(harness.front.registry.held, 1, "which ends what the agent kept of it");
    restore_harness_begin();
    (void) hold(0, "ACQUIRE job");
    finds.torn = 1;
    replace();
    serve();
    ask(1, "ACQUIRE job WAIT -1");
    pass_ms(LEFT_MS);
    is_int(last_command()->kind, COMMAND_CONTEND, "after the deadline the next request contends");
    restore_harness_begin();
    uint64_t id = hold(0, "ACQUIRE job");
    finds.dead = 1;
    replace();
    is_int(last_command()->kind, COMMAND_SEARCH, "the nodes are asked for the lease of a dead process");
    report(id, REPORT_GRANTED);
    is_int(count_commands(COMMAND_RELEASE, id), 1, "a dead process's lease is released once it is found");
}

static bool may_resume_left(uid_t uid) {
    return registry_has_left_lease(&harness.front.registry, uid, "job", 3);
}

static void test_left(void) {
    restore_harness_begin();
    (void) hold(0, "ACQUIRE job");
    ok(!may_resume_left(1000), "a lease of this process is not left by a former one");
    finds.missing = 1;
    replace();
    ok(may_resume_left(1000) && !may_resume_left(1001), "one without its connection is, for its user");
    restore_harness_begin();
    ask(0, "ACQUIRE job");
    report(last_command()->request, REPORT_GRANTED);
    replace();
    ok(!may_resume_left(1000), "unless it is being released");
}

/* A lease belongs to the connection: a child may have inherited it. */
static void test_left_to_child(void) {
    restore_harness_begin();
    uint64_t id = hold(0, "ACQUIRE job");
    finds.left = 1;
    replace();
    report(id, REPORT_GRANTED);
    is_int(count_commands(COMMAND_RELEASE, id), 0, "rule 8: a dead process's connection keeps its lease");
    serve();
    ask_id(0, "CHECK", id);
    is_string(got(0), ":9898\r\n", "for the process that has the connection");
}

/* A lease that lingers for processes that its client has started. */
static void test_lingering(void) {
    restore_harness_begin();
    (void) hold(0, "ACQUIRE job LINGER 5000");
    finds.missing = 1;
    replace();
    serve();
    is_int(keeper.n_commands, 0, "LINGER is for the end of the client: one out of reach may live");
    restore_harness_begin();
    uint64_t id = hold(0, "ACQUIRE job LINGER 5000");
    finds.dead = 1;
    replace();
    is_int(last_command()->kind, COMMAND_SEARCH, "a dead client's lease is searched for");
    report(id, REPORT_GRANTED);
    is_int(count_commands(COMMAND_RELEASE, id), 0, "and lingers");
    pass_ms(5000);
    is_int(count_commands(COMMAND_RELEASE, id), 1, "for as long as it asked for");
    restore_harness_begin();
    id = hold(0, "ACQUIRE job HEARTBEAT 1000 LINGER 5000");
    finds.dead = 1;
    replace();
    unsigned beats = count_commands(COMMAND_BEAT, id);
    report(id, REPORT_GRANTED);
    is_int(count_commands(COMMAND_BEAT, id), beats + 1,
           "without heartbeats: the lease that was found, by whichever value, has no bound by them");
    restore_harness_begin();
    (void) hold(0, "ACQUIRE job LINGER 5000");
    disconnect_end(&harness.sessions[0], harness.now_ns);
    replace();
    ok(result.predecessors.from_ns >= harness.now_ns + 5 * NS_PER_S,
       "rule 8: the keys of a lease that lingers at the restart are deleted only after its linger");
}

/* A client dies whose lease was not extended any more: the lease does not linger either. */
static void test_no_lingering(void) {
    restore_harness_begin();
    (void) hold(0, "ACQUIRE job LINGER 5000");
    keeper.nobody_reads = true;
    pass_ms(GRANT_READ_MS + 20);
    ok(has(0, "unread"), "a client does not read its grant");
    flush(0);
    finds.dead = 1;
    replace();
    serve();
    is_int(keeper.n_commands, 0, "rule 9: dead, its lease is not extended for its LINGER");
    ask(1, "ACQUIRE job WAIT -1");
    is_int(keeper.n_commands, 0, "rule 8: but the name is taken until the deadline");
    pass_ms(LEFT_MS);
    is_int(last_command()->kind, COMMAND_CONTEND, "then the next request contends");

    static const char *const sent[] = {"also if it did not get the grant", "nor if it did not get the loss",
                                       "nor that of a client whose session the agent has closed"};
    for (unsigned i = 0; i < 3; i++) {
        restore_harness_begin();
        ask(0, "ACQUIRE job LINGER 5000");
        report(last_command()->request, REPORT_GRANTED);
        if (i > 0)
            flush(0);
        (void) disconnect_expel(&harness.sessions[0], "reads too slowly", harness.now_ns);
        if (i > 1)
            flush(0);
        ledger_tear(&ledger, 0);
        finds.dead = finds.torn = 1;
        replace();
        is_int(keeper.n_commands, 0, sent[i]);
    }
    restore_harness_begin();
    uint64_t id = hold(0, "ACQUIRE job");
    (void) disconnect_expel(&harness.sessions[0], "reads too slowly", harness.now_ns);
    flush(0);
    replace(); /* killed before the ledger notes that the session has ended */
    serve();
    is_int(keeper.n_commands, 0, "a client that has got the loss, and is here: its lease is left");
    is_int(result.too_long, 0, "not because of its ttl");
    ask_id(0, "RELEASE", id);
    report(last_command()->request, REPORT_FAILED);
    is_string(got(0), ":1\r\n", "until it is released");
    is_int(count_commands(COMMAND_SEARCH, id), 1, "after a search for its keys");
}

static void test_cooldown(void) {
    restore_harness_begin();
    instant_ns now_ns = harness.now_ns;
    (void) hold(0, "ACQUIRE job COOLDOWN 60000");
    finds.missing = 1;
    replace();
    ok(result.lost_until_ns >= now_ns + 60 * NS_PER_S,
       "rule 8: no key is deleted as an orphan before the longest cooldown has ended");
}

/* The request makes its attempt anew. */
static void test_unknown_cooldown(void) {
    restore_harness_begin();
    uint64_t id = wait_for(0, "ACQUIRE job COOLDOWN 60000 ASYNC");
    report(id, REPORT_GRANTED);
    replace();
    is_int(result.predecessors.from_ns, 0,
           "keys of a grant that its client does not know may be deleted before its cooldown has ended");
    serve();
    ok(last_command()->kind == COMMAND_CONTEND && last_command()->request == id,
       "so its request need not find its name taken by itself");
    ask_id(0, "RELEASE", id);
    is_int(last_command()->cooldown_until_ns, 0, "rejected or withdrawn, it leaves no cooldown");
    restore_harness_begin();
    instant_ns now_ns = harness.now_ns;
    (void) wait_for(0, "ACQUIRE job COOLDOWN 60000 ASYNC");
    report(last_command()->request, REPORT_GRANTED);
    finds.torn = 1;
    replace();
    ok(result.predecessors.from_ns >= now_ns + 60 * NS_PER_S,
       "rule 8: if its client may know of it, its keys are not");
}

static void test_unreported_grant(void) {
    restore_harness_begin();
    ask(0, "ACQUIRE job");
    uint64_t id = last_command()->request;
    report(id, REPORT_GRANTED);
    ok(has(0, "deadline"), "killed before the answer is sent");
    replace();
    ok(last_command()->kind == COMMAND_SEARCH && last_command()->request == id,
       "the nodes are asked for the keys");
    serve();
    ask(0, "ACQUIRE job");
    is_string(got(0), "", "the request, read again, is not rejected because of its own lease");
    resume(1, "job", "");
    ok(has(1, "-NOTHELD the lease was released"), "no session resumes a lease that is being released");
    report(id, REPORT_GRANTED);
    is_int(count_commands(COMMAND_RELEASE, id), 1,
           "keys of an unreported grant are deleted once they are found");
    ok(last_command()->kind == COMMAND_CONTEND, "the request, read again, contends");
    report(last_command()->request, REPORT_GRANTED);
    ok(has(0, "deadline"), "the request, read again, is granted");
}

/* No client knew of its grant, so the lease has no cooldown. */
static void test_unreported_cooldown(void) {
    const struct command *release = NULL;

    restore_harness_begin();
    ask(0, "ACQUIRE job COOLDOWN 60000");
    uint64_t id = last_command()->request;
    report(id, REPORT_GRANTED);
    replace();
    serve();
    ask(0, "ACQUIRE job COOLDOWN 60000");
    report(id, REPORT_GRANTED);
    for (unsigned i = 0; i < keeper.n_commands; i++)
        if (keeper.commands[i].kind == COMMAND_RELEASE && keeper.commands[i].request == id)
            release = &keeper.commands[i];
    if (ok(release, "keys of an unreported grant with a cooldown are deleted once they are found"))
        is_int(release->cooldown_until_ns, 0, "without a cooldown");
    report(last_command()->request, REPORT_GRANTED);
    ok(has(0, "deadline"), "the request, read again, is granted");
    disconnect_end(&harness.sessions[0], harness.now_ns);
    ok(last_command()->kind == COMMAND_RELEASE && last_command()->cooldown_until_ns > harness.now_ns,
       "and its lease has its cooldown");
}

static void test_resume_unreported(void) {
    restore_harness_begin();
    resume(0, "job", "");
    uint64_t id = last_command()->request;
    instant_ns asked_ns = harness.now_ns;
    report(id, REPORT_GRANTED);
    replace();
    serve();
    is_int(keeper.n_commands, 0,
           "rule 8: a lease that a client resumes is not released before its answer: the client may "
           "consider it valid");
    ok(result.lost_until_ns >= asked_ns + LEFT_MS * NS_PER_MS, "its keys may be deleted only after its end");
    resume(0, "job", "");
    is_int(last_command()->kind, COMMAND_RESUME, "the request, read again, resumes it");

    restore_harness_begin();
    resume(0, "job", "");
    ok(ledger.header->lost_until_ns >= harness.now_ns + 10 * NS_PER_S,
       "nor are the keys of a RESUME under way deleted before the end of its lease");

    restore_harness_begin();
    resume(0, "job", " ASYNC");
    id = last_command()->request;
    flush(0);
    report(id, REPORT_GRANTED);
    clear();
    replace();
    ok(last_command()->kind == COMMAND_SEARCH && last_command()->request == id,
       "a RESUME that waits continues: it takes no lease that was resumed elsewhere meanwhile");
    restore_harness_begin();
    replace();
    resume(0, "job", "");
    is_int(last_command()->kind, COMMAND_SEARCH, "nor does one that is read again");
    serve();
    resume(1, "other", "");
    is_int(last_command()->kind, COMMAND_RESUME, "a new RESUME takes the lease from any agent");
    instant_ns cooldown_until_ns = harness.now_ns + 7 * NS_PER_S;
    restore_harness_begin();
    resume_cooling(0, "job", " ASYNC", cooldown_until_ns);
    flush(0);
    replace();
    is_int(last_command()->cooldown_until_ns, cooldown_until_ns, "with the end of its lease's cooldown");
    id = last_command()->request;
    report(id, REPORT_FAILED);
    ok(has(0, "failed") && has(0, "NOTHELD"), "a RESUME fails when its lease has ended");
    is_int(count_commands(COMMAND_CONTEND, id), 0, "rule 12: another may have held it since");
}

/* A client has not got the reply to its RELEASE; another request has the slot. */
static void test_place_taken_again(void) {
    restore_harness_begin();
    uint64_t early = hold(2, "ACQUIRE early"), first = hold(0, "ACQUIRE first");
    ask_id(2, "RELEASE", early);
    report(early, REPORT_RELEASED);
    flush(2);
    ask_id(0, "RELEASE", first);
    report(first, REPORT_RELEASED);
    uint64_t second = hold(1, "ACQUIRE second");
    is_int(second & (REQUESTS_MAX - 1), first & (REQUESTS_MAX - 1), "a request in the place of another");
    replace();
    ok(last_command()->kind == COMMAND_SEARCH && last_command()->request == second,
       "rule 8: the held lease continues, whatever is left of the former one");
    ask_id(1, "CHECK", second);
    is_string(got(1), ":9898\r\n", "its client considers it valid");
    serve();
    ok(!has(0, "lost") && !has(1, "lost"), "the client of the former one has released it: no lost");
    is_int(result.left_out, 0, "and nothing was left out");
    ask_id(0, "RELEASE", first);
    is_string(got(0), ":0\r\n", "a released lease stays released");
}

static void test_predecessor(void) {
    restore_harness_begin();
    instant_ns lost_until_ns = harness.now_ns + 7 * NS_PER_S;
    ledger.header->lost_until_ns = lost_until_ns;
    replace();
    ok(result.predecessors.count == 1, "the keepers get the identity of the former process");
    is_int(result.predecessors.from_ns, lost_until_ns,
           "they may delete these when leases without an entry end");
    is_int(result.predecessors.all[0].until_ns, harness.now_ns + 2 * 60 * NS_PER_S,
           "until the last key has expired");
    restore_harness_begin();
    ledger.header->leaky = true;
    replace();
    ok(result.predecessors.count == 1 && result.predecessors.all[0].spared,
       "rule 8: a ledger without room may lack a held lease, so no key is deleted");
    restore_harness_begin();
    resume(0, "job", "");
    replace();
    ok(result.predecessors.all[0].spared,
       "rule 8: nor after a RESUME: late at a node, it gives the key of a valid lease that process's value");
    restore_harness_begin();
    strcpy(ledger.header->host, "web2");
    replace();
    is_int(result.predecessors.count, 0, "on another host the lock values differ");
}

/* Processes that are killed in a row: each may leave keys that the next one has no time to meet. */
static void test_predecessors(void) {
    restore_harness_begin();
    instant_ns first_until_ns = harness.now_ns + 2 * 60 * NS_PER_S;
    strcpy(ledger.header->agent, "first");
    replace();
    strcpy(ledger.header->agent, "second");
    harness.now_ns += NS_PER_S;
    replace();
    is_int(result.predecessors.count, 2, "the keepers get the identities of two former processes");
    is_string(result.predecessors.all[0].identity.bytes, ":web1:second:", "the latest first");
    is_string(result.predecessors.all[1].identity.bytes, ":web1:first:", "then the one before");
    is_int(result.predecessors.all[1].until_ns, first_until_ns, "each until its own last key has expired");
    for (unsigned i = 0; i < 2 * PREDECESSORS_MAX; i++)
        replace();
    is_int(result.predecessors.count, PREDECESSORS_MAX, "of many processes the latest count");
    harness.now_ns += 2 * 60 * NS_PER_S;
    replace();
    is_int(result.predecessors.count, 1, "and not those whose keys have expired");

    restore_harness_begin();
    ledger.header->leaky = true;
    replace();
    replace();
    ok(!result.predecessors.all[0].spared && result.predecessors.all[1].spared,
       "rule 8: nor any of a process before the former one, whose ledger lacks leases");
    restore_harness_begin();
    replace();
    ledger.header->leaky = true;
    replace();
    ok(result.predecessors.all[1].spared, "rule 8: nor of those that this ledger continued");
    restore_harness_begin();
    resume(0, "job", " ASYNC");
    flush(0);
    replace();
    replace();
    ok(result.predecessors.all[0].spared && result.predecessors.all[1].spared,
       "a RESUME that waits is continued by the next process, which sends it, too");
    restore_harness_begin();
    (void) hold(0, "ACQUIRE job");
    finds.missing = 1;
    finds.requests_max = 0;
    replace();
    instant_ns lost_until_ns = result.predecessors.from_ns;
    ok(lost_until_ns > harness.now_ns,
       "rule 8: keys are left alone while a lease without a slot may be valid");
    replace();
    is_int(result.predecessors.from_ns, lost_until_ns, "rule 8: at the process after the next one as well");
    restore_harness_begin();
    (void) hold(0, "ACQUIRE job");
    finds.torn = 1;
    replace();
    replace();
    is_int(result.predecessors.from_ns, harness.now_ns + LEFT_MS * NS_PER_MS,
           "rule 8: and while a client that lost its session may consider its lease valid");
}

static void test_smaller_limits(void) {
    restore_harness_begin();
    finds.requests_max = 2;
    (void) hold(0, "ACQUIRE a");
    (void) hold(0, "ACQUIRE b");
    uint64_t third = hold(1, "ACQUIRE c");
    replace();
    is_int(slots, 3, "so many slots have a place for each");
    is_int(result.held, 2, "fewer slots: what finds no place is left out");
    ok(has(1, "lost") && has(1, "no-quorum\r\n$47\r\nthe restarted agent does not continue the lease"),
       "rule 13: and its holder gets lost");
    ok(!has(0, "lost"), "the others do not");
    is_int(result.left_out, 1, "the number is for the log");
    is_int((int64_t) harness.front.registry.losses[REASON_NO_QUORUM], 1, "and the loss counts");
    ok(result.lost_until_ns >= harness.now_ns + LEFT_MS * NS_PER_MS,
       "rule 8: its keys may be deleted only after its deadline");
    ask_id(1, "CHECK", third);
    is_string(got(1), ":0\r\n", "CHECK of a lease that was left out is 0");
    finds.requests_max = REQUESTS;
    replace();
    ok(has(1, "lost"), "rule 13: a lost that was not sent comes again, although there is a place now");
    ask_id(1, "CHECK", third);
    is_string(got(1), ":0\r\n", "and the lease stays ended");

    restore_harness_begin();
    finds.requests_max = 2;
    (void) hold(0, "ACQUIRE a");
    (void) hold(0, "ACQUIRE b");
    (void) wait_for(1, "ACQUIRE a WAIT -1 ASYNC");
    ask(2, "ACQUIRE a WAIT -1");
    replace();
    ok(has(1, "failed") && has(1, "NOQUORUM the restarted agent does not continue the request"),
       "rule 15: a waiting request without a place fails");
    is_string(got(2), "", "one that is read again does not");
    finds.requests_max = REQUESTS;
    replace();
    ok(has(1, "failed") && !has(1, "lost"),
       "rule 15: again at the process after the next one, if that did not send it");
    flush(1);
    replace();
    is_string(got(1), "", "and no longer when it is sent");

    restore_harness_begin();
    finds.requests_max = 2;
    (void) hold(0, "ACQUIRE a");
    (void) hold(0, "ACQUIRE b");
    (void) hold(1, "ACQUIRE c");
    finds.resp2 = 1 << 1;
    replace();
    is_int(result.left_out, 1, "a client without pushes gets no lost,");
    replace();
    is_int(result.left_out, 0, "so the next process has nothing to repeat");

    restore_harness_begin();
    finds.requests_max = 2;
    (void) hold(0, "ACQUIRE a");
    (void) hold(0, "ACQUIRE b");
    (void) hold(1, "ACQUIRE c");
    finds.missing = 2;
    replace();
    is_int(result.left_out, 0, "nobody gets the end of a lease whose connection did not come along");
}

static void test_shorter_max_ttl(void) {
    restore_harness_begin();
    finds.max_ttl_ms = 5000;
    uint64_t id = hold(0, "ACQUIRE job");
    uint64_t waiter = wait_for(1, "ACQUIRE job WAIT -1 ASYNC");
    replace();
    ok(has(0, "at-risk") && has(0, ":9898\r\n$9\r\nno-quorum"),
       "rule 13: a ttl that is not allowed any more: the holder gets at-risk, and how long the lease is "
       "valid");
    is_int(result.too_long, 1, "the number of such leases is for the log");
    serve();
    is_int(keeper.n_commands, 0, "the lease is not extended");
    ask_id(0, "CHECK", id);
    is_string(got(0), ":9898\r\n", "a lease with a ttl that is not allowed any more is held");
    pass_ms(LEFT_MS);
    ok(has(0, "lost") && has(0, "no-quorum") &&
           has(0, "max_ttl is shorter than the lease's ttl since the agent's restart"),
       "until its deadline, then its client gets lost, with the cause");
    is_int((int64_t) harness.front.registry.losses[REASON_NO_QUORUM], 1, "a loss for want of an extension");
    ok(count_commands(COMMAND_CONTEND, waiter) == 1 && last_command()->terms.ttl_ms == 5000,
       "a waiting request gets the longest ttl allowed");
    ask(0, "HISTORY job COUNT 2");
    const char *at = strstr(got(0), "max_ttl is shorter");
    ok(has(0, "at-risk") && has(0, "lost") && at && strstr(at + 1, "max_ttl is shorter"),
       "the history has it, too, with each event");

    restore_harness_begin();
    finds.max_ttl_ms = 5000;
    finds.dead = 1;
    (void) hold(0, "ACQUIRE job");
    replace();
    ok(last_command()->kind == COMMAND_SEARCH && last_command()->terms.ttl_ms == 5000,
       "a dead client's lease is searched for, to be deleted, with a ttl that is allowed");

    restore_harness_begin();
    finds.max_ttl_ms = 5000;
    id = hold(0, "ACQUIRE job HEARTBEAT 5000");
    replace();
    serve();
    ask_id(0, "BEAT", id);
    is_int(count_commands(COMMAND_BEAT, 0), 0,
           "the heartbeat of a lease that the keeper does not have is not passed on");
    replace();
    ok(!has(0, "at-risk"), "the process after the next one does not repeat at-risk");
    clear();
    ask_id(0, "RELEASE", id);
    is_string(got(0), ":1\r\n", "a lease with a ttl that is not allowed any more can be released");

    restore_harness_begin();
    finds.max_ttl_ms = 5000;
    resume(0, "job", " ASYNC");
    flush(0);
    clear();
    replace();
    serve();
    is_int(keeper.n_commands, 0, "rule 8: a RESUME that waits does not shorten its lease's keys");
    ok(has(0, "failed") && has(0, "NOQUORUM the restarted agent does not continue the request"),
       "and fails");
}

/* The nodes do not show the keys of former leases. */
static void test_other_key_format(void) {
    restore_harness_begin();
    finds.key_format = 1;
    uint64_t id = hold(0, "ACQUIRE job COOLDOWN 60000");
    uint64_t waiter = wait_for(1, "ACQUIRE job WAIT -1 ASYNC");
    replace();
    ok(has(0, "at-risk") && has(0, ":9898\r\n$9\r\nno-quorum"),
       "rule 13: another key_format: the holder gets at-risk, and how long the lease is valid");
    is_int(result.moved, 1, "the number of such leases is for the log");
    serve();
    flush(0);
    is_int(keeper.n_commands, 0, "the lease is not searched for, and no request contends");
    replace();
    serve();
    is_int(keeper.n_commands, 0, "rule 8: nor at the process after the next one");
    ok(!has(0, "at-risk"), "which does not repeat at-risk");
    ask_id(0, "CHECK", id);
    is_string(got(0), ":9898\r\n", "a lease under a former key_format is held");
    pass_ms(LEFT_MS);
    ok(has(0, "lost") && has(0, "no-quorum") && has(0, "key_format has changed since the agent's restart"),
       "until its deadline, then its client gets lost, with the cause");
    is_int(count_commands(COMMAND_RELEASE, id), 0, "no key is deleted");
    is_int(count_commands(COMMAND_CONTEND, waiter), 1, "and the next request contends");
    is_int(cooling_count(&harness.front.cooling, harness.now_ns), 0,
           "in no cooldown: the name has another key");

    restore_harness_begin();
    finds.key_format = 1;
    finds.dead = 1;
    (void) hold(0, "ACQUIRE job LINGER 60000");
    replace();
    serve();
    ask(1, "ACQUIRE job WAIT -1");
    is_int(keeper.n_commands, 0, "a lease that should linger is kept until its deadline");
    pass_ms(LEFT_MS);
    is_int(last_command()->kind, COMMAND_CONTEND, "and no longer");

    restore_harness_begin();
    finds.key_format = 1;
    ask(0, "ACQUIRE job");
    report(last_command()->request, REPORT_GRANTED);
    id = wait_for(1, "ACQUIRE other WAIT -1 ASYNC");
    report(id, REPORT_GRANTED);
    replace();
    is_int(keeper.n_commands, 0, "a grant that its client does not know is not searched for either");
    serve();
    ok(last_command()->kind == COMMAND_CONTEND && last_command()->request == id,
       "and a request that waits gets the name anew");
}

/* A lease that the next process does not extend, since its max_ttl is shorter; at risk for max_hold. */
static void hold_too_long_at_risk(void) {
    restore_harness_begin();
    finds.max_ttl_ms = 5000;
    uint64_t id = hold(0, "ACQUIRE job MAXHOLD 9000");
    request_set_risk(&harness.front.registry, registry_find(&harness.front.registry, id), REASON_MAX_HOLD,
                     NULL, harness.now_ns);
    flush(0);
}

/* Lost while no agent ran, at risk for another reason before, or closed by the agent. */
static void test_ends_of_too_long(void) {
    restore_harness_begin();
    finds.max_ttl_ms = 5000;
    (void) hold(0, "ACQUIRE job");
    harness.now_ns += (LEFT_MS + 1) * NS_PER_MS;
    replace();
    pass_ms(0);
    ok(has(0, "lost") && has(0, "no-quorum"),
       "a deadline that passes before the restart ends: lost follows");

    hold_too_long_at_risk();
    replace();
    ok(!has(0, "at-risk"), "at-risk is not repeated when max_hold ends the lease");
    pass_ms(LEFT_MS);
    ok(has(0, "lost") && has(0, "max-hold") && !has(0, "max_ttl"), "and max-hold stays the reason");

    restore_harness_begin();
    finds.max_ttl_ms = 5000;
    (void) hold(0, "ACQUIRE job");
    replace();
    serve();
    ok(disconnect_expel(&harness.sessions[0], "reads too slowly", harness.now_ns),
       "the agent closes a session");
    pass_ms(LEFT_MS);
    is_int((int64_t) harness.front.registry.losses[REASON_CLOSED], 1, "then this is the reason");
}

/* The next process does not search for the lease, and is killed before it has sent the loss; the process
 * after that sends it. In the ledger the lease looks like a holder's that was handed off, as its keeper does
 * not have it, but it must not count as one. */
static void lose_unsent(void) {
    replace();
    serve();
    flush(0);
    pass_ms(LEFT_MS);
    replace();
    serve();
    pass_ms(0);
}

static void test_unsent_loss(void) {
    restore_harness_begin();
    finds.max_ttl_ms = 5000;
    (void) hold(0, "ACQUIRE job");
    lose_unsent();
    ok(has(0, "lost") && has(0, "no-quorum\r\n$65\r\nmax_ttl is shorter"),
       "rule 13: killed before the push is sent: the next process sends it, with its cause");

    hold_too_long_at_risk();
    lose_unsent();
    ok(has(0, "lost") && has(0, "max-hold"), "and with its reason: max-hold,");

    restore_harness_begin();
    (void) hold(0, "ACQUIRE job");
    keeper.nobody_reads = true;
    pass_ms(GRANT_READ_MS + 20);
    ok(has(0, "at-risk") && has(0, "unread"), "or a grant that its client does not read: at-risk before");
    flush(0);
    lose_unsent();
    ok(has(0, "lost") && has(0, "unread"), "and lost later, for the same reason");

    restore_harness_begin();
    finds.max_ttl_ms = 5000;
    (void) hold(1, "ACQUIRE a");
    (void) hold(0, "ACQUIRE b");
    replace();
    serve();
    pass_ms(LEFT_MS);
    finds.requests_max = 1;
    replace();
    ok(has(0, "lost"), "rule 13: also if it has no place for the lease");
}

int main(void) {
    test_forsaken();
    test_left();
    test_left_to_child();
    test_lingering();
    test_no_lingering();
    test_cooldown();
    test_unknown_cooldown();
    test_unreported_grant();
    test_unreported_cooldown();
    test_resume_unreported();
    test_place_taken_again();
    test_predecessor();
    test_predecessors();
    test_smaller_limits();
    test_shorter_max_ttl();
    test_other_key_format();
    test_ends_of_too_long();
    test_unsent_loss();
    return done_testing();
}
