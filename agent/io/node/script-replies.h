/* The answers of the scripts on leases, as votes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include "core/event.h"

/* Whether the script of a call with `count` names has such an answer, or it is an error. */
bool script_replies_fit(enum operation operation, uint32_t count, const redisReply *reply);

/* The vote on the name at place `index` of the call, for a reply that fits. NULL: cut off. Texts point into
 * the reply. */
struct vote script_replies_vote(enum operation operation, const redisReply *reply, uint32_t index);

/* The node's TIME in microseconds; negative when the answer, which fits or is NULL, has none. */
int64_t script_replies_time_us(enum operation operation, const redisReply *reply);
