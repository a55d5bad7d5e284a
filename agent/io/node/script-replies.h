/* The answers of the scripts on leases, as votes. */
#pragma once

#include <stdint.h>

#include <hiredis/hiredis.h>

#include "core/event.h"

/* The vote on the name at place `index` of a call with `count` names. `reply` NULL: cut off. Texts point
 * into the reply. */
struct vote script_replies_vote(enum operation operation, uint32_t count, const redisReply *reply,
                                uint32_t index);

/* The node's TIME in microseconds; negative when the answer has none. */
int64_t script_replies_time_us(enum operation operation, const redisReply *reply);
