/* The default linger: the agent allows at most its max_ttl, or that of a rule, which the command does not
 * know. */
#pragma once

#include <stdbool.h>

struct redlock;
struct redlock_options;

/* After a request that failed with `error`: true when the agent refuses the linger in `options`. Then the
 * linger is half as long as before, at least 100 ms, which every agent allows; the caller asks again. */
bool linger_shorten(struct redlock_options *options, const struct redlock *connection, int error);
