/* Numbers in the scripts' answers, checked. */
#pragma once

#include <stdint.h>

#include <hiredis/hiredis.h>

/* A node's TIME in microseconds, limited to the year 2112, so that sums fit: a later clock was set wrongly.
 * Negative when the reply is no number. */
static inline int64_t reply_number_time_us(const redisReply *reply) {
    const int64_t most_us = (INT64_C(1) << 52) - 1;

    if (reply->type != REDIS_REPLY_INTEGER)
        return -1;
    return reply->integer < 0 ? 0 : reply->integer > most_us ? most_us : (int64_t) reply->integer;
}

/* A fencing token; 0 when the number is none. */
static inline int64_t reply_number_token(const redisReply *reply) {
    return reply->integer > 0 && reply->integer < INT64_C(1) << 53 ? (int64_t) reply->integer : 0;
}
