/* Commands under way on a connection, kept to repeat them in case the node has forgotten our scripts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <hiredis/async.h>

#include "base/instant.h"
#include "base/list.h"

struct redis;

struct record_piece {
    const char *bytes;
    size_t length;
};

struct command_record {
    struct list link; /* among the free, the sent or the held */
    unsigned below;   /* while it is free: how many it lies upon */
    struct redis *redis;
    redisCallbackFn *on_reply; /* with this record; of a rare one with its tag */
    void *tag;
    bool rare; /* goes once it is answered, instead of to the free ones */
    instant_ns sent_ns;
    bool repeated;
    /* What goes over the wire: the record's own bytes, between those that it shares with others. */
    struct record_piece head, tail;
    char *bytes;
    size_t length, room;
};

static inline size_t record_length(const struct command_record *record) {
    return record->head.length + record->length + record->tail.length;
}

/* One with room for that many bytes, from the free ones if there is any; in no list. */
struct command_record *record_new(struct list *free_records, size_t length);

/* To those that wait for the scripts, in the order in which they were asked for: what is to be repeated
 * before what has not been sent yet. It is in no list. */
void record_hold(struct list *held, struct command_record *record);

/* Out of its list, to the free ones, of which there are only so many. */
void record_give(struct list *free_records, struct command_record *record);

void record_free(struct command_record *record);
void records_free(struct list *list);
