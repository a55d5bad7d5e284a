/* The answers of the scripts `probe`, `bless` and `amend`; their head comments describe them. */
#pragma once

#include <hiredis/hiredis.h>

#include "core/event.h"
#include "core/node.h"
#include "io/node/fleet.h"

/* The part of a probe that the connection keeps; the rest goes to the shard. */
struct probe_reply_notes {
    char epoch[EPOCH_BYTES_MAX];       /* of a blessed node; otherwise "" */
    struct epoch fields;               /* the same, parsed */
    char difference[DIFFERENCE_BYTES]; /* how another agent is configured differently; "": as far as is known
                                          not */
    char others[NODE_TROUBLE_BYTES];
};

/* Whether one of the scripts has such an answer, or it is an error. */
bool probe_reply_fits(const redisReply *reply, unsigned n_nodes);

/* Of a reply that fits. The error, if any, points into the reply, other texts into the notes. */
struct probe probe_reply_read(const redisReply *reply, instant_ns sent_ns, const struct fleet *fleet,
                              struct probe_reply_notes *notes);
