#include "io/node/script-replies.h"

#include <string.h>

#include "io/node/reply-number.h"

static struct vote foreign_vote(const redisReply *kind, const redisReply *value, const redisReply *ttl) {
    bool is_type = strcmp(kind->str, "string") != 0;
    const redisReply *text = is_type ? kind : value;

    return (struct vote){
        .kind = VOTE_FOREIGN,
        .foreign_type = is_type,
        .text = text->str,
        .text_length = (size_t) text->len < UINT16_MAX ? (size_t) text->len : UINT16_MAX,
        .ttl_left_ms = ttl->integer,
    };
}

static struct vote refused_vote(const char *text, size_t length) {
    return (struct vote){.kind = VOTE_REFUSED, .text = text, .text_length = length};
}

static struct vote unexpected_vote(void) {
    static const char text[] = "sent an answer that the script does not have";
    return refused_vote(text, sizeof(text) - 1);
}

/* {type, value, ttl} of a key. */
static bool describes_key(const redisReply *reply) {
    return reply->elements >= 3 && reply->element[0]->type == REDIS_REPLY_STRING &&
           reply->element[1]->type == REDIS_REPLY_STRING && reply->element[2]->type == REDIS_REPLY_INTEGER;
}

static enum token_verdict token_verdict_of(const redisReply *reply) {
    return reply->integer == 1 ? TOKEN_ACCEPTED : reply->integer == 0 ? TOKEN_SMALL : TOKEN_FAR;
}

/* 1; {verdict, largest token}; or {type, value, ttl}. */
static struct vote acquire_vote(const redisReply *answer) {
    if (answer->type == REDIS_REPLY_STRING)
        return refused_vote(answer->str, (size_t) answer->len);
    if (answer->type == REDIS_REPLY_INTEGER && answer->integer == 1)
        return (struct vote){.kind = VOTE_YES, .token_verdict = TOKEN_ACCEPTED};
    if (answer->type != REDIS_REPLY_ARRAY)
        return unexpected_vote();
    if (answer->elements == 2 && answer->element[0]->type == REDIS_REPLY_INTEGER &&
        answer->element[1]->type == REDIS_REPLY_INTEGER)
        return (struct vote){.kind = VOTE_YES,
                             .token_verdict = token_verdict_of(answer->element[0]),
                             .token = reply_number_token(answer->element[1])};
    if (answer->elements != 3 || !describes_key(answer))
        return unexpected_vote();
    return foreign_vote(answer->element[0], answer->element[1], answer->element[2]);
}

/* {verdict, TIME, largest token}; -2: the lock is not ours. */
static struct vote raise_vote(const redisReply *reply) {
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
        reply->element[0]->type != REDIS_REPLY_INTEGER || reply->element[2]->type != REDIS_REPLY_INTEGER)
        return unexpected_vote();
    if (reply->element[0]->integer == 1)
        return (struct vote){.kind = VOTE_YES};
    if (reply->element[0]->integer == -2)
        return (struct vote){.kind = VOTE_FOREIGN, .text = "", .ttl_left_ms = -1};
    return (struct vote){.kind = VOTE_BEHIND,
                         .token_verdict = token_verdict_of(reply->element[0]),
                         .token = reply_number_token(reply->element[2])};
}

/* {type, value, ttl, largest token}, type "none" when free. */
static struct vote look_answer(const redisReply *reply) {
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 4 || !describes_key(reply) ||
        reply->element[3]->type != REDIS_REPLY_INTEGER)
        return unexpected_vote();
    if (strcmp(reply->element[0]->str, "none") == 0)
        return (struct vote){.kind = VOTE_FREE};
    struct vote vote = foreign_vote(reply->element[0], reply->element[1], reply->element[2]);
    vote.token = reply_number_token(reply->element[3]);
    return vote;
}

/* `missing`: the vote for a missing key. */
static struct vote extend_vote(const redisReply *answer, enum vote_kind missing) {
    if (answer->type == REDIS_REPLY_STRING)
        return refused_vote(answer->str, (size_t) answer->len);
    if (answer->type != REDIS_REPLY_INTEGER)
        return unexpected_vote();
    if (answer->integer == 1)
        return (struct vote){.kind = VOTE_YES};
    return (struct vote){
        .kind = answer->integer == 2 ? missing : VOTE_FOREIGN, .text = "", .ttl_left_ms = -1};
}

/* Deleted, or another's key: released in both cases. */
static struct vote release_vote(const redisReply *answer) {
    return (struct vote){.kind = VOTE_YES,
                         .received = answer->type == REDIS_REPLY_INTEGER && answer->integer > 1};
}

/* The usual answer is short: all names of the call were acquired with their tokens, extended, or deleted
 * without a subscriber. */
static bool says_all_well(enum operation operation, const redisReply *reply) {
    if (reply->type != REDIS_REPLY_ARRAY)
        return false;
    if (operation == OPERATION_RELEASE)
        return reply->elements == 0;
    return operation != OPERATION_ADOPT && reply->elements == 1 &&
           reply->element[0]->type == REDIS_REPLY_INTEGER;
}

struct vote script_replies_vote(enum operation operation, uint32_t count, const redisReply *reply,
                                uint32_t index) {
    if (!reply)
        return (struct vote){.kind = VOTE_CUT};
    if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "EPOCH", strlen("EPOCH")) == 0)
        return (struct vote){.kind = VOTE_EPOCH, .text = ""};
    if (reply->type == REDIS_REPLY_ERROR)
        return refused_vote(reply->str, (size_t) reply->len);
    switch (operation) {
    case OPERATION_ACQUIRE:
    case OPERATION_EXTEND:
    case OPERATION_ADOPT:
        if (says_all_well(operation, reply))
            return (struct vote){.kind = VOTE_YES, .token_verdict = TOKEN_ACCEPTED};
        if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 1 + count)
            return unexpected_vote();
        if (operation == OPERATION_ACQUIRE)
            return acquire_vote(reply->element[1 + index]);
        return extend_vote(reply->element[1 + index],
                           operation == OPERATION_EXTEND ? VOTE_REPAIRED : VOTE_FREE);
    case OPERATION_RELEASE:
        if (says_all_well(operation, reply))
            return (struct vote){.kind = VOTE_YES};
        if (reply->type != REDIS_REPLY_ARRAY || reply->elements != count)
            return unexpected_vote();
        return release_vote(reply->element[index]);
    case OPERATION_RAISE:
        return raise_vote(reply);
    case OPERATION_QUERY:
        return look_answer(reply);
    case OPERATION_REFRESH:
        if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
            return unexpected_vote();
        return extend_vote(reply->element[0], VOTE_REPAIRED);
    }
    return unexpected_vote();
}

int64_t script_replies_time_us(enum operation operation, const redisReply *reply) {
    size_t at = operation == OPERATION_RAISE || operation == OPERATION_REFRESH ? 1 : 0;

    if (operation == OPERATION_RELEASE || operation == OPERATION_QUERY || !reply ||
        reply->type != REDIS_REPLY_ARRAY || reply->elements <= at)
        return -1;
    return reply_number_time_us(reply->element[at]);
}
