/* The subscribers in a release's answer: agent/scripts/release.lua. */

#include "io/node/script-replies.h"
#include "tap.h"

static redisReply integer(long long number) {
    return (redisReply){.type = REDIS_REPLY_INTEGER, .integer = number};
}

static struct vote released(const redisReply *reply, uint32_t count, uint32_t index) {
    return script_replies_vote(OPERATION_RELEASE, count, reply, index);
}

static void is_released(redisReply *answer, bool received, const char *what) {
    redisReply *only[] = {answer};
    const redisReply reply = {.type = REDIS_REPLY_ARRAY, .element = only, .elements = 1};
    const struct vote vote = released(&reply, 1, 0);

    ok(vote.kind == VOTE_YES && vote.received == received, "%s", what);
}

static void test_one(void) {
    redisReply not_ours = integer(0), not_received = integer(1), received = integer(2),
               by_many = integer(1001);
    const redisReply none = {.type = REDIS_REPLY_ARRAY};

    is_released(&received, true, "deleted, one subscriber");
    is_released(&by_many, true, "a thousand subscribers");
    is_released(&not_received, false, "deleted, no subscriber");
    is_released(&not_ours, false, "another holder's key: nothing was published");
    ok(!released(&none, 1, 0).received, "the short answer: no subscriber of any");
    ok(!released(NULL, 1, 0).received, "cut off: unknown");
}

static void test_several(void) {
    redisReply not_received = integer(1), received = integer(2), not_ours = integer(0), more = integer(7);
    redisReply *all[] = {&not_received, &received, &not_ours, &more};
    redisReply reply = {.type = REDIS_REPLY_ARRAY, .element = all, .elements = 4};
    static const bool wanted[] = {false, true, false, true};
    unsigned right = 0;

    for (uint32_t i = 0; i < 4; i++)
        right += released(&reply, 4, i).kind == VOTE_YES && released(&reply, 4, i).received == wanted[i];
    is_int(right, 4, "each of several names has its own count");
    reply.elements = 3;
    ok(released(&reply, 4, 1).kind == VOTE_REFUSED && !released(&reply, 4, 1).received,
       "an answer for fewer names than were released counts for none");
}

static void test_others(void) {
    redisReply now = integer(4711), two = integer(2);
    redisReply *both[] = {&now, &two};
    const redisReply reply = {.type = REDIS_REPLY_ARRAY, .element = both, .elements = 2};

    ok(!script_replies_vote(OPERATION_EXTEND, 1, &reply, 0).received,
       "2 in the answers of other scripts is no subscriber");
}

int main(void) {
    test_one();
    test_several();
    test_others();
    return done_testing();
}
