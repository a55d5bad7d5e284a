/* A round's votes: which answers count, and when the round is decided. */

#include "core/quorum.h"
#include "tap.h"

static void test_sizes(void) {
    static const unsigned quorums[] = {1, 2, 2, 3, 3, 4, 4};

    for (unsigned nodes = 1; nodes <= 7; nodes++)
        ok(quorum_of(nodes) == quorums[nodes - 1], "a majority of %u nodes is %u", nodes,
           quorums[nodes - 1]);
}

static void test_answers(void) {
    struct quorum_round round;

    quorum_begin(&round, 7);
    quorum_answer(&round, 3, VOTE_YES);
    is_int(round.yes, 0, "the answer of a node that was not asked does not count");
    quorum_answer(&round, 0, VOTE_REFUSED);
    quorum_answer(&round, 0, VOTE_YES);
    ok(round.yes == 0 && round.refused == 1, "nor does a second answer");
    quorum_answer(&round, 1, VOTE_REPAIRED);
    quorum_answer(&round, 2, VOTE_BEHIND);
    ok(round.repaired == 2 && round.free == 4 && round.asked == 0, "each kind has its place");
    quorum_begin(&round, 7);
    quorum_answer(&round, 0, VOTE_EPOCH);
    quorum_answer(&round, 1, VOTE_CUT);
    quorum_answer(&round, 2, VOTE_FOREIGN);
    ok(round.yes == 0 && round.free == 0 && round.refused == 0 && round.foreign == 4,
       "a node of another epoch and a broken connection have none");
}

static void test_verdicts(void) {
    struct quorum_round round;

    quorum_begin(&round, 15);
    is_int(quorum_verdict(&round, 4), VERDICT_OPEN, "no answer yet");
    quorum_answer(&round, 0, VOTE_YES);
    quorum_answer(&round, 1, VOTE_YES);
    is_int(quorum_verdict(&round, 4), VERDICT_OPEN, "half of the nodes decides nothing");
    quorum_answer(&round, 2, VOTE_FREE);
    is_int(quorum_verdict(&round, 4), VERDICT_OPEN, "while one more may agree");
    quorum_answer(&round, 3, VOTE_YES);
    is_int(quorum_verdict(&round, 4), VERDICT_REACHED, "three of four is a majority");
    quorum_begin(&round, 3);
    is_int(quorum_verdict(&round, 4), VERDICT_IMPOSSIBLE, "two that are asked of four are too few");
}

int main(void) {
    test_sizes();
    test_answers();
    test_verdicts();
    return done_testing();
}
