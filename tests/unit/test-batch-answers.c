/* The votes in the answers to script calls. */

#include "batcher-harness.h"
#include "io/node/key-names.h"
#include "tap.h"

static unsigned has_subscriber(unsigned ticket) {
    unsigned count = 0;

    for (unsigned i = 0; i < n_votes; i++)
        count += votes[i].ticket == ticket && votes[i].vote.received;
    return count;
}

/* A node whose user may not publish: its releases count as if a message had a subscriber. */
static void test_mute(void) {
    redisReply gone = integer(1);
    redisReply *const all[] = {&gone, &gone};
    redisReply reply = array((redisReply **) all, 2);

    nodes[1].rights.listen = false;
    ask_nodes(3, OPERATION_RELEASE, 1, 1, FENCED);
    ask_nodes(3, OPERATION_RELEASE, 2, 2, FENCED);
    flush();
    is_string(nodes[0].calls[0].items[4], RELEASE_CHANNEL, "a release publishes on the channel");
    is_string(nodes[1].calls[0].items[4], "", "without the right to publish it names no channel");
    answer_all(&reply);
    is_int(has_subscriber(1), 1, "then a subscriber is assumed there, and there only");
    nodes[1].rights.listen = true;
    ask_nodes(3, OPERATION_RELEASE, 3, 3, FENCED);
    ask_nodes(3, OPERATION_RELEASE, 4, 4, FENCED);
    flush();
    answer_all(&reply);
    is_int(has_subscriber(3), 0, "with the right the answer has the number of subscribers");
    redisReply nothing = array(NULL, 0);
    nodes[1].rights.listen = false;
    ask_nodes(3, OPERATION_RELEASE, 5, 5, FENCED);
    flush();
    answer_all(&nothing);
    is_int(has_subscriber(5), 1, "and without it the short answer assumes one, too");
    nodes[1].rights.listen = true;
}

static void test_answers(void) {
    char type[] = "string", set[] = "set", value[] = "theirs", nothing[] = "", no[] = "NOPERM no";
    redisReply now = integer(4711), accepted = integer(1), zero = integer(0), far = integer(-1),
               larger = integer(2000), left = integer(500), none = integer(-1), is_text = string(type),
               is_set = string(set), text = string(value), empty = string(nothing), refused = string(no);
    redisReply *const behind[] = {&zero, &larger}, *const beyond[] = {&far, &larger},
                      *const held[] = {&is_text, &text, &left}, *const strange[] = {&is_set, &empty, &none};
    redisReply small = array((redisReply **) behind, 2), distant = array((redisReply **) beyond, 2),
               foreign = array((redisReply **) held, 3), hash = array((redisReply **) strange, 3);
    redisReply *const all[] = {&now, &accepted, &small, &distant, &foreign, &hash, &refused};
    redisReply reply = array((redisReply **) all, 7);

    for (unsigned name = 1; name <= 6; name++)
        ask_nodes(1, OPERATION_ACQUIRE, name, 100 + name, FENCED);
    flush();
    answer_all(&reply);
    is_int(n_votes, 6, "an answer has a vote for each name");
    is_int(reported_time_us, 4711, "an answer has the node's TIME");
    unsigned in_place = 0;
    for (unsigned i = 0; i < n_votes; i++)
        in_place += votes[i].ticket == 101 + i;
    is_int(in_place, 6, "each name gets its own vote");
    ok(votes[0].vote.kind == VOTE_YES && votes[0].vote.token_verdict == TOKEN_ACCEPTED,
       "1: the key is set, with the token");
    ok(votes[1].vote.kind == VOTE_YES && votes[1].vote.token_verdict == TOKEN_SMALL,
       "0: the key is set, but the token is too small");
    is_int(votes[1].vote.token, 2000, "then the vote has the largest token");
    ok(votes[2].vote.kind == VOTE_YES && votes[2].vote.token_verdict == TOKEN_FAR,
       "-1: the token is too far from the node's clock");
    ok(votes[3].vote.kind == VOTE_FOREIGN && !votes[3].vote.foreign_type && votes[3].vote.ttl_left_ms == 500,
       "a key of another holder, with its ttl");
    is_string(votes[3].vote.text, "theirs", "the vote has the other holder's value");
    ok(votes[4].vote.kind == VOTE_FOREIGN && votes[4].vote.foreign_type, "a key of another type");
    is_string(votes[4].vote.text, "set", "the vote has the type");
    is_int(votes[5].vote.kind, VOTE_REFUSED, "an error for one name is a refusal");
    is_string(votes[5].vote.text, "NOPERM no", "the vote has the error");
}

/* The usual answers are short. */
static void test_all_well(void) {
    redisReply now = integer(4711);
    redisReply *const only[] = {&now};
    redisReply brief = array((redisReply **) only, 1), none = array(NULL, 0);

    for (unsigned name = 1; name <= 3; name++) {
        ask(OPERATION_ACQUIRE, name);
        ask(OPERATION_EXTEND, 10 + name);
    }
    flush();
    answer_all(&brief);
    unsigned yes = 0;
    for (unsigned i = 0; i < n_votes; i++)
        yes += votes[i].vote.kind == VOTE_YES && votes[i].vote.token_verdict == TOKEN_ACCEPTED;
    is_int(yes, 6, "TIME alone: all were acquired with their tokens, or extended");
    is_int(reported_time_us, 4711, "the TIME is reported, too");
    for (unsigned name = 1; name <= 3; name++)
        ask(OPERATION_RELEASE, name);
    flush();
    answer_all(&none);
    yes = 0;
    for (unsigned i = 0; i < n_votes; i++)
        yes += votes[i].vote.kind == VOTE_YES && !votes[i].vote.received;
    is_int(yes, 3, "an empty answer to a release: all keys were deleted, no message had a subscriber");
    ask(OPERATION_ADOPT, 2);
    flush();
    misfits = 0;
    answer_all(&brief);
    ok(votes[0].vote.kind == VOTE_CUT && misfits == 1, "an adoption is answered for each name");
}

/* An answer for a whole call counts for each name. */
static void all_vote(const redisReply *reply, enum vote_kind kind, const char *what) {
    unsigned good = 0;

    for (unsigned name = 1; name <= 3; name++)
        ask(OPERATION_ACQUIRE, name);
    flush();
    answer_all(reply);
    for (unsigned i = 0; i < n_votes; i++)
        good += votes[i].vote.kind == kind && votes[i].ticket == 1 + i;
    is_int(good, 3, what);
    is_int(reported_time_us, -1, "no TIME is reported without one in the answer");
}

static void test_all_alike(void) {
    char epoch[] = "EPOCH changed", no[] = "ERR no";
    redisReply changed = {.type = REDIS_REPLY_ERROR, .str = epoch, .len = strlen(epoch)},
               error = {.type = REDIS_REPLY_ERROR, .str = no, .len = strlen(no)}, nobody = integer(1),
               none = array(NULL, 0), word = string(no);
    redisReply *const only[] = {&word};
    redisReply wordy = array((redisReply **) only, 1);

    misfits = 0;
    all_vote(NULL, VOTE_CUT, "a broken connection cuts off each name");
    all_vote(&changed, VOTE_EPOCH, "a node that lost its memory votes so on each");
    all_vote(&error, VOTE_REFUSED, "a rejected call is rejected for each");
    is_int(misfits, 0, "these answers fit the script");
    all_vote(&nobody, VOTE_CUT, "an integer as the answer cuts off each name");
    all_vote(&none, VOTE_CUT, "an answer for fewer names cuts off each name");
    all_vote(&wordy, VOTE_CUT, "an answer without TIME cuts off each name");
    is_int(misfits, 3, "such answers are reported to the caller, which closes the connection");
    nodes[0].down = true;
    all_vote(NULL, VOTE_CUT, "a call that can't be sent is cut off for each name");
    nodes[0].down = false;
}

/* The agent's user has no right to one of the keys. */
static void test_key_refused(void) {
    char no[] = "NOPERM this user has no permissions to access one of the keys";
    redisReply refused = {.type = REDIS_REPLY_ERROR, .str = no, .len = strlen(no)};

    ask(OPERATION_ACQUIRE, 1);
    flush();
    answer_all(&refused);
    all_vote(&refused, VOTE_REFUSED, "a call is rejected for one of its keys");
    for (unsigned name = 1; name <= 3; name++) {
        ask_nodes(3, OPERATION_ACQUIRE, name, name, FENCED);
        ask_nodes(3, OPERATION_RELEASE, name, name, FENCED);
    }
    flush();
    is_string(calls_text(), "acquire 1; release 1; acquire 2; release 2; acquire 3; release 3;",
              "after NOPERM, names go alone to that node");
    is_int(nodes[1].n_calls, 2, "other nodes still get shared calls");
    answer_all(NULL);
    for (unsigned name = 1; name <= 3; name++)
        ask(OPERATION_EXTEND, name);
    flush();
    is_string(calls_text(), "extend 1 2 3;", "extensions still share calls");
    answer_all(NULL);
}

static void acquires_are(const char *calls, const char *what) {
    for (unsigned name = 1; name <= 3; name++)
        ask(OPERATION_ACQUIRE, name);
    flush();
    is_string(calls_text(), calls, what);
}

/* An administrator may have given the right meanwhile. */
static void test_key_refused_before(void) {
    char no[] = "NOPERM this user has no permissions to access one of the keys";
    redisReply refused = {.type = REDIS_REPLY_ERROR, .str = no, .len = strlen(no)};
    static const char alone[] = "acquire 1; acquire 2; acquire 3;", shared[] = "acquire 1 2 3;";

    batcher_node_ready(batcher, 1);
    acquires_are(alone, "another node's new connection changes nothing");
    answer_all(NULL);
    batcher_node_ready(batcher, 0);
    acquires_are(shared, "on a new connection, names share calls again");
    answer_all(&refused);
    harness_now_ns += BATCHER_ALONE_MS * NS_PER_MS - 1;
    acquires_are(alone, "until one is refused");
    answer_all(NULL);
    ask(OPERATION_EXTEND, 1);
    flush();
    answer_all(&refused);
    harness_now_ns += BATCHER_ALONE_MS * NS_PER_MS - 1;
    acquires_are(alone, "as long as names are refused, alone or not,");
    answer_all(NULL);
    harness_now_ns++;
    acquires_are(shared, "and an hour longer");
    answer_all(NULL);
}

int main(void) {
    batcher_harness_begin();
    test_mute();
    test_answers();
    test_all_well();
    test_all_alike();
    test_key_refused();
    test_key_refused_before();
    is_int(overwritten, 0, "no call's bytes change before the last answer");
    batcher_harness_end();
    return done_testing();
}
