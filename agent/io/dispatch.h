/* What a keeper tells the front, in the order in which it happened. Of extensions, which are most of it, up
 * to DISPATCH_EXTENSIONS_MAX in a row travel together. */
#pragma once

#include "core/event.h"
#include "core/shard.h"
#include "io/mailbox.h"
#include "local/service.h"

enum { DISPATCH_EXTENSIONS_MAX = BATCH_NAMES_MAX };

enum dispatch_kind { DISPATCH_REPORT, DISPATCH_EXTENSIONS, DISPATCH_SURVEY, DISPATCH_PONG };

/* A record of the mailbox: this, then the report's text, the extensions, or a struct keeper_survey. */
struct dispatch {
    enum dispatch_kind kind;
    uint32_t number;      /* of the survey or ping that it answers; how many extensions */
    struct report report; /* but for extensions */
};

struct keeper_survey {
    struct shard_counters counters;
    struct node_figures figures[NODES_MAX];
};

/* The keeper's end. */
struct dispatcher {
    struct mailbox *outbox;
    struct extension extensions[DISPATCH_EXTENSIONS_MAX]; /* not yet in there */
    uint32_t n_extensions;
};

/* `outbox` must outlive it. Nothing is to be freed. */
void dispatcher_init(struct dispatcher *dispatcher, struct mailbox *outbox);

/* What the shard reports. The text is copied. */
void dispatch_report(struct dispatcher *dispatcher, const struct report *report);

void dispatch_survey(struct dispatcher *dispatcher, uint32_t number, const struct keeper_survey *survey);
void dispatch_pong(struct dispatcher *dispatcher, uint32_t number);

/* Wakes the front for what there is. True when there is more to do: call again in a millisecond. */
bool dispatch_flush(struct dispatcher *dispatcher);
