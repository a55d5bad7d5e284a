/* What the nodes' scripts answer, as votes. */
#pragma once

#include <stdint.h>

#include <hiredis/hiredis.h>

#include "core/event.h"

/* The vote on the name at place `index` of a call with `count` names. `reply` NULL: it was cut off. Texts
 * are the reply's. */
struct vote script_replies_vote(enum operation operation, uint32_t count, const redisReply *reply,
                                uint32_t index);

/* What the node's clock said; negative when the answer does not tell. */
int64_t script_replies_time_us(enum operation operation, const redisReply *reply);
