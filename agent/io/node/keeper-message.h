/* Messages from a keeper to the front, in order. Up to KEEPER_MESSAGE_EXTENSIONS_MAX extensions in a row,
 * which are most of the messages, share one. */
#pragma once

#include "core/event.h"
#include "core/shard.h"
#include "io/loop/mailbox.h"
#include "local/front-state.h"

enum { KEEPER_MESSAGE_EXTENSIONS_MAX = BATCH_NAMES_MAX };

enum keeper_message_kind {
    KEEPER_MESSAGE_REPORT,
    KEEPER_MESSAGE_EXTENSIONS,
    KEEPER_MESSAGE_SURVEY,
    KEEPER_MESSAGE_PONG
};

/* A record of the mailbox: this, then the report's text, the extensions, or a struct
 * keeper_message_survey. */
struct keeper_message {
    enum keeper_message_kind kind;
    uint32_t number;      /* of the answered survey or ping; or the number of extensions */
    struct report report; /* except for extensions */
};

struct keeper_message_survey {
    struct shard_counters counters;
    struct histogram timer_delays;
    struct front_state_node_times figures[NODES_MAX];
};

/* The keeper's end. */
struct keeper_message_queue {
    struct mailbox *outbox;
    struct extension extensions[KEEPER_MESSAGE_EXTENSIONS_MAX]; /* not in the outbox yet */
    uint32_t n_extensions;
};

/* `outbox` must outlive it. Nothing is to be freed. */
void keeper_message_queue_init(struct keeper_message_queue *queue, struct mailbox *outbox);

/* Queues a report of the shard. The text is copied. */
void keeper_message_report(struct keeper_message_queue *queue, const struct report *report);

void keeper_message_survey(struct keeper_message_queue *queue, uint32_t number,
                           const struct keeper_message_survey *survey);
void keeper_message_pong(struct keeper_message_queue *queue, uint32_t number);

/* Wakes the front. True when the outbox is full: call again in a millisecond. */
bool keeper_message_flush(struct keeper_message_queue *queue);
