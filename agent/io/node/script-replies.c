#include "io/node/script-replies.h"

#include <limits.h>
#include <string.h>

#include "io/node/reply-number.h"

static size_t text_length_of(const redisReply *text) {
    return (size_t) text->len < UINT16_MAX ? (size_t) text->len : UINT16_MAX;
}

static struct vote foreign_vote(const redisReply *kind, const redisReply *value, const redisReply *ttl) {
    bool is_type = strcmp(kind->str, "string") != 0;
    const redisReply *text = is_type ? kind : value;

    return (struct vote){
        .kind = VOTE_FOREIGN,
        .foreign_type = is_type,
        .text = text->str,
        .text_length = text_length_of(text),
        .ttl_left_ms = ttl->integer,
    };
}

static struct vote refused_vote(const char *text, size_t length) {
    return (struct vote){.kind = VOTE_REFUSED, .text = text, .text_length = length};
}

/* --- what fits: what the scripts answer, according to their head comments --- */

static bool is_integer(const redisReply *reply, long long least, long long most) {
    return reply->type == REDIS_REPLY_INTEGER && reply->integer >= least && reply->integer <= most;
}

static bool is_number(const redisReply *reply) {
    return is_integer(reply, LLONG_MIN, LLONG_MAX);
}

static bool is_text(const redisReply *reply) {
    return reply->type == REDIS_REPLY_STRING;
}

static bool is_array(const redisReply *reply, size_t elements) {
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == elements;
}

/* {type, value, ttl, …} of a key. */
static bool describes_key(const redisReply *reply) {
    return is_text(reply->element[0]) && is_text(reply->element[1]) && is_number(reply->element[2]);
}

/* 1; {verdict, largest token}; {type, value, ttl}; or an error's text. */
static bool fits_acquire(const redisReply *answer) {
    if (is_array(answer, 2))
        return is_integer(answer->element[0], -1, 1) && is_number(answer->element[1]);
    if (is_array(answer, 3))
        return describes_key(answer);
    return is_integer(answer, 1, 1) || is_text(answer);
}

/* 1; 2: missing; {value}: another's; 0: another's, of which no more is known; or an error's text. */
static bool fits_extend(const redisReply *answer) {
    return is_integer(answer, 0, 2) || is_text(answer) ||
           (is_array(answer, 1) && is_text(answer->element[0]));
}

/* 0: another's; or 1 + the number of subscribers. */
static bool fits_release(const redisReply *answer) {
    return is_integer(answer, 0, LLONG_MAX);
}

static bool each_fits(const redisReply *reply, size_t first, bool (*fits)(const redisReply *)) {
    for (size_t i = first; i < reply->elements; i++)
        if (!fits(reply->element[i]))
            return false;
    return true;
}

/* The usual answer is short: all names of the call were acquired with their tokens, extended, or deleted
 * without a subscriber. */
static bool says_all_well(enum operation operation, const redisReply *reply) {
    if (operation == OPERATION_RELEASE)
        return reply->elements == 0;
    return operation != OPERATION_ADOPT && operation != OPERATION_SEARCH && reply->elements == 1;
}

/* TIME, then an answer for each name, or none. */
static bool fits_timed(enum operation operation, uint32_t count, const redisReply *reply) {
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0 || !is_number(reply->element[0]))
        return false;
    if (says_all_well(operation, reply))
        return true;
    return reply->elements == 1 + (size_t) count &&
           each_fits(reply, 1, operation == OPERATION_ACQUIRE ? fits_acquire : fits_extend);
}

bool script_replies_fit(enum operation operation, uint32_t count, const redisReply *reply) {
    if (reply->type == REDIS_REPLY_ERROR)
        return true;
    switch (operation) {
    case OPERATION_ACQUIRE:
    case OPERATION_EXTEND:
    case OPERATION_ADOPT:
    case OPERATION_SEARCH:
        return fits_timed(operation, count, reply);
    case OPERATION_RELEASE:
        return is_array(reply, 0) || (is_array(reply, count) && each_fits(reply, 0, fits_release));
    case OPERATION_RAISE:
        return is_array(reply, 3) && is_integer(reply->element[0], -2, 1) && is_number(reply->element[1]) &&
               is_number(reply->element[2]);
    case OPERATION_QUERY:
        return is_array(reply, 4) && describes_key(reply) && is_number(reply->element[3]);
    case OPERATION_REFRESH:
        return is_array(reply, 2) && fits_extend(reply->element[0]) && is_number(reply->element[1]);
    }
    return false;
}

/* --- votes --- */

static enum token_verdict token_verdict_of(const redisReply *reply) {
    return reply->integer == 1 ? TOKEN_ACCEPTED : reply->integer == 0 ? TOKEN_SMALL : TOKEN_FAR;
}

static struct vote acquire_vote(const redisReply *answer) {
    if (is_text(answer))
        return refused_vote(answer->str, (size_t) answer->len);
    if (answer->type == REDIS_REPLY_INTEGER)
        return (struct vote){.kind = VOTE_YES, .token_verdict = TOKEN_ACCEPTED};
    if (answer->elements == 2)
        return (struct vote){.kind = VOTE_YES,
                             .token_verdict = token_verdict_of(answer->element[0]),
                             .token = reply_number_token(answer->element[1])};
    return foreign_vote(answer->element[0], answer->element[1], answer->element[2]);
}

/* {verdict, TIME, largest token}; -2: the lock is not ours. */
static struct vote raise_vote(const redisReply *reply) {
    if (reply->element[0]->integer == 1)
        return (struct vote){.kind = VOTE_YES};
    if (reply->element[0]->integer == -2)
        return (struct vote){.kind = VOTE_FOREIGN, .text = "", .ttl_left_ms = -1};
    return (struct vote){.kind = VOTE_BEHIND,
                         .token_verdict = token_verdict_of(reply->element[0]),
                         .token = reply_number_token(reply->element[2])};
}

/* {type, value, ttl, largest token}, type "none" when free. */
static struct vote query_vote(const redisReply *reply) {
    if (strcmp(reply->element[0]->str, "none") == 0)
        return (struct vote){.kind = VOTE_FREE};
    struct vote vote = foreign_vote(reply->element[0], reply->element[1], reply->element[2]);
    vote.token = reply_number_token(reply->element[3]);
    return vote;
}

/* `missing`: the vote for a missing key. */
static struct vote extend_vote(const redisReply *answer, enum vote_kind missing) {
    if (is_text(answer))
        return refused_vote(answer->str, (size_t) answer->len);
    if (answer->type == REDIS_REPLY_ARRAY)
        return (struct vote){.kind = VOTE_FOREIGN,
                             .text = answer->element[0]->str,
                             .text_length = text_length_of(answer->element[0]),
                             .ttl_left_ms = -1};
    if (answer->integer == 1)
        return (struct vote){.kind = VOTE_YES};
    return (struct vote){
        .kind = answer->integer == 2 ? missing : VOTE_FOREIGN, .text = "", .ttl_left_ms = -1};
}

/* Deleted, or another's key: released in both cases. */
static struct vote release_vote(const redisReply *answer) {
    return (struct vote){.kind = VOTE_YES, .received = answer->integer > 1};
}

struct vote script_replies_vote(enum operation operation, const redisReply *reply, uint32_t index) {
    if (!reply)
        return (struct vote){.kind = VOTE_CUT};
    if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "EPOCH", strlen("EPOCH")) == 0)
        return (struct vote){.kind = VOTE_EPOCH, .text = ""};
    if (reply->type == REDIS_REPLY_ERROR)
        return refused_vote(reply->str, (size_t) reply->len);
    switch (operation) {
    case OPERATION_ACQUIRE:
        if (says_all_well(operation, reply))
            return (struct vote){.kind = VOTE_YES, .token_verdict = TOKEN_ACCEPTED};
        return acquire_vote(reply->element[1 + index]);
    case OPERATION_EXTEND:
        if (says_all_well(operation, reply))
            return (struct vote){.kind = VOTE_YES};
        return extend_vote(reply->element[1 + index], VOTE_REPAIRED);
    case OPERATION_ADOPT:
    case OPERATION_SEARCH:
        return extend_vote(reply->element[1 + index], VOTE_FREE);
    case OPERATION_RELEASE:
        if (says_all_well(operation, reply))
            return (struct vote){.kind = VOTE_YES};
        return release_vote(reply->element[index]);
    case OPERATION_RAISE:
        return raise_vote(reply);
    case OPERATION_QUERY:
        return query_vote(reply);
    case OPERATION_REFRESH:
        return extend_vote(reply->element[0], VOTE_REPAIRED);
    }
    return (struct vote){.kind = VOTE_CUT};
}

int64_t script_replies_time_us(enum operation operation, const redisReply *reply) {
    size_t at = operation == OPERATION_RAISE || operation == OPERATION_REFRESH ? 1 : 0;

    if (operation == OPERATION_RELEASE || operation == OPERATION_QUERY || !reply ||
        reply->type == REDIS_REPLY_ERROR)
        return -1;
    return reply_number_time_us(reply->element[at]);
}
