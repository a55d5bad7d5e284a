/* The keepers of an agent, as the front sees them: started, addressed by name, read in turn. */
#pragma once

#include "io/loop/poller.h"
#include "io/node/keeper-message.h"
#include "io/node/keeper.h"

struct keeper_set {
    struct keeper *keepers[KEEPERS_MAX];
    unsigned n;
};

/* Starts the keepers of the configuration; their messages begin a turn of the poller. The configuration and
 * the agent's id outlive them. 0 or a negative errno; then keeper_set_deinit() ends those that run. */
int keeper_set_start(struct keeper_set *set, const struct config *config, const char *agent_id,
                     uint32_t requests_max, struct poller *poller);

/* Stops and frees the keepers. Fine for all zeroes. */
void keeper_set_deinit(struct keeper_set *set);

/* Posts a command to the keeper of this name. */
void keeper_set_command(struct keeper_set *set, uint64_t name_hash, const struct command *command);

/* Posts to all keepers; `tail` is what the kind of command says. */
void keeper_set_broadcast(struct keeper_set *set, const struct keeper_command *command, const void *tail,
                          size_t tail_length);

/* Wakes the keepers that have something posted. True when there is more to do: call again in a millisecond.
 */
bool keeper_set_flush(struct keeper_set *set);

/* Whether a message waits, and whether the poller is about to sleep: as of mailbox_waits(). */
bool keeper_set_waits(struct keeper_set *set, bool sleeping);

/* The next message of this keeper, or NULL: as of mailbox_next(). */
const struct keeper_message *keeper_set_next(struct keeper_set *set, unsigned keeper, size_t *ret_length);
