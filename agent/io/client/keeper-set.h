/* The front's view of the agent's keepers: starts them, posts to the keeper of a name, reads their
 * messages. */
#pragma once

#include "io/loop/poller.h"
#include "io/node/keeper-message.h"
#include "io/node/keeper.h"

struct keeper_set {
    struct keeper *keepers[KEEPERS_MAX];
    unsigned n;
    uint32_t survey;            /* number of the last survey of the counters */
    unsigned n_awaited;         /* keepers that have not replied to it */
    instant_ns survey_until_ns; /* INSTANT_NEVER: none is under way */
};

void keeper_set_init(struct keeper_set *set);

/* Starts the keepers of the configuration; their messages begin a turn of the poller. The configuration and
 * the agent's id outlive them. 0 or a negative errno; then keeper_set_deinit() ends those that run. */
int keeper_set_start(struct keeper_set *set, const struct config *config, const char *agent_id,
                     uint32_t requests_max, struct poller *poller);

/* Stops and frees the keepers. */
void keeper_set_deinit(struct keeper_set *set);

/* Posts a command to the keeper of this name. */
void keeper_set_command(struct keeper_set *set, uint64_t name_hash, const struct command *command);

/* Posts to all keepers; `tail` follows the command, as its kind needs. */
void keeper_set_broadcast(struct keeper_set *set, const struct keeper_command *command, const void *tail,
                          size_t tail_length);

/* Wakes the keepers that have something posted. True when there is more to do: call again in a
 * millisecond. */
bool keeper_set_flush(struct keeper_set *set);

/* Whether a message waits: as mailbox_waits(). */
bool keeper_set_waits(struct keeper_set *set, bool sleeping);

/* The next message of this keeper, or NULL: as of mailbox_next(). */
const struct keeper_message *keeper_set_next(struct keeper_set *set, unsigned keeper, size_t *ret_length);

/* Requests the counters of all keepers, unless a survey is under way. It ends when all have replied, or at
 * `survey_until_ns`. */
void keeper_set_survey(struct keeper_set *set, instant_ns now_ns);

/* A keeper has replied to the survey with this number. True when all have. */
bool keeper_set_survey_reply(struct keeper_set *set, uint32_t number);

void keeper_set_end_survey(struct keeper_set *set);
