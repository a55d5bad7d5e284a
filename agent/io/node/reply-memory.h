/* A node's answer as hiredis' reader builds it, in memory that is kept from one to the next: what would be
 * an allocation for each element is a step in a block. There is one answer at a time. */
#pragma once

#include <stddef.h>

#include <hiredis/hiredis.h>

struct reply_memory_large;

struct reply_memory {
    char *block; /* NULL before the first answer */
    size_t used;
    struct reply_memory_large *large; /* what does not fit, until the answer is done with */
};

/* From now on the reader's answers are in here, and freeReplyObject() is not for them. The context must end
 * before `replies` does. */
void reply_memory_attach(struct reply_memory *replies, redisContext *context);

/* The answer is done with. */
void reply_memory_clear(struct reply_memory *replies);

/* So many bytes have come: in *unfinished those since the last whole answer are counted. 0, or -EMSGSIZE
 * when these are more than an answer may have; then the context has the error. */
int reply_memory_count(redisContext *context, size_t n, size_t *unfinished);

void reply_memory_deinit(struct reply_memory *replies);
