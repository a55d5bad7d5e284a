/* Which answers fit the scripts (agent/scripts), and the subscribers in a release's answer. */

#include "io/node/script-replies.h"

#include <stdlib.h>
#include <string.h>

#include "tap.h"

static redisReply integer(long long number) {
    return (redisReply){.type = REDIS_REPLY_INTEGER, .integer = number};
}

static struct vote released(const redisReply *reply, uint32_t index) {
    return script_replies_vote(OPERATION_RELEASE, reply, index);
}

static void is_released(redisReply *answer, bool received, const char *what) {
    redisReply *only[] = {answer};
    const redisReply reply = {.type = REDIS_REPLY_ARRAY, .element = only, .elements = 1};
    const struct vote vote = released(&reply, 0);

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
    ok(!released(&none, 0).received, "the short answer: no subscriber of any");
    ok(!released(NULL, 0).received, "cut off: unknown");
}

static void test_several(void) {
    redisReply not_received = integer(1), received = integer(2), not_ours = integer(0), more = integer(7);
    redisReply *all[] = {&not_received, &received, &not_ours, &more};
    redisReply reply = {.type = REDIS_REPLY_ARRAY, .element = all, .elements = 4};
    static const bool wanted[] = {false, true, false, true};
    unsigned right = 0;

    for (uint32_t i = 0; i < 4; i++)
        right += released(&reply, i).kind == VOTE_YES && released(&reply, i).received == wanted[i];
    is_int(right, 4, "each of several names has its own count");
    reply.elements = 3;
    ok(!script_replies_fit(OPERATION_RELEASE, 4, &reply),
       "an answer for fewer names than were released does not fit");
}

static void test_others(void) {
    redisReply now = integer(4711), two = integer(2);
    redisReply *both[] = {&now, &two};
    const redisReply reply = {.type = REDIS_REPLY_ARRAY, .element = both, .elements = 2};

    ok(!script_replies_vote(OPERATION_EXTEND, &reply, 0).received,
       "2 in the answers of other scripts is no subscriber");
}

/* The value under another's key: of an extension, and of one that refreshes. */
static void test_foreign_value(void) {
    redisReply now = integer(4711), extended = integer(1),
               value = {.type = REDIS_REPLY_STRING, .str = (char *) "somebody", .len = 8};
    redisReply *only[] = {&value};
    redisReply foreign = {.type = REDIS_REPLY_ARRAY, .element = only, .elements = 1};
    redisReply *both[] = {&now, &extended, &foreign}, *one[] = {&foreign, &now};
    const redisReply several = {.type = REDIS_REPLY_ARRAY, .element = both, .elements = 3};
    const redisReply refreshed = {.type = REDIS_REPLY_ARRAY, .element = one, .elements = 2};
    const struct vote extend = script_replies_vote(OPERATION_EXTEND, &several, 1);
    const struct vote refresh = script_replies_vote(OPERATION_REFRESH, &refreshed, 0);

    is_int(script_replies_vote(OPERATION_EXTEND, &several, 0).kind, VOTE_YES, "one key of two is extended");
    ok(extend.kind == VOTE_FOREIGN && extend.text_length == 8 && memcmp(extend.text, "somebody", 8) == 0,
       "the other one has another's value");
    ok(refresh.kind == VOTE_FOREIGN && refresh.text_length == 8, "so has one that is refreshed");
}

/* "i5 s" in brackets: RESP in short. i: integer, s: string, o: status, n: nil, e: error, (: array. */
static redisReply *parse(const char **at, redisReply **next) {
    redisReply *reply = (*next)++;
    char *end;

    *reply = (redisReply){.str = (char *) "", .type = REDIS_REPLY_NIL};
    switch (*(*at)++) {
    case 'i':
        reply->type = REDIS_REPLY_INTEGER;
        reply->integer = strtoll(*at, &end, 10);
        *at = end;
        break;
    case 's':
        reply->type = REDIS_REPLY_STRING;
        break;
    case 'o':
        reply->type = REDIS_REPLY_STATUS;
        break;
    case 'e':
        reply->type = REDIS_REPLY_ERROR;
        break;
    case '(':
        reply->type = REDIS_REPLY_ARRAY;
        reply->element = calloc(8, sizeof(reply->element[0]));
        while (**at != ')')
            reply->element[reply->elements++] = parse(at, next);
        ++*at;
        break;
    default:
        break;
    }
    *at += **at == ' ';
    return reply;
}

static bool fits(enum operation operation, uint32_t count, const char *text) {
    redisReply replies[32], *next = replies;
    bool fit = script_replies_fit(operation, count, parse(&text, &next));

    for (const redisReply *reply = replies; reply < next; reply++)
        free(reply->element);
    return fit;
}

static void test_fitting(void) {
    static const struct {
        enum operation operation;
        uint32_t count;
        const char *fit[6], *misfit[12];
    } cases[] = {
        {OPERATION_ACQUIRE,
         2,
         {"(i7)", "(i7 i1 i1)", "(i7 (i0 i5)(s s i-1))", "(i7 s i1)", "e"},
         {"()", "(s)", "(i7 i1)", "(i7 i1 i1 i1)", "(i7 i2 i1)", "(i7 (i0 s) i1)", "(i7 (s s s) i1)",
          "(i7 (i0 i5 i5) i1)", "(i7 n i1)", "i1", "s", "o"}},
        {OPERATION_EXTEND,
         2,
         {"(i7)", "(i7 i0 i2)", "(i7 i1 s)", "(i7 (s) i1)", "e"},
         {"()", "(n)", "(i7 i1)", "(i7 i1 i3)", "(i7 i-1 i1)", "(i7 (i1) i1)", "(i7 (s s) i1)", "(i7 () i1)",
          "(i7 e i1)", "i1", "n"}},
        {OPERATION_ADOPT, 1, {"(i7 i1)", "(i7 s)", "e"}, {"(i7)", "(s i1)", "(i7 i4)", "()", "i7", "o"}},
        {OPERATION_SEARCH, 1, {"(i7 i2)", "(i7 s)", "e"}, {"(i7)", "(s i1)", "(i7 i4)", "()", "i7", "o"}},
        {OPERATION_RELEASE,
         2,
         {"()", "(i0 i7)", "e"},
         {"(i1)", "(i1 i1 i1)", "(i1 s)", "(i-1 i1)", "i0", "s", "n", "o"}},
        {OPERATION_RAISE,
         1,
         {"(i1 i7 i7)", "(i-2 i7 i0)", "e"},
         {"(i2 i7 i7)", "(i1 i7)", "(i1 s i7)", "(i1 i7 s)", "(s i7 i7)", "i1", "()"}},
        {OPERATION_QUERY,
         1,
         {"(s s i-2 i0)", "e"},
         {"(s s i1)", "(s s s i0)", "(i1 s i1 i0)", "(s n i1 i0)", "(s s i1 s)", "s"}},
        {OPERATION_REFRESH,
         1,
         {"(i1 i7)", "(s i7)", "e"},
         {"(i7)", "(i1 s)", "(i9 i7)", "i1", "(i1 i7 i7)"}},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (const char *const *text = cases[i].fit; *text; text++)
            ok(fits(cases[i].operation, cases[i].count, *text), "%s fits operation %d", *text,
               (int) cases[i].operation);
        for (unsigned j = 0; j < 12 && cases[i].misfit[j]; j++)
            ok(!fits(cases[i].operation, cases[i].count, cases[i].misfit[j]), "%s does not",
               cases[i].misfit[j]);
    }
}

int main(void) {
    test_fitting();
    test_one();
    test_several();
    test_others();
    test_foreign_value();
    return done_testing();
}
