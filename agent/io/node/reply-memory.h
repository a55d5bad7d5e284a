/* Memory for the answer that hiredis' reader builds, reused from one answer to the next: an element takes a
 * step in a block instead of an allocation. There is one answer at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <hiredis/hiredis.h>

#include "base/list.h"

struct reply_memory_large;

struct reply_memory {
    char *block; /* NULL before the first answer */
    size_t used;
    size_t count;   /* of the answer's elements */
    bool excessive; /* there are more than NODE_ANSWER_ELEMENTS_MAX: the reader has an error */
    bool too_deep;  /* it has arrays nested more than NODE_ANSWER_DEPTH_MAX deep: the reader has an error */
    const struct list *asked; /* while this list is empty an answer is an error, too; NULL: never */
    bool unasked;
    struct reply_memory_large *large; /* elements that do not fit, until reply_memory_clear() */
};

/* From now on the reader builds answers in here; they are not for freeReplyObject(). `replies` must outlive
 * the context. */
void reply_memory_attach(struct reply_memory *replies, redisContext *context);

/* After an error of the reader: replaces its text if the answer had too many elements, or came unasked. */
void reply_memory_explain(const struct reply_memory *replies, redisContext *context);

/* Frees the answer. */
void reply_memory_clear(struct reply_memory *replies);

/* Adds the `n` bytes received to *unfinished, which counts since the last complete answer. 0, or -EMSGSIZE
 * when an answer has more than NODE_ANSWER_BYTES_MAX; then the context has the error. */
int reply_memory_count(redisContext *context, size_t n, size_t *unfinished);

void reply_memory_deinit(struct reply_memory *replies);
