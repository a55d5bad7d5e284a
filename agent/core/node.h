/* What a keeper believes of one node: whether it may be asked, how long it has been silent, and its last
 * trouble. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/instant.h"

enum { NODE_TROUBLE_BYTES = 120 };

struct node {
    bool ready;   /* connected, greeted, scripts loaded */
    bool stalled; /* silent for NODE_STALLED_MS with requests outstanding: not asked until it answers */
    bool cut;     /* silent for NODE_CUT_MS: the transport was told to give the connection up */
    uint32_t outstanding;             /* requests sent and not answered */
    instant_ns progress_ns;           /* the later of: last answer, first request after silence */
    char trouble[NODE_TROUBLE_BYTES]; /* why it does not vote, or its last refusal; "" when fine */
};

enum node_change { NODE_SAME, NODE_RECOVERED, NODE_STALLED, NODE_CUT };

void node_init(struct node *node);
void node_ready(struct node *node, instant_ns now_ns);
void node_gone(struct node *node, const char *reason);

/* Requests may be sent to it. */
static inline bool node_can_be_asked(const struct node *node) {
    return node->ready && !node->stalled;
}

void node_sent(struct node *node, instant_ns now_ns);

/* An answer came, or the request was cut off (`answered` false). NODE_RECOVERED when it had stalled. */
enum node_change node_answered(struct node *node, bool answered, instant_ns now_ns);

/* Judges its silence: NODE_STALLED or NODE_CUT when that has just begun. */
enum node_change node_tick(struct node *node, instant_ns now_ns);

/* When node_tick() has something to say at the earliest. */
instant_ns node_due_ns(const struct node *node);

/* Notes a refusal's text, cut to fit. */
void node_note_trouble(struct node *node, const char *text, size_t length);
