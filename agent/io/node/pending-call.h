/* Commands under way on a connection, kept to repeat them in case the node has forgotten our scripts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <hiredis/async.h>

#include "base/instant.h"
#include "base/list.h"

struct redis;

struct pending_call_piece {
    const char *bytes;
    size_t length;
};

struct pending_call {
    struct list link; /* among the free, the sent or the held */
    unsigned below;   /* while it is free: how many it lies upon */
    struct redis *redis;
    redisCallbackFn *on_reply; /* with this record; of a rare one with its tag */
    void *tag;
    bool rare; /* goes once it is answered, instead of to the free ones */
    instant_ns sent_ns;
    bool repeated;
    /* What goes over the wire: the record's own bytes, between those that it shares with others. */
    struct pending_call_piece head, tail;
    char *bytes;
    size_t length, room;
};

static inline size_t pending_call_length(const struct pending_call *record) {
    return record->head.length + record->length + record->tail.length;
}

/* One with room for that many bytes, from the free ones if there is any; in no list. */
struct pending_call *pending_call_new(struct list *free_records, size_t length);

/* To those that wait for the scripts, in the order in which they were asked for: what is to be repeated
 * before what has not been sent yet. It is in no list. */
void pending_call_hold(struct list *held, struct pending_call *record);

/* Out of its list, to the free ones, of which there are only so many. */
void pending_call_give(struct list *free_records, struct pending_call *record);

void pending_call_free(struct pending_call *record);
void pending_call_free_all(struct list *list);
