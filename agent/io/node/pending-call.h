/* Commands under way on a connection, kept to repeat them if the node lost the scripts. Their free list
 * saves less than 5 % of any figure; with it the hot path allocates nothing (test_allocations). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <hiredis/async.h>

#include "base/instant.h"
#include "base/list.h"
#include "core/reload-queue.h"

struct redis;

/* `userdata`: the record, or a rare one's tag. */
typedef void pending_call_reply(redisReply *reply, void *userdata);

struct pending_call_piece {
    const char *bytes;
    size_t length;
};

struct pending_call {
    struct reload_queue_entry entry; /* its link: of the free, sent or held-back ones */
    unsigned below;                  /* while free: the number of free ones below in the stack */
    struct redis *redis;
    pending_call_reply *on_reply;
    void *tag;
    bool rare; /* freed after the answer, instead of kept */
    instant_ns sent_ns;
    /* The bytes on the wire: head, the record's own, tail. Other records share head and tail. */
    struct pending_call_piece head, tail;
    char *bytes;
    size_t length, room;
};

static inline struct pending_call *pending_call_of(struct list *link) {
    return list_entry(link, struct pending_call, entry.link);
}

static inline size_t pending_call_length(const struct pending_call *record) {
    return record->head.length + record->length + record->tail.length;
}

/* A record with room for `length` bytes, a free one if there is any; in no list.
 * NULL without memory. */
struct pending_call *pending_call_new(struct list *free_records, size_t length);

/* Moves the record to the free ones, or frees it if there are enough of them. */
void pending_call_give(struct list *free_records, struct pending_call *record);

void pending_call_free(struct pending_call *record);
void pending_call_free_all(struct list *list);
