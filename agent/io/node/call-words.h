/* The words of a turn's requests, and of the script calls that they share: keys and arguments, as the
 * scripts' head comments say. The node's own words (its epoch, floor and channel) are added for each node.
 * */
#pragma once

#include "config/config.h"
#include "core/call-plan.h"
#include "io/node/evalsha.h"
#include "io/node/redis.h"
#include "io/node/script.h"

enum {
    CALL_WORDS_MAX = 3 * BATCH_NAMES_MAX + 8,
    CALL_WORDS_OWN_MAX = 2, /* words of a node's own in a call */
};

/* A call's keys and arguments, except for the node's own words. */
struct call_words_call {
    enum script_id script;
    size_t count, n_keys;
    size_t own_at, n_own; /* the place and number of the node's own */
    const uint8_t *own;
    bool each; /* numbers for each name, or one for all */
    struct evalsha_item items[CALL_WORDS_MAX];
};

struct call_words;

/* 0 or -ENOMEM. `config`, `agent_id` and `turn` must outlive it; it owns the memory of the turn's items. */
int call_words_new(const struct config *config, const char *agent_id, struct call_plan_turn *turn,
                   struct call_words **ret);

/* NULL is fine. Returns NULL. */
struct call_words *call_words_free(struct call_words *words);

/* Adds the request to the turn; its bytes are copied. */
void call_words_add(struct call_words *words, const struct send *send);

/* The words of a call of the turn, until call_words_clear(). */
void call_words_compose(const struct call_words *words, const struct call_plan_call *plan,
                        struct call_words_call *ret);

/* The node's own words in the call, for the plan's first request. */
void call_words_own(const struct call_words_call *call, const struct call_plan_item *first,
                    const struct redis *redis, struct evalsha_item ret[CALL_WORDS_OWN_MAX]);

/* The turn is over: forgets its words. */
void call_words_clear(struct call_words *words);
