#include "io/node/reply-memory.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "core/limits.h"
#include "io/loop/secret-memory.h"

enum {
    BLOCK_BYTES = 16384, /* the answer for BATCH_NAMES_MAX extensions fits */
    LARGE_BYTES = 2048,  /* rare large answers, such as INFO's, do not enlarge the block */
};

struct reply_memory_large {
    struct reply_memory_large *next;
    size_t length;
    max_align_t bytes[];
};

/* Zeroed; NULL without memory, which the reader reports as an error, like too many elements. */
static void *take(struct reply_memory *replies, size_t length) {
    size_t room = (length + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);

    if (!replies->block)
        replies->block = malloc(BLOCK_BYTES);
    if (replies->block && room < LARGE_BYTES && room <= BLOCK_BYTES - replies->used) {
        void *bytes = replies->block + replies->used;
        replies->used += room;
        return memset(bytes, 0, length);
    }
    struct reply_memory_large *large = calloc(1, sizeof(*large) + room);
    if (!large)
        return NULL;
    large->next = replies->large;
    large->length = room;
    replies->large = large;
    return large->bytes;
}

/* Arrays around the value that the task reads. */
static int depth_of(const redisReadTask *task) {
    int depth = 0;

    while ((task = task->parent))
        depth++;
    return depth;
}

/* Whether the answer may have so many more elements. */
static bool may_have(struct reply_memory *replies, size_t elements) {
    replies->unasked |= replies->count == 0 && replies->asked && list_is_empty(replies->asked);
    replies->excessive |= elements > NODE_ANSWER_ELEMENTS_MAX - replies->count;
    return !replies->excessive && !replies->unasked;
}

static redisReply *make(const redisReadTask *task, int type) {
    redisReply *reply = may_have(task->privdata, 1) ? take(task->privdata, sizeof(*reply)) : NULL;

    if (!reply)
        return NULL;
    ((struct reply_memory *) task->privdata)->count++;
    reply->type = type;
    if (task->parent) {
        redisReply *parent = task->parent->obj;
        assert(task->idx >= 0 && (size_t) task->idx < parent->elements);
        parent->element[task->idx] = reply;
    }
    return reply;
}

static void *make_string(const redisReadTask *task, char *bytes, size_t length) {
    redisReply *reply = make(task, task->type);

    if (!reply || !(reply->str = take(task->privdata, length + 1)))
        return NULL;
    memcpy(reply->str, bytes, length);
    reply->len = length;
    return reply;
}

static void *make_number(const redisReadTask *task, long long number) {
    redisReply *reply = make(task, REDIS_REPLY_INTEGER);

    if (reply)
        reply->integer = number;
    return reply;
}

static void *make_nothing(const redisReadTask *task) {
    return make(task, REDIS_REPLY_NIL);
}

#if HIREDIS_MAJOR >= 1
typedef size_t array_length;

/* RESP3 types, which the scripts do not answer. */
static void *make_double(const redisReadTask *task, double number, char *bytes, size_t length) {
    (void) number;
    (void) bytes;
    (void) length;
    return make_nothing(task);
}

static void *make_bool(const redisReadTask *task, int value) {
    (void) value;
    return make_nothing(task);
}
#else
typedef int array_length;
#endif

static void *make_array(const redisReadTask *task, array_length length) {
    size_t elements = (size_t) length;
    struct reply_memory *replies = task->privdata;

    replies->too_deep |= depth_of(task) >= NODE_ANSWER_DEPTH_MAX;
    redisReply *reply =
        !replies->too_deep && may_have(replies, 1 + elements) ? make(task, task->type) : NULL;
    if (!reply || !(reply->element = take(replies, elements * sizeof(void *))))
        return NULL;
    reply->elements = elements;
    return reply;
}

/* reply_memory_clear() frees. */
static void keep(void *reply) {
    (void) reply;
}

void reply_memory_attach(struct reply_memory *replies, redisContext *context) {
    static redisReplyObjectFunctions functions = {
        .createString = make_string,
        .createArray = make_array,
        .createInteger = make_number,
        .createNil = make_nothing,
#if HIREDIS_MAJOR >= 1
        .createDouble = make_double,
        .createBool = make_bool,
#endif
        .freeObject = keep,
    };

    reply_memory_clear(replies);
    context->reader->fn = &functions;
    context->reader->privdata = replies;
}

void reply_memory_clear(struct reply_memory *replies) {
    secret_clear(replies->block, replies->used);
    replies->used = replies->count = 0;
    replies->excessive = replies->too_deep = replies->unasked = false;
    while (replies->large) {
        struct reply_memory_large *large = replies->large;
        replies->large = large->next;
        secret_memory_free(large, sizeof(*large) + large->length);
    }
}

void reply_memory_explain(const struct reply_memory *replies, redisContext *context) {
    if (!replies->excessive && !replies->too_deep && !replies->unasked)
        return;
    context->err = REDIS_ERR_PROTOCOL;
    if (replies->unasked)
        (void) snprintf(context->errstr, sizeof(context->errstr), "it answered without a request");
    else if (replies->too_deep)
        (void) snprintf(context->errstr, sizeof(context->errstr),
                        "an answer has arrays nested more than %d deep", (int) NODE_ANSWER_DEPTH_MAX);
    else
        (void) snprintf(context->errstr, sizeof(context->errstr), "an answer has more than %d elements",
                        (int) NODE_ANSWER_ELEMENTS_MAX);
}

int reply_memory_count(redisContext *context, size_t n, size_t *unfinished) {
    *unfinished += n;
    if (*unfinished <= NODE_ANSWER_BYTES_MAX)
        return 0;
    context->err = REDIS_ERR_PROTOCOL;
    (void) snprintf(context->errstr, sizeof(context->errstr), "an answer has more than %d bytes",
                    (int) NODE_ANSWER_BYTES_MAX);
    return -EMSGSIZE;
}

void reply_memory_deinit(struct reply_memory *replies) {
    reply_memory_clear(replies);
    free(replies->block);
    replies->block = NULL;
}
