/* What the scripts `probe` and `bless` answer: {1, TIME, epoch}, {0, TIME, marked} or {0, TIME, 2}. */
#pragma once

#include "core/event.h"
#include "io/redis.h"

/* `epoch` gets that of a node that is blessed, "" otherwise. The error, if there is one, points into the
 * reply. */
struct probe probe_read(const redisReply *reply, instant_ns sent_ns, char epoch[static EPOCH_BYTES_MAX]);
